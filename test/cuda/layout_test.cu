// What host and device exchange has the same layout for both compilers.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <kvpage/cuda/verifier.cuh>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device_memory.cuh"

namespace {

using handle = kvpage::page_handle<kvpage::fp8_e4m3, kvpage::tagged>;
using kvpage::verdict;
using kvpage::verify_summary;
using kvpage::cuda::batch_row;
using kvpage::cuda::device_batch;
using kvpage::cuda::entry_change;
using kvpage::cuda::failed_row;
using kvpage::cuda::step_info;
using kvpage::cuda::tag_change;
using kvpage::cuda::detail::staged_counts;

constexpr std::size_t numbers = 26;

struct layout {
  std::uint64_t values[numbers];
};

__host__ __device__ layout measure() {
  return {sizeof(handle),
          alignof(handle),
          sizeof(kvpage::page_handle<kvpage::bf16, kvpage::untagged>),
          sizeof(batch_row),
          offsetof(batch_row, pages),
          offsetof(batch_row, slots_before),
          sizeof(step_info),
          offsetof(step_info, chunks),
          sizeof(verdict),
          offsetof(verdict, found_tag),
          sizeof(verify_summary),
          offsetof(verify_summary, failed_rows),
          sizeof(failed_row),
          offsetof(failed_row, finding),
          sizeof(tag_change),
          sizeof(entry_change<handle>),
          offsetof(entry_change<handle>, page),
          sizeof(staged_counts),
          offsetof(staged_counts, all_tags),
          sizeof(device_batch<handle>),
          offsetof(device_batch<handle>, out),
          offsetof(device_batch<handle>, max_chunks),
          sizeof(kvpage::kernels::verify_args<handle>),
          offsetof(kvpage::kernels::verify_args<handle>, verdicts),
          sizeof(kvpage::kernels::update_args<handle>),
          offsetof(kvpage::kernels::update_args<handle>, max_slots)};
}

__global__ void measure_on_device(layout* d_layout) { *d_layout = measure(); }

}  // namespace

TEST(layout, host_and_device_agree) {
  const device_array<layout> found(1);
  measure_on_device<<<1, 1>>>(found.data());
  ASSERT_CUDA(cudaGetLastError());
  const layout device = read_sync(found.data(), 1, nullptr).at(0);
  const layout host = measure();
  for (std::size_t i = 0; i < numbers; ++i) EXPECT_EQ(device.values[i], host.values[i]) << "number " << i;
}
