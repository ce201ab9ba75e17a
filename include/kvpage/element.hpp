// kvpage: the element types that a page's K and V can have.
//
// An element type is any trivially copyable type of 1, 2 or 4 bytes with an `element_traits`
// specialisation; adding one takes nothing else.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "config.hpp"

namespace kvpage::inline v0 {

struct bf16 {
  std::uint16_t bits;
};
struct fp16 {
  std::uint16_t bits;
};
struct fp8_e4m3 {
  std::uint8_t bits;
};
struct fp8_e5m2 {
  std::uint8_t bits;
};

template <class E>
struct element_traits;

template <>
struct element_traits<bf16> {
  static constexpr std::string_view name = "bf16";
};
template <>
struct element_traits<fp16> {
  static constexpr std::string_view name = "fp16";
};
template <>
struct element_traits<fp8_e4m3> {
  static constexpr std::string_view name = "fp8_e4m3";
};
template <>
struct element_traits<fp8_e5m2> {
  static constexpr std::string_view name = "fp8_e5m2";
};

template <class E>
concept element = std::is_trivially_copyable_v<E> && requires {
  { element_traits<E>::name } -> std::convertible_to<std::string_view>;
};

}  // namespace kvpage::inline v0
