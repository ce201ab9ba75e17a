// kvpage: conversion of whole arrays between element types and float, on the host.
#pragma once

#include <gsl/assert>

#include <concepts>
#include <cstddef>
#include <span>

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

// to[i] = operation(from[i]); returns to + count.  In blocks of a length known at compile time, which
// compilers vectorise even at -O2.
template <class To, class From, class Operation>
constexpr To* transform_blocks(const From* from, To* to, std::size_t count, Operation operation) noexcept {
  constexpr std::size_t block = 32;
  const std::size_t in_blocks = count - count % block;
  for (std::size_t done = 0; done < in_blocks; done += block) {
    for (std::size_t i = 0; i < block; ++i) to[done + i] = operation(from[done + i]);
  }
  for (std::size_t i = in_blocks; i < count; ++i) to[i] = operation(from[i]);
  return to + count;
}

}  // namespace detail

// to[i] = from[i] converted.  The spans have equal sizes and do not overlap.  O(n), vectorised.
template <numeric To, numeric From>
constexpr void convert_elements(std::span<const From> from, std::span<To> to) {
  Expects(from.size() == to.size());
  detail::transform_blocks(from.data(), to.data(), from.size(),
                           [](From value) { return convert_value<To>(value); });
}

}  // namespace kvpage::inline v0
