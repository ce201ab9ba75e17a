// kvpage: conversion of whole arrays between element types and float, on the host.
#pragma once

#include <gsl/assert>

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

#include "element.hpp"

namespace kvpage::inline v0 {

// What a value outside the pages can be: an element, or float itself.
template <class T>
concept numeric = std::same_as<T, float> || element<T>;

// One value from one numeric type to another, through float: exact on the way there, rounded once on the
// way back.  Between equal types the bits stay as they are, NaNs included.
template <numeric To, numeric From>
[[nodiscard]] KVPAGE_HOST_DEVICE constexpr To convert_value(From value) noexcept {
  if constexpr (std::same_as<To, From>) {
    return value;
  } else if constexpr (std::same_as<To, float>) {
    return decode(value);
  } else if constexpr (std::same_as<From, float>) {
    return encode<To>(value);
  } else {
    return encode<To>(decode(value));
  }
}

namespace detail {

#if defined(__x86_64__) && defined(__GNUC__)
// Compiles `work` and everything it calls for AVX2.  Without FMA: no product is rounded differently.
template <class Work>
[[gnu::target("avx2"), gnu::flatten]] void run_for_avx2(Work work) noexcept {
  work();
}
#endif

// work(), with vectors as wide as the processor has them: twice what every x86-64 can do, and loops over
// elements take less than half the time.
template <class Work>
constexpr void run_vectorised(Work work) noexcept {
#if defined(__x86_64__) && defined(__GNUC__)
  if (!std::is_constant_evaluated() && __builtin_cpu_supports("avx2")) return run_for_avx2(work);
#endif
  work();
}

// Blocks of a length known at compile time, and pointers that don't alias: compilers vectorise this even at
// -O2.
template <class To, class From, class Operation>
[[gnu::always_inline]] constexpr void transform_blocks(const From* __restrict from, To* __restrict to,
                                                       std::size_t count, Operation operation) noexcept {
  constexpr std::size_t block = 32;
  const std::size_t in_blocks = count - count % block;
  for (std::size_t done = 0; done < in_blocks; done += block) {
    for (std::size_t i = 0; i < block; ++i) to[done + i] = operation(from[done + i]);
  }
  for (std::size_t i = in_blocks; i < count; ++i) to[i] = operation(from[i]);
}

// to[i] = operation(from[i]); returns to + count.
template <class To, class From, class Operation>
constexpr To* transform(const From* from, To* to, std::size_t count, Operation operation) noexcept {
  run_vectorised([=] { transform_blocks(from, to, count, operation); });
  return to + count;
}

}  // namespace detail

// to[i] = from[i] converted.  The spans have equal sizes and do not overlap.  O(n), vectorised.
template <numeric To, numeric From>
constexpr void convert_elements(std::span<const From> from, std::span<To> to) {
  Expects(from.size() == to.size());
  detail::transform(from.data(), to.data(), from.size(), [](From value) { return convert_value<To>(value); });
}

}  // namespace kvpage::inline v0
