// kvpage: the memory behind the device tables and the verifier: their own, or an engine's.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "../config.hpp"
#include "error.cuh"

namespace kvpage::inline v0::cuda {

// Bytes of device memory, and of pinned host memory that the device can read and write.
struct memory_sizes {
  std::size_t device = 0;
  std::size_t pinned = 0;
};

// One block of each, aligned to memory_alignment; must outlive its user.  `pinned` is memory from
// cudaHostAlloc(cudaHostAllocMapped) or cudaHostRegister(cudaHostRegisterMapped), and not write-combined: the
// order of the host's writes to it matters.  Both null: the user allocates its own.
struct memory_blocks {
  std::byte* d_device = nullptr;
  std::byte* pinned = nullptr;
};

inline constexpr std::size_t memory_alignment = 256;

namespace detail {

// Deals a block out in arrays.  Without a block it only counts the bytes.
class carver {
 public:
  explicit carver(std::byte* block = nullptr) : block_{block} {}

  template <class T>
  [[nodiscard]] T* take(std::size_t count) noexcept {
    std::byte* const array = block_ == nullptr ? nullptr : block_ + bytes_;
    bytes_ += (count * sizeof(T) + memory_alignment - 1) / memory_alignment * memory_alignment;
    return reinterpret_cast<T*>(array);
  }

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* block_;
  std::size_t bytes_ = 0;
};

// Throws std::invalid_argument.
inline const memory_blocks& checked(const memory_blocks& given) {
  if ((given.d_device == nullptr) != (given.pinned == nullptr))
    throw std::invalid_argument(std::string("memory_blocks: ") +
                                (given.pinned == nullptr ? "pinned" : "d_device") +
                                " is null and the other block is not; give both or neither");
  for (const std::byte* const block : {given.d_device, given.pinned}) {
    if (const auto past = reinterpret_cast<std::uintptr_t>(block) % memory_alignment; past != 0)
      throw std::invalid_argument("memory_blocks: a block begins " + std::to_string(past) +
                                  " bytes past a multiple of " + std::to_string(memory_alignment));
  }
  return given;
}

// Zeroed blocks of the given sizes: the caller's if it gave any, otherwise allocated and freed here.
class step_memory {
 public:
  step_memory(const memory_sizes& sizes, const memory_blocks& given)
      : blocks_{checked(given)}, sizes_{sizes} {
    owns_ = given.d_device == nullptr && given.pinned == nullptr;
    try {
      if (owns_) allocate();
      void* d_pinned = nullptr;
      require_success("device address of pinned memory",
                      cudaHostGetDevicePointer(&d_pinned, blocks_.pinned, 0));
      d_pinned_ = static_cast<std::byte*>(d_pinned);
      std::fill_n(blocks_.pinned, sizes.pinned, std::byte{0});
      require_success("clearing device memory",
                      cudaMemsetAsync(blocks_.d_device, 0, sizes.device, cudaStreamLegacy));
      require_success("clearing device memory", cudaStreamSynchronize(cudaStreamLegacy));
    } catch (...) {
      release();
      throw;
    }
  }
  step_memory(const step_memory&) = delete;
  step_memory& operator=(const step_memory&) = delete;
  ~step_memory() { release(); }

  [[nodiscard]] const memory_blocks& blocks() const noexcept { return blocks_; }

  // Where the device sees what the host sees at `pinned`, an address in the pinned block.
  template <class T>
  [[nodiscard]] T* on_device(T* pinned) const noexcept {
    return reinterpret_cast<T*>(d_pinned_ + (reinterpret_cast<std::byte*>(pinned) - blocks_.pinned));
  }

 private:
  void allocate() {
    void* block = nullptr;
    require_success("device memory", cudaMalloc(&block, sizes_.device));
    blocks_.d_device = static_cast<std::byte*>(block);
    require_success("pinned memory", cudaHostAlloc(&block, sizes_.pinned, cudaHostAllocMapped));
    blocks_.pinned = static_cast<std::byte*>(block);
  }

  // Both calls wait for the device, so no step in flight loses its memory.
  void release() noexcept {
    if (!owns_) return;
    static_cast<void>(cudaFree(blocks_.d_device));
    static_cast<void>(cudaFreeHost(blocks_.pinned));
  }

  memory_blocks blocks_;
  memory_sizes sizes_;
  std::byte* d_pinned_ = nullptr;
  bool owns_ = false;
};

}  // namespace detail
}  // namespace kvpage::inline v0::cuda
