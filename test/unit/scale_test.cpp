#include "kvpage/scale.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace {

using kvpage::encode;
using kvpage::fp8_e4m3;
using kvpage::fp8_e5m2;
using kvpage::ue8m0;
using kvpage::detail::computed_scale;
using kvpage::detail::magnitude_bits;

constexpr float infinity = std::numeric_limits<float>::infinity();

template <class E>
float scale_of(float largest) {
  return computed_scale<E>(magnitude_bits(largest));
}

TEST(Scale, MapsTheLargestMagnitudeOntoTheLargestElement) {
  EXPECT_EQ(scale_of<fp8_e4m3>(448.0f), 1.0f);
  EXPECT_EQ(scale_of<fp8_e4m3>(-896.0f), 2.0f);
  EXPECT_EQ(scale_of<fp8_e5m2>(57344.0f), 1.0f);
  std::mt19937 random{3};
  std::uniform_real_distribution<float> exponent(-100.0f, 100.0f);
  for (int i = 0; i < 100'000; ++i) {
    const float largest = std::exp2(exponent(random));
    EXPECT_EQ(encode<fp8_e4m3>(largest / scale_of<fp8_e4m3>(largest)).bits, 0x7E) << largest;
    EXPECT_EQ(encode<fp8_e5m2>(largest / scale_of<fp8_e5m2>(largest)).bits, 0x7B) << largest;
  }
}

TEST(Scale, IsNeverZeroSubnormalOrInfinite) {
  for (const float largest :
       {0.0f, -0.0f, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::min(), 1e-37f,
        std::numeric_limits<float>::max(), infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_TRUE(std::isnormal(scale_of<fp8_e4m3>(largest))) << largest;
    EXPECT_TRUE(std::isnormal(scale_of<fp8_e5m2>(largest))) << largest;
  }
  EXPECT_EQ(scale_of<fp8_e4m3>(0.0f), std::numeric_limits<float>::min());
  EXPECT_EQ(0.0f / scale_of<fp8_e4m3>(0.0f), 0.0f);
}

TEST(Scale, MagnitudesOrderAsTheirBitsAndNanHasNone) {
  EXPECT_LT(magnitude_bits(1.0f), magnitude_bits(-1.5f));
  EXPECT_EQ(magnitude_bits(std::numeric_limits<float>::quiet_NaN()), 0);
  EXPECT_EQ(magnitude_bits(-infinity), magnitude_bits(std::numeric_limits<float>::max()));
}

TEST(Scale, Ue8m0RoundsUpToAPowerOfTwo) {
  EXPECT_EQ(kvpage::encode_upwards(1.0f).exponent, 127);
  EXPECT_EQ(kvpage::encode_upwards(std::nextafter(1.0f, 2.0f)).exponent, 128);
  EXPECT_EQ(kvpage::encode_upwards(std::numeric_limits<float>::min()).exponent, 1);
  for (int exponent = -126; exponent <= 127; ++exponent) {
    const float power = std::ldexp(1.0f, exponent);
    const ue8m0 scale = kvpage::encode_upwards(power);
    EXPECT_EQ(decode(scale), power);
    EXPECT_EQ(kvpage::encode_upwards(std::nextafter(power, infinity)).exponent, scale.exponent + 1);
  }
}

}  // namespace
