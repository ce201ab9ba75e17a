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
// on are NaN, and NaN is written as all ones without a sign.
//
// Made for compilers to vectorise: 32-bit lanes, integer comparisons that choose between integers, and no
// float operation on one side of a choice only, because it could trap.  No result depends on how subnormal
// floats are computed with: processors may be set to take them for zero.
template <class Bits, int ExponentBits, int MantissaBits, std::int32_t Largest, std::int32_t FirstNan>
struct small_float {
  static constexpr int width = static_cast<int>(sizeof(Bits)) * 8;
  static constexpr int bias = (1 << (ExponentBits - 1)) - 1;
  static constexpr int shift = 23 - MantissaBits;
  static constexpr std::int32_t rebias = (127 - bias) << 23;
  static constexpr std::int32_t smallest_normal = rebias + (1 << 23);  // as float's bits
  static constexpr std::int32_t magnitude_mask = (1 << (width - 1)) - 1;
  static constexpr std::int32_t nan = magnitude_mask;
  static constexpr std::int32_t sign_bit = ~0x7FFFFFFF;
  static constexpr bool is_wide = bias == 127;  // float's own exponents: subnormals need no care

  KVPAGE_HOST_DEVICE static constexpr Bits encode(float value) noexcept {
    // The result is made in the upper bits and shifted down at last, so that compilers narrow it only once.
    constexpr int unused = 32 - width;
    const std::int32_t bits = to_int(value);
    const std::int32_t magnitude = bits & 0x7FFFFFFF;
    std::int32_t upper;
    if constexpr (is_wide) {
      upper = round_mantissa(bits);
    } else {
      upper = (round_at_place(magnitude) << unused) | (bits & sign_bit);
    }
    upper = choose(magnitude > float_infinity_bits, nan << unused, upper);
    return static_cast<Bits>(static_cast<std::uint32_t>(upper) >> unused);
  }

  KVPAGE_HOST_DEVICE static constexpr float decode(Bits bits) noexcept {
    if constexpr (is_wide) return float_from_bits(std::uint32_t{bits} << shift);

    const std::int32_t magnitude = bits & magnitude_mask;
    const std::int32_t sign = std::int32_t{static_cast<std::make_signed_t<Bits>>(bits)} & sign_bit;
    // A subnormal is given the smallest normal number's leading one, which is then subtracted.
    const std::int32_t is_subnormal = ones_if(magnitude < 1 << MantissaBits);
    const std::int32_t normal = (magnitude << shift) + rebias + (is_subnormal & (1 << 23));
    const float number = to_float(normal) - to_float(is_subnormal & smallest_normal);
    // The pattern below the first NaN is infinity, if its mantissa is zero.
    constexpr std::int32_t below_nan = FirstNan - 1;
    constexpr bool has_infinity = (below_nan & ((1 << MantissaBits) - 1)) == 0;
    std::int32_t result = to_int(number);
    if constexpr (has_infinity) result |= ones_if(magnitude >= below_nan) & float_infinity_bits;
    result = choose(magnitude > below_nan, 0x7FFFFFFF, result | sign);
    return to_float(result);
  }

 private:
  KVPAGE_HOST_DEVICE static constexpr std::int32_t ones_if(bool condition) noexcept {
    return -std::int32_t{condition};
  }
  // condition ? yes : no, where g++ would make a branch of that, and then no vector code.
  KVPAGE_HOST_DEVICE static constexpr std::int32_t choose(bool condition, std::int32_t yes,
                                                          std::int32_t no) noexcept {
    return (yes & ones_if(condition)) | (no & ~ones_if(condition));
  }
  KVPAGE_HOST_DEVICE static constexpr std::int32_t to_int(float value) noexcept {
    return __builtin_bit_cast(std::int32_t, value);
  }
  KVPAGE_HOST_DEVICE static constexpr float to_float(std::int32_t bits) noexcept {
    return __builtin_bit_cast(float, bits);
  }

  // Float's bits without the last `shift`; a carry out of the mantissa makes the exponent the right one.
  KVPAGE_HOST_DEVICE static constexpr std::int32_t round_mantissa(std::int32_t signed_bits) noexcept {
    const auto bits = static_cast<std::uint32_t>(signed_bits);  // NaN's wrap
    return static_cast<std::int32_t>(bits + (1u << (shift - 1)) - 1 + ((bits >> shift) & 1u));
  }

  // Adding a power of two whose last place in float is the result's last place rounds to nearest even, and
  // leaves the result's mantissa in the sum's low bits, the leading one included.
  KVPAGE_HOST_DEVICE static constexpr std::int32_t round_at_place(std::int32_t magnitude) noexcept {
    constexpr std::int32_t limit = (Largest << shift) + rebias;
    const std::int32_t bounded = choose(magnitude < limit, magnitude, limit);
    const std::int32_t normal = bounded > smallest_normal ? bounded : smallest_normal;
    const std::int32_t power = (normal & float_infinity_bits) + (shift << 23);
    const float sum = to_float(bounded) + to_float(power);
    const std::int32_t mantissa = to_int(sum) - power;
    // The leading one counts as the lowest bit of the exponent.
    constexpr std::int32_t exponent_of_one = (127 - bias + 1 + shift) << MantissaBits;
    return (power >> shift) - exponent_of_one + mantissa;
  }
};

using bf16_format = small_float<std::uint16_t, 8, 7, 0x7F80, 0x7F81>;
using fp16_format = small_float<std::uint16_t, 5, 10, 0x7C00, 0x7C01>;
using fp8_e4m3_format = small_float<std::uint8_t, 4, 3, 0x7E, 0x7F>;
using fp8_e5m2_format = small_float<std::uint8_t, 5, 2, 0x7B, 0x7D>;

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
