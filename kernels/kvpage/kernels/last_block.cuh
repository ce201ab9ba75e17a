// kvpage: how the blocks of a launch find out which of them is the last.
#pragma once

#include <kvpage/config.hpp>

#include <cstdint>

namespace kvpage::inline v0::kernels::detail {

// Whether this block is the last of `blocks` to come by.  What the blocks wrote before is visible to the
// last one, which resets the counter for the next launch.  Called by every thread of a block.
__device__ inline bool is_last_of(std::uint32_t blocks, std::uint32_t* d_done) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(d_done, 1) == blocks - 1;
    if (last) {
      __threadfence();
      atomicExch(d_done, 0);
    }
  }
  __syncthreads();
  return last;
}

}  // namespace kvpage::inline v0::kernels::detail
