// The reference attention on the device: a warp for each query head of each row.
#pragma once

#include <cuda_runtime.h>

#include "paged_attention.hpp"

namespace attention {

struct warp_lanes {
  static constexpr std::uint32_t count = 32;
  [[nodiscard]] __device__ std::uint32_t index() const { return threadIdx.x % count; }
  [[nodiscard]] __device__ float sum(float value) const {
    for (std::uint32_t distance = count / 2; distance != 0; distance /= 2)
      value += __shfl_xor_sync(0xFFFFFFFF, value, distance);
    return value;
  }
};

template <kvpage::element E>
__global__ void decode_attention_kernel(const kvpage::page_storage_view<E> cache, std::uint32_t layer,
                                        const batch_table table, const head_geometry heads,
                                        const float* queries, float* out) {
  const std::uint32_t i = blockIdx.x;
  const std::uint32_t row = i / heads.query_heads;
  const std::uint32_t kv_head = i % heads.query_heads / (heads.query_heads / cache.shape().heads());
  attend(warp_lanes{}, cache, layer, kv_head, table.indices + table.indptr[row],
         static_cast<std::uint32_t>(table.seq_lens[row]), heads,
         queries + std::size_t{i} * cache.shape().dim(), out + std::size_t{i} * heads.value_dim);
}

// As decode_attention, with everything in device memory.
template <kvpage::element E>
[[nodiscard]] cudaError_t enqueue_decode_attention(const kvpage::page_storage_view<E>& cache,
                                                   std::uint32_t layer, const batch_table& d_table,
                                                   const head_geometry& heads, const float* d_queries,
                                                   float* d_out, cudaStream_t stream) {
  if (d_table.rows == 0) return cudaSuccess;
  decode_attention_kernel<<<d_table.rows * heads.query_heads, warp_lanes::count, 0, stream>>>(
      cache, layer, d_table, heads, d_queries, d_out);
  return cudaGetLastError();
}

}  // namespace attention
