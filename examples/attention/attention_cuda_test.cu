// The same problems on the device.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <kvpage/cuda/device_storage.cuh>
#include <vector>

#include "attention_problem.hpp"
#include "paged_attention.cuh"

namespace {

using attention::problem;
using kvpage::bf16;
using kvpage::fp8_e4m3;
using kvpage::head_order;

template <class T>
T* to_device(std::vector<T*>& owned, const T* values, std::size_t count) {
  T* d_values = nullptr;
  EXPECT_EQ(cudaMalloc(&d_values, (count + 1) * sizeof(T)), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(d_values, values, count * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  owned.push_back(d_values);
  return d_values;
}

template <class E>
double error(const kvpage::page_shape& shape, const attention::head_geometry& heads,
             const std::vector<std::size_t>& lengths) {
  const problem<E> p{shape, heads, lengths, 3};
  const kvpage::page_storage_view<E>& host = p.storage.view();
  const kvpage::cuda::device_storage<E> cache{shape, host.layout()};
  EXPECT_EQ(
      cudaMemcpy(cache.view().block(0, 0), host.block(0, 0), host.layout().bytes(), cudaMemcpyHostToDevice),
      cudaSuccess);
  std::vector<std::int32_t*> tables;
  std::vector<float*> arrays;
  const attention::batch_table d_table{to_device(tables, p.table().indptr, p.batch.indptr().size()),
                                       to_device(tables, p.table().indices, p.batch.indices().size()),
                                       to_device(tables, p.table().seq_lens, p.batch.seq_lens().size()),
                                       p.table().rows};
  std::vector<float> out(p.answers.size(), 7.0f);
  const float* const d_queries = to_device(arrays, p.queries.data(), p.queries.size());
  float* const d_out = to_device(arrays, out.data(), out.size());
  EXPECT_EQ(attention::enqueue_decode_attention(cache.view(), 0, d_table, heads, d_queries, d_out, nullptr),
            cudaSuccess);
  EXPECT_EQ(cudaMemcpy(out.data(), d_out, out.size() * sizeof(float), cudaMemcpyDeviceToHost), cudaSuccess);
  for (std::int32_t* d_array : tables) EXPECT_EQ(cudaFree(d_array), cudaSuccess);
  for (float* d_array : arrays) EXPECT_EQ(cudaFree(d_array), cudaSuccess);
  return p.error_of(out);
}

TEST(attention_on_the_device, is_within_2e_3_of_float64) {
  EXPECT_LT(error<bf16>(attention::gqa_shape(head_order::nhd, 2), attention::gqa_heads, {0, 1, 3, 4, 5, 11}),
            2e-3);
  EXPECT_LT(error<bf16>(attention::gqa_shape(head_order::hnd, 2), attention::gqa_heads, {9}), 2e-3);
  EXPECT_LT(error<bf16>(attention::mla_shape(2), attention::mla_heads, {5}), 2e-3);
}

TEST(attention_on_the_device, case_j_fp8_is_finite_and_close) {
  EXPECT_LT(error<fp8_e4m3>(kvpage::page_shape::mla_656(1, 4), attention::mla_heads, {0, 3, 6}), 0.3);
}

}  // namespace
