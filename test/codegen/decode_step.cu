// An engine's decode step, once for each KVPAGE_SUBJECT: by_hand (without kvpage), untagged, tagged.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#if KVPAGE_IS_LIBRARY

#include <kvpage/cuda/verifier.cuh>

using pool = kvpage::page_pool<kvpage::bf16, kvpage::KVPAGE_SUBJECT>;
using handle = pool::handle;
using kvpage::cuda::attention_inputs;

__device__ std::uint32_t id_of(handle page) { return page.id(); }

#else

using handle = std::uint32_t;
struct attention_inputs {
  std::int32_t* d_seq_lens;
  std::int64_t* d_slots;
  std::int32_t* d_indptr;
  std::int32_t* d_indices;
  std::int32_t* d_last_page_len;
  std::int32_t* d_padded;
  std::size_t padded_width;
};

__device__ std::uint32_t id_of(handle page) { return page; }

#endif

constexpr std::uint32_t tokens_per_page = 16;

// Stands in for attention: each block sums up a row's tokens, through both exported forms.
extern "C" __global__ void attention(attention_inputs in, const float* d_cache, float* d_sums) {
  const std::uint32_t row = blockIdx.x;
  float sum = 0;
  for (std::int32_t token = static_cast<std::int32_t>(threadIdx.x); token < in.d_seq_lens[row];
       token += static_cast<std::int32_t>(blockDim.x)) {
    const std::int32_t entry = token / static_cast<std::int32_t>(tokens_per_page);
    const std::int64_t padded = in.d_padded[row * in.padded_width + static_cast<std::size_t>(entry)];
    const std::int64_t indexed = in.d_indices[in.d_indptr[row] + entry];
    sum += d_cache[padded * tokens_per_page + token % tokens_per_page] + d_cache[indexed * tokens_per_page];
  }
  atomicAdd(&d_sums[row], sum);
  if (threadIdx.x == 0 && in.d_slots[row] >= 0) d_sums[in.d_slots[row]] += 1;
}

// Stands in for a kernel that takes handles as they are granted.
extern "C" __global__ void clear_granted(const handle* d_pages, std::uint64_t pages, float* d_cache) {
  for (std::uint64_t i = blockIdx.x; i < pages; i += gridDim.x)
    d_cache[std::uint64_t{id_of(d_pages[i])} * tokens_per_page + threadIdx.x] = 0;
}

struct engine {
#if KVPAGE_IS_LIBRARY
  explicit engine(pool& pages) : tables(pages, {}), verifier(tables) {}
  kvpage::cuda::device_tables<pool> tables;
  kvpage::cuda::verifier<pool> verifier;
#endif
  attention_inputs inputs;
};

cudaError_t decode_step(const engine& self, const float* d_cache, float* d_sums, cudaStream_t stream) {
#if KVPAGE_IS_LIBRARY
  if (const cudaError_t status = self.tables.enqueue_update(stream); status != cudaSuccess) return status;
  if (const cudaError_t status = self.verifier.enqueue(stream); status != cudaSuccess) return status;
#endif
  attention<<<64, 128, 0, stream>>>(self.inputs, d_cache, d_sums);
  return cudaGetLastError();
}
