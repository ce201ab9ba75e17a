// The element types on the device: the host's bits, by the library's own arithmetic and by the device's
// conversion instructions, which the storage kernels use.
#include <gtest/gtest.h>

#include <cstdint>
#include <kvpage/element.hpp>
#include <kvpage/kernels/vector_codec.cuh>
#include <vector>

#include "device_memory.cuh"

namespace {

using kvpage::bf16;
using kvpage::fp16;
using kvpage::fp8_e4m3;
using kvpage::fp8_e5m2;
namespace kernels = kvpage::kernels::detail;

// Every float whose low 12 bits are near zero (so every midpoint of formats of up to 10 bits of mantissa,
// and its neighbours), or a part of them where kernels are interpreted.
std::vector<float> hard_floats() {
  std::vector<float> floats;
  const std::uint32_t step = is_emulated() ? 37 : 1;
  for (std::uint32_t high = test_seed() % step; high < 1u << 20; high += step)
    for (const std::uint32_t near : {0xFFFFFFFFu, 0u, 1u, 0x800u})
      floats.push_back(kvpage::detail::float_from_bits((high << 12) + near));
  return floats;
}

template <class E>
__global__ void encode_both_ways(const float* from, E* own, E* instructions, std::size_t count) {
  const std::size_t i = 4 * (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x);
  if (i >= count) return;
  for (int k = 0; k < 4; ++k) own[i + k] = kvpage::encode<E>(from[i + k]);
  kernels::store_packed<4>(instructions + i, kernels::encode_packed<E>(kernels::load_packed<4>(from + i)));
}

template <class E>
__global__ void decode_all(float* to) {
  const std::uint32_t bits = blockIdx.x * blockDim.x + threadIdx.x;
  to[bits] = kvpage::decode(E{static_cast<decltype(E::bits)>(bits)});
}

template <class E>
class elements_on_the_device : public testing::Test {};
using all_elements = testing::Types<bf16, fp16, fp8_e4m3, fp8_e5m2>;
TYPED_TEST_SUITE(elements_on_the_device, all_elements);

TYPED_TEST(elements_on_the_device, encode_to_the_hosts_bits) {
  using E = TypeParam;
  const std::vector<float> floats = hard_floats();  // four at a time
  const device_array<float> d_floats(floats.size());
  const device_array<E> d_own(floats.size()), d_instructions(floats.size());
  write_sync(d_floats.data(), floats, nullptr);
  encode_both_ways<<<static_cast<unsigned>(floats.size() / 4 / 128 + 1), 128>>>(
      d_floats.data(), d_own.data(), d_instructions.data(), floats.size());
  ASSERT_CUDA(cudaGetLastError());
  const std::vector<E> own = read_sync(d_own.data(), floats.size(), nullptr);
  const std::vector<E> instructions = read_sync(d_instructions.data(), floats.size(), nullptr);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    ASSERT_EQ(own[i], kvpage::encode<E>(floats[i])) << std::hexfloat << floats[i];
    ASSERT_EQ(instructions[i], kvpage::encode<E>(floats[i])) << std::hexfloat << floats[i];
  }
}

TYPED_TEST(elements_on_the_device, decode_to_the_hosts_bits) {
  using E = TypeParam;
  constexpr std::uint32_t patterns = 1u << (8 * sizeof(E));
  const device_array<float> d_floats(patterns);
  decode_all<E><<<patterns / 256, 256>>>(d_floats.data());
  ASSERT_CUDA(cudaGetLastError());
  const std::vector<float> found = read_sync(d_floats.data(), patterns, nullptr);
  for (std::uint32_t bits = 0; bits < patterns; ++bits)
    ASSERT_EQ(kvpage::detail::float_bits(found[bits]),
              kvpage::detail::float_bits(kvpage::decode(E{static_cast<decltype(E::bits)>(bits)})))
        << std::hex << bits;
}

}  // namespace
