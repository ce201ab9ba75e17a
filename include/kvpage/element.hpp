// kvpage: the element types that a page's K and V can have, exact to the bit.
//
// An element type is any trivially copyable type of 1, 2 or 4 bytes with an `element_traits`
// specialisation: its name, its largest finite value, `decode` to float and `encode` from float.
// Adding one takes nothing else.
//
//   type      sign exponent mantissa  bias  largest   beyond it                NaN written as
//   bf16        1      8        7     127   3.39e38   infinity                 7FFF
//   fp16        1      5       10      15   65504     infinity                 7FFF
//   fp8_e4m3    1      4        3       7   448       saturates (7E or FE)     7F
//   fp8_e5m2    1      5        2      15   57344     saturates (7B or FB)     7F
//
// Encoding rounds to nearest, ties to even, as the `_rn` conversions of cuda_bf16.h and cuda_fp16.h
// and the `__NV_SATFINITE` conversions of cuda_fp8.h do.  Decoding is exact.  e4m3 is the finite-only
// variant of the OCP 8-bit floating point specification (OFP8): no infinity, and S.1111.111 is NaN.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "config.hpp"

namespace kvpage::inline v0 {

struct bf16 {
  std::uint16_t bits;
  friend bool operator==(const bf16&, const bf16&) = default;  // of the bits: -0 differs from +0
};
struct fp16 {
  std::uint16_t bits;
  friend bool operator==(const fp16&, const fp16&) = default;
};
struct fp8_e4m3 {
  std::uint8_t bits;
  friend bool operator==(const fp8_e4m3&, const fp8_e4m3&) = default;
};
struct fp8_e5m2 {
  std::uint8_t bits;
  friend bool operator==(const fp8_e5m2&, const fp8_e5m2&) = default;
};

namespace detail {

KVPAGE_HOST_DEVICE constexpr std::uint32_t float_bits(float value) noexcept {
  return __builtin_bit_cast(std::uint32_t, value);
}
KVPAGE_HOST_DEVICE constexpr float float_from_bits(std::uint32_t bits) noexcept {
  return __builtin_bit_cast(float, bits);
}

inline constexpr std::int32_t float_infinity_bits = 0x7F800000;

// A sign-magnitude floating-point format smaller than float, with IEEE's subnormals.  `Largest` is the
// bit pattern that overflow rounds to (infinity, or the largest finite value); patterns from `FirstNan`
// on are NaN, and NaN is written as `Nan`.
//
// Only 32-bit operations without a comparison: g++ makes branches of those, and then no vector code.
template <class Bits, int ExponentBits, int MantissaBits, std::int32_t Largest, std::int32_t FirstNan,
          std::int32_t Nan>
struct small_float {
  static constexpr int width = static_cast<int>(sizeof(Bits)) * 8;
  static constexpr int bias = (1 << (ExponentBits - 1)) - 1;
  static constexpr int shift = 23 - MantissaBits;
  static constexpr std::int32_t rebias = (127 - bias) << 23;
  static constexpr std::int32_t smallest_normal = rebias + (1 << 23);  // as float's bits
  static constexpr std::int32_t magnitude_mask = (1 << (width - 1)) - 1;
  static constexpr bool is_wide = bias == 127;  // float's own exponents: subnormals need no care

  KVPAGE_HOST_DEVICE static constexpr Bits encode(float value) noexcept {
    const std::uint32_t bits = float_bits(value);
    const auto magnitude = static_cast<std::int32_t>(bits & 0x7FFFFFFFu);
    const auto sign = static_cast<std::int32_t>((bits >> 31) << (width - 1));
    std::int32_t rounded;
    if constexpr (is_wide) {
      rounded = round_mantissa(magnitude);
    } else {
      // A float of this exponent has the smallest subnormal as its last place: adding it rounds to
      // nearest even, and leaves the result in the sum's low bits.
      constexpr std::int32_t rounder = (127 + 23 + 1 - bias - MantissaBits) << 23;
      const std::int32_t is_subnormal = ones_if_less(magnitude, smallest_normal);
      const float sum = float_from_signed(magnitude) + float_from_signed(rounder & is_subnormal);
      const auto sum_bits = static_cast<std::int32_t>(float_bits(sum));
      rounded = select(is_subnormal, sum_bits - rounder, round_mantissa(sum_bits));
    }
    rounded = select(ones_if_less(Largest, rounded), Largest, rounded) | sign;
    return static_cast<Bits>(select(ones_if_less(float_infinity_bits, magnitude), Nan, rounded));
  }

  KVPAGE_HOST_DEVICE static constexpr float decode(Bits bits) noexcept {
    const std::int32_t magnitude = bits & magnitude_mask;
    const std::uint32_t sign = static_cast<std::uint32_t>(bits >> (width - 1)) << 31;
    const std::int32_t rebiased = (magnitude << shift) + rebias;
    if constexpr (is_wide) return float_from_bits(static_cast<std::uint32_t>(rebiased) | sign);

    // A subnormal is given the smallest normal number's leading one, which is then subtracted.
    const std::int32_t is_subnormal = ones_if_less(magnitude, 1 << MantissaBits);
    const float difference = float_from_signed(rebiased + ((1 << 23) & is_subnormal)) -
                             float_from_signed(smallest_normal & is_subnormal);
    std::uint32_t number = float_bits(difference);
    // The pattern below the first NaN is infinity, if its mantissa is zero: it gets all exponent bits.
    constexpr std::int32_t below_nan = FirstNan - 1;
    constexpr bool has_infinity = (below_nan & ((1 << MantissaBits) - 1)) == 0;
    const auto is_nan = static_cast<std::uint32_t>(ones_if_less(below_nan, magnitude));
    if constexpr (has_infinity)
      number |= static_cast<std::uint32_t>(float_infinity_bits & ~ones_if_less(magnitude, below_nan));
    return float_from_bits(((number | sign) & ~is_nan) | (0x7FFFFFFFu & is_nan));
  }

 private:
  // a < b, for magnitudes.
  KVPAGE_HOST_DEVICE static constexpr std::int32_t ones_if_less(std::int32_t a, std::int32_t b) noexcept {
    return (a - b) >> 31;
  }
  KVPAGE_HOST_DEVICE static constexpr std::int32_t select(std::int32_t mask, std::int32_t ones,
                                                          std::int32_t zeros) noexcept {
    return (ones & mask) | (zeros & ~mask);
  }
  KVPAGE_HOST_DEVICE static constexpr float float_from_signed(std::int32_t bits) noexcept {
    return float_from_bits(static_cast<std::uint32_t>(bits));
  }

  // From float's bits to the format's; a carry out of the mantissa makes the exponent the right one.
  KVPAGE_HOST_DEVICE static constexpr std::int32_t round_mantissa(std::int32_t magnitude) noexcept {
    const std::int32_t rebiased = magnitude - rebias;
    const std::uint32_t half = (1u << (shift - 1)) - 1 + (static_cast<std::uint32_t>(rebiased >> shift) & 1u);
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(rebiased) + half) >> shift;  // NaN wraps
  }
};

using bf16_format = small_float<std::uint16_t, 8, 7, 0x7F80, 0x7F81, 0x7FFF>;
using fp16_format = small_float<std::uint16_t, 5, 10, 0x7C00, 0x7C01, 0x7FFF>;
using fp8_e4m3_format = small_float<std::uint8_t, 4, 3, 0x7E, 0x7F, 0x7F>;
using fp8_e5m2_format = small_float<std::uint8_t, 5, 2, 0x7B, 0x7D, 0x7F>;

// What the four specialisations of element_traits have in common.
template <class E, class Format>
struct small_float_traits {
  KVPAGE_HOST_DEVICE static constexpr float decode(E value) noexcept { return Format::decode(value.bits); }
  KVPAGE_HOST_DEVICE static constexpr E encode(float value) noexcept { return E{Format::encode(value)}; }
};

}  // namespace detail

template <class E>
struct element_traits;

template <>
struct element_traits<bf16> : detail::small_float_traits<bf16, detail::bf16_format> {
  static constexpr std::string_view name = "bf16";
  static constexpr float largest = detail::float_from_bits(0x7F7F0000);
};
template <>
struct element_traits<fp16> : detail::small_float_traits<fp16, detail::fp16_format> {
  static constexpr std::string_view name = "fp16";
  static constexpr float largest = 65504.0f;
};
template <>
struct element_traits<fp8_e4m3> : detail::small_float_traits<fp8_e4m3, detail::fp8_e4m3_format> {
  static constexpr std::string_view name = "fp8_e4m3";
  static constexpr float largest = 448.0f;
};
template <>
struct element_traits<fp8_e5m2> : detail::small_float_traits<fp8_e5m2, detail::fp8_e5m2_format> {
  static constexpr std::string_view name = "fp8_e5m2";
  static constexpr float largest = 57344.0f;
};

template <class E>
concept element = std::is_trivially_copyable_v<E> &&(sizeof(E) == 1 || sizeof(E) == 2 || sizeof(E) == 4) &&
                  requires(E value, float number) {
  { element_traits<E>::name } -> std::convertible_to<std::string_view>;
  { element_traits<E>::largest } -> std::convertible_to<float>;
  { element_traits<E>::decode(value) } -> std::same_as<float>;
  { element_traits<E>::encode(number) } -> std::same_as<E>;
};

// The value of an element.  Exact; NaN stays NaN.
template <element E>
[[nodiscard]] KVPAGE_HOST_DEVICE constexpr float decode(E value) noexcept {
  return element_traits<E>::decode(value);
}

// The element nearest to `value`, ties to even; see the table above for what lies beyond the largest.
template <element E>
[[nodiscard]] KVPAGE_HOST_DEVICE constexpr E encode(float value) noexcept {
  return element_traits<E>::encode(value);
}

static_assert(element<bf16> && element<fp16> && element<fp8_e4m3> && element<fp8_e5m2>);

}  // namespace kvpage::inline v0
