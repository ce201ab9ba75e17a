// kvpage: pages in device memory of their own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "../config.hpp"
#include "../element.hpp"
#include "../page_storage.hpp"
#include "error.cuh"

namespace kvpage::inline v0::cuda {

// Owns device memory for the pages and the calibrated scales; move-only.  An engine that has such memory
// already makes a page_storage_view of it.
template <element E>
class device_storage {
 public:
  using element_type = E;

  // Zero-filled.  `calibrated` is host memory and is copied.  Waits for the device.  Throws as
  // page_storage_view does, and cuda_error.
  device_storage(const page_shape& shape, const page_layout& layout, std::span<const float> calibrated = {})
      : d_memory_{allocate<std::byte>(layout.bytes())},
        d_calibrated_{allocate<float>(calibrated.size())},
        view_{{d_memory_.get(), static_cast<std::size_t>(layout.bytes())},
              shape,
              layout,
              {d_calibrated_.get(), calibrated.size()}} {
    detail::require_success("clearing pages",
                            cudaMemsetAsync(d_memory_.get(), 0, layout.bytes(), cudaStreamLegacy));
    if (!calibrated.empty())
      detail::require_success("copying scales",
                              cudaMemcpyAsync(d_calibrated_.get(), calibrated.data(), calibrated.size_bytes(),
                                              cudaMemcpyHostToDevice, cudaStreamLegacy));
    detail::require_success("clearing pages", cudaStreamSynchronize(cudaStreamLegacy));
  }

  [[nodiscard]] const page_storage_view<E>& view() const noexcept { return view_; }

 private:
  struct free_device {
    // A failure here reports what an earlier launch did; whoever waited for that launch has seen it.
    void operator()(void* d_memory) const noexcept { (void)cudaFree(d_memory); }
  };
  template <class T>
  using device_memory = std::unique_ptr<T[], free_device>;

  template <class T>
  static device_memory<T> allocate(std::uint64_t count) {
    if (count == 0) return nullptr;
    void* d_memory = nullptr;
    detail::require_success("allocating pages", cudaMalloc(&d_memory, count * sizeof(T)));
    return device_memory<T>{static_cast<T*>(d_memory)};
  }

  device_memory<std::byte> d_memory_;
  device_memory<float> d_calibrated_;
  page_storage_view<E> view_;
};

}  // namespace kvpage::inline v0::cuda
