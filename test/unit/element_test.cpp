// The element types, against three independent references: their definition in exact arithmetic, a table
// of hard values, and CUDA's own headers where the toolkit is there.
#include "kvpage/element.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kvpage/element_convert.hpp"

#if __has_include(<cuda_bf16.h>) && __has_include(<cuda_fp16.h>) && __has_include(<cuda_fp8.h>)
#define KVPAGE_TEST_CUDA_HEADERS 1
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#endif

namespace {

using kvpage::bf16;
using kvpage::decode;
using kvpage::encode;
using kvpage::fp16;
using kvpage::fp8_e4m3;
using kvpage::fp8_e5m2;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

template <class E>
struct format;  // exponent bits, mantissa bits, and what the last exponent means
template <>
struct format<bf16> {
  static constexpr int exponent_bits = 8, mantissa_bits = 7;
  static constexpr bool finite_only = false, saturates = false;
};
template <>
struct format<fp16> {
  static constexpr int exponent_bits = 5, mantissa_bits = 10;
  static constexpr bool finite_only = false, saturates = false;
};
template <>
struct format<fp8_e4m3> {
  static constexpr int exponent_bits = 4, mantissa_bits = 3;
  static constexpr bool finite_only = true, saturates = true;
};
template <>
struct format<fp8_e5m2> {
  static constexpr int exponent_bits = 5, mantissa_bits = 2;
  static constexpr bool finite_only = false, saturates = true;
};

template <class E>
using bits_of = decltype(E::bits);
template <class E>
constexpr int patterns = 1 << (8 * sizeof(E));

template <class E>
E pattern(int bits) {
  return E{static_cast<bits_of<E>>(bits)};
}

// The value of a pattern by the format's definition.
template <class E>
double value_of(int bits) {
  using f = format<E>;
  const int bias = (1 << (f::exponent_bits - 1)) - 1;
  const int mantissa = bits & ((1 << f::mantissa_bits) - 1);
  const int exponent = (bits >> f::mantissa_bits) & ((1 << f::exponent_bits) - 1);
  const double sign = bits >> (f::exponent_bits + f::mantissa_bits) ? -1.0 : 1.0;
  const bool last = exponent == (1 << f::exponent_bits) - 1;
  if (last && f::finite_only && mantissa == (1 << f::mantissa_bits) - 1) return nan;
  if (last && !f::finite_only) return mantissa ? static_cast<double>(nan) : sign * infinity;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - f::mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << f::mantissa_bits), exponent - bias - f::mantissa_bits);
}

template <class E>
class Element : public testing::Test {};
using all_elements = testing::Types<bf16, fp16, fp8_e4m3, fp8_e5m2>;
TYPED_TEST_SUITE(Element, all_elements);

TYPED_TEST(Element, EveryPatternDecodesToItsDefinition) {
  for (int bits = 0; bits < patterns<TypeParam>; ++bits) {
    const double expected = value_of<TypeParam>(bits);
    const float found = decode(pattern<TypeParam>(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found)) << std::hex << bits;
    } else {
      EXPECT_EQ(static_cast<double>(found), expected) << std::hex << bits;
      EXPECT_EQ(std::signbit(found), std::signbit(expected)) << std::hex << bits;
    }
  }
}

TYPED_TEST(Element, EveryPatternSurvivesARoundTrip) {
  for (int bits = 0; bits < patterns<TypeParam>; ++bits) {
    const auto value = pattern<TypeParam>(bits);
    const float number = decode(value);
    const auto again = encode<TypeParam>(number);
    if (std::isnan(number)) {
      EXPECT_TRUE(std::isnan(decode(again))) << std::hex << bits;
    } else if (std::isinf(number) && format<TypeParam>::saturates) {
      EXPECT_EQ(decode(again), std::copysign(kvpage::element_traits<TypeParam>::largest, number));
    } else {
      EXPECT_EQ(again, value) << std::hex << bits;
    }
  }
}

// The midpoint of every two neighbours goes to the even one; a float beside it to the nearer one.
TYPED_TEST(Element, MidpointsRoundToEvenAndTheirNeighboursToTheNearest) {
  for (int bits = 0; bits < patterns<TypeParam> / 2; ++bits) {
    const double low = value_of<TypeParam>(bits);
    const double high = value_of<TypeParam>(bits + 1);
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    const double exact = (low + high) / 2;
    const auto midpoint = static_cast<float>(exact);
    if (static_cast<double>(midpoint) != exact) continue;  // bf16's subnormals have float's last place
    const int even = bits % 2 == 0 ? bits : bits + 1;
    const int sign = patterns<TypeParam> / 2;
    EXPECT_EQ(encode<TypeParam>(midpoint), pattern<TypeParam>(even)) << std::hex << bits;
    EXPECT_EQ(encode<TypeParam>(-midpoint), pattern<TypeParam>(even | sign)) << std::hex << bits;
    EXPECT_EQ(encode<TypeParam>(std::nextafter(midpoint, 0.0f)), pattern<TypeParam>(bits))
        << std::hex << bits;
    EXPECT_EQ(encode<TypeParam>(std::nextafter(midpoint, infinity)), pattern<TypeParam>(bits + 1))
        << std::hex << bits;
  }
}

TYPED_TEST(Element, BeyondTheLargest) {
  const float largest = kvpage::element_traits<TypeParam>::largest;
  EXPECT_EQ(decode(encode<TypeParam>(largest)), largest);
  const float expected = format<TypeParam>::saturates ? largest : infinity;
  EXPECT_EQ(decode(encode<TypeParam>(std::numeric_limits<float>::max())), expected);
  EXPECT_EQ(decode(encode<TypeParam>(infinity)), expected);
  EXPECT_EQ(decode(encode<TypeParam>(-infinity)), -expected);
  EXPECT_TRUE(std::isnan(decode(encode<TypeParam>(nan))));
  EXPECT_TRUE(std::isnan(decode(encode<TypeParam>(-nan))));
}

TYPED_TEST(Element, WholeArraysConvertLikeSingleValues) {
  std::mt19937 random{7};
  for (const std::size_t count : {0u, 1u, 31u, 32u, 33u, 1000u}) {
    std::vector<float> from(count);
    for (float& value : from) value = kvpage::detail::float_from_bits(static_cast<std::uint32_t>(random()));
    std::vector<TypeParam> to(count);
    kvpage::convert_elements(std::span<const float>(from), std::span<TypeParam>(to));
    std::vector<bf16> narrow(count);
    kvpage::convert_elements(std::span<const TypeParam>(to), std::span<bf16>(narrow));
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(to[i], encode<TypeParam>(from[i]));
      EXPECT_EQ(narrow[i], kvpage::convert_value<bf16>(to[i]));
    }
  }
}

// Processors with wide vectors run code of their own.
TYPED_TEST(Element, EveryProcessorConvertsAlike) {
  std::vector<TypeParam> elements(patterns<TypeParam>);
  for (int bits = 0; bits < patterns<TypeParam>; ++bits)
    elements[static_cast<std::size_t>(bits)] = pattern<TypeParam>(bits);
  std::vector<float> decoded(elements.size()), expected(elements.size());
  kvpage::convert_elements(std::span<const TypeParam>(elements), std::span<float>(decoded));
  kvpage::detail::transform_blocks(elements.data(), expected.data(), elements.size(),
                                   [](TypeParam value) { return decode(value); });
  for (std::size_t i = 0; i < elements.size(); ++i)
    EXPECT_EQ(kvpage::detail::float_bits(decoded[i]), kvpage::detail::float_bits(expected[i])) << i;

  std::mt19937 random{11};
  std::vector<float> floats(1u << 16);  // of any bits, then around the element's own range
  for (std::size_t i = 0; i < floats.size(); ++i)
    floats[i] = i % 2 ? kvpage::detail::float_from_bits(static_cast<std::uint32_t>(random()))
                      : decoded[i / 2 % decoded.size()] * (1.0f + static_cast<float>(random() % 9) / 64);
  std::vector<TypeParam> encoded(floats.size()), as_expected(floats.size());
  kvpage::convert_elements(std::span<const float>(floats), std::span<TypeParam>(encoded));
  kvpage::detail::transform_blocks(floats.data(), as_expected.data(), floats.size(),
                                   [](float value) { return encode<TypeParam>(value); });
  EXPECT_EQ(encoded, as_expected);
}

TEST(Element, CaseJConversionsSaturateAndKeepNan) {
  const struct {
    float value;
    int bits;
  } cases[] = {{256, 0x78}, {300, 0x79},  {448, 0x7E},   {449, 0x7E}, {464, 0x7E},
               {465, 0x7E}, {1000, 0x7E}, {-1000, 0xFE}, {nan, 0x7F}, {infinity, 0x7E}};
  for (const auto& c : cases) EXPECT_EQ(encode<fp8_e4m3>(c.value).bits, c.bits) << c.value;
}

TEST(Element, CaseJE4m3IsNotE5m2) {
  EXPECT_EQ(decode(fp8_e4m3{0x40}), 2.0f);
  EXPECT_EQ(decode(fp8_e5m2{0x40}), 2.0f);
  EXPECT_EQ(decode(fp8_e4m3{0x7C}), 384.0f);
  EXPECT_EQ(decode(fp8_e5m2{0x7C}), infinity);
  static_assert(!std::is_convertible_v<fp8_e4m3, fp8_e5m2>);
}

// Values at which conversions are known to go wrong; the patterns are those of CUDA 13's headers.
TEST(Element, HardValues) {
  const struct {
    std::uint32_t value;
    int bf16_bits, fp16_bits, e4m3_bits, e5m2_bits;
  } cases[] = {
#include "element_hard_values.inc"
  };
  for (const auto& c : cases) {
    const float value = kvpage::detail::float_from_bits(c.value);
    EXPECT_EQ(encode<bf16>(value).bits, c.bf16_bits) << std::hex << c.value;
    EXPECT_EQ(encode<fp16>(value).bits, c.fp16_bits) << std::hex << c.value;
    EXPECT_EQ(encode<fp8_e4m3>(value).bits, c.e4m3_bits) << std::hex << c.value;
    EXPECT_EQ(encode<fp8_e5m2>(value).bits, c.e5m2_bits) << std::hex << c.value;
  }
}

static_assert(encode<fp8_e4m3>(300.0f).bits == 0x79 && decode(fp16{0x0001}) == 0x1p-24f,
              "conversions are constant expressions");
static_assert(sizeof(bf16) == 2 && sizeof(fp16) == 2 && sizeof(fp8_e4m3) == 1 && sizeof(fp8_e5m2) == 1);

#ifdef KVPAGE_TEST_CUDA_HEADERS

struct cuda_bits {
  int bf16_bits, fp16_bits, e4m3_bits, e5m2_bits;
};

cuda_bits cuda_encode(float value) {
  return {static_cast<__nv_bfloat16_raw>(__float2bfloat16_rn(value)).x,
          static_cast<__half_raw>(__float2half_rn(value)).x,
          __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3),
          __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E5M2)};
}

void expect_like_cuda(float value) {
  const cuda_bits expected = cuda_encode(value);
  ASSERT_EQ(encode<bf16>(value).bits, expected.bf16_bits) << std::hexfloat << value;
  ASSERT_EQ(encode<fp16>(value).bits, expected.fp16_bits) << std::hexfloat << value;
  ASSERT_EQ(encode<fp8_e4m3>(value).bits, expected.e4m3_bits) << std::hexfloat << value;
  ASSERT_EQ(encode<fp8_e5m2>(value).bits, expected.e5m2_bits) << std::hexfloat << value;
}

TEST(ElementAgainstCuda, EveryPatternDecodesToTheSameBits) {
  using kvpage::detail::float_bits;
  for (int bits = 0; bits < 1 << 16; ++bits) {
    const auto raw = static_cast<unsigned short>(bits);
    const __nv_bfloat16_raw wide{raw};
    const __half_raw half{raw};
    ASSERT_EQ(float_bits(decode(pattern<bf16>(bits))), float_bits(__bfloat162float(wide)))
        << std::hex << bits;
    ASSERT_EQ(float_bits(decode(pattern<fp16>(bits))), float_bits(__half2float(half))) << std::hex << bits;
  }
  for (int bits = 0; bits < 1 << 8; ++bits) {
    const auto raw = static_cast<__nv_fp8_storage_t>(bits);
    const float e4m3 = __half2float(__nv_cvt_fp8_to_halfraw(raw, __NV_E4M3));
    const float e5m2 = __half2float(__nv_cvt_fp8_to_halfraw(raw, __NV_E5M2));
    ASSERT_EQ(float_bits(decode(pattern<fp8_e4m3>(bits))), float_bits(e4m3)) << std::hex << bits;
    ASSERT_EQ(float_bits(decode(pattern<fp8_e5m2>(bits))), float_bits(e5m2)) << std::hex << bits;
  }
}

// Every midpoint of the widest mantissa, 10 bits, is among the floats whose last 12 bits are zero, and
// those of the narrower formats too; subnormals' midpoints are powers of two and sums of few of them.
TEST(ElementAgainstCuda, MidpointsAndTheirNeighboursEncodeToTheSameBits) {
  for (std::uint32_t high = 0; high < 1u << 20; ++high) {
    const std::uint32_t bits = high << 12;
    for (const std::uint32_t near : {bits - 1, bits, bits + 1}) {
      expect_like_cuda(kvpage::detail::float_from_bits(near));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ElementAgainstCuda, TenMillionRandomFloatsEncodeToTheSameBits) {
  std::mt19937 random{2024};
  for (int i = 0; i < 10'000'000; ++i) {
    expect_like_cuda(kvpage::detail::float_from_bits(static_cast<std::uint32_t>(random())));
    if (HasFatalFailure()) return;
  }
}

#endif

}  // namespace
