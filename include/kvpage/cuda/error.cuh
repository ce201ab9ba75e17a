// kvpage: CUDA errors.  What enqueues returns its cudaError_t; what constructs throws it.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

#include "../config.hpp"

namespace kvpage::inline v0::cuda {

// Thrown by constructors when a CUDA call fails; names the call's purpose.
class cuda_error : public std::runtime_error {
 public:
  cuda_error(const char* purpose, cudaError_t code)
      : std::runtime_error(std::string(purpose) + ": " + cudaGetErrorString(code)), code_{code} {}

  [[nodiscard]] cudaError_t code() const noexcept { return code_; }

 private:
  cudaError_t code_;
};

namespace detail {

inline void require_success(const char* purpose, cudaError_t code) {
  if (code == cudaSuccess) return;
  static_cast<void>(
      cudaGetLastError());  // the exception has it; a later launch's check must not find it again
  throw cuda_error(purpose, code);
}

}  // namespace detail
}  // namespace kvpage::inline v0::cuda
