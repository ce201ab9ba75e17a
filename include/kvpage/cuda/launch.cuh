// kvpage: launching kernels of block_threads threads a block.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "../config.hpp"
#include "device_batch.cuh"
#include "error.cuh"

namespace kvpage::inline v0::cuda::detail {

// A grid that fills the current device `blocks_per_multiprocessor` blocks deep, or less if `threads` threads
// are all there is to do; at least one block.  Throws cuda_error.
[[nodiscard]] inline std::uint32_t blocks_for(std::uint64_t threads,
                                              std::uint32_t blocks_per_multiprocessor) {
  int device = 0;
  int multiprocessors = 0;
  require_success("current device", cudaGetDevice(&device));
  require_success("number of multiprocessors",
                  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const std::uint64_t most = static_cast<std::uint64_t>(multiprocessors) * blocks_per_multiprocessor;
  const std::uint64_t needed = (threads + block_threads - 1) / block_threads;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(needed, 1, most));
}

template <class Args>
[[nodiscard]] cudaError_t launch(void (*kernel)(Args), std::uint32_t blocks, cudaStream_t stream,
                                 const std::type_identity_t<Args>& args) noexcept {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(block_threads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, args);
}

}  // namespace kvpage::inline v0::cuda::detail
