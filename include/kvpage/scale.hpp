// kvpage: the scales that 8-bit elements are stored with: a value is its element x its scale.
//
// A computed scale maps the largest magnitude of the values that share it onto the element's largest
// value.  It is never zero, subnormal or infinite, so that all-zero values give zeros and dividing by it
// is safe; the same bits on host and device.
#pragma once

#include <cstdint>

#include "config.hpp"
#include "element.hpp"

namespace kvpage::inline v0 {

// The 8-bit scale format of the OCP microscaling specification (MX): an exponent e, meaning 2^(e - 127).
struct ue8m0 {
  std::uint8_t exponent;
};

[[nodiscard]] KVPAGE_HOST_DEVICE constexpr float decode(ue8m0 scale) noexcept {
  return detail::float_from_bits(std::uint32_t{scale.exponent} << 23);
}

// The smallest power of two that is not below `scale`, a normal positive float of at most 2^127.
[[nodiscard]] KVPAGE_HOST_DEVICE constexpr ue8m0 encode_upwards(float scale) noexcept {
  return {static_cast<std::uint8_t>((detail::float_bits(scale) + 0x7FFFFFu) >> 23)};
}

namespace detail {

// Rounds to nearest, whatever fast-math options nvcc was given.
KVPAGE_HOST_DEVICE constexpr float divide(float numerator, float denominator) noexcept {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(numerator, denominator);
#else
  return numerator / denominator;
#endif
}

inline constexpr std::int32_t largest_float_bits = float_infinity_bits - 1;

// The bits of |value|, which order as the magnitudes do.  NaN has none, infinity counts as the largest
// float: one bad value does not spoil the others' scale.
KVPAGE_HOST_DEVICE constexpr std::int32_t magnitude_bits(float value) noexcept {
  const auto magnitude = static_cast<std::int32_t>(float_bits(value) & 0x7FFFFFFFu);
  const std::int32_t finite = magnitude > largest_float_bits ? largest_float_bits : magnitude;
  return magnitude > float_infinity_bits ? 0 : finite;
}

// The scale of values whose largest magnitude_bits() is given: largest magnitude / largest element, and
// at least the smallest normal float.
template <element E>
KVPAGE_HOST_DEVICE constexpr float computed_scale(std::int32_t largest_magnitude) noexcept {
  constexpr float smallest_normal = 0x1p-126f;
  const float scale =
      divide(float_from_bits(static_cast<std::uint32_t>(largest_magnitude)), element_traits<E>::largest);
  return scale < smallest_normal ? smallest_normal : scale;
}

}  // namespace detail
}  // namespace kvpage::inline v0
