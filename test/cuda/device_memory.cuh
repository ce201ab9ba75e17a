// Device memory for tests: an array that is written and read by stream-ordered copies.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

// Only the emulated runtime has it; tests do less there, where a kernel is interpreted.
extern "C" __attribute__((weak)) unsigned long long cudaemu_findings(void);
inline bool is_emulated() { return cudaemu_findings != nullptr; }

// Under the emulated runtime another one in each run, so that every schedule sees other data.
inline std::uint32_t test_seed() {
  const char* const seed = std::getenv("CUDAEMU_SEED");
  return seed == nullptr ? 0 : static_cast<std::uint32_t>(std::strtoul(seed, nullptr, 10));
}

#define ASSERT_CUDA(call) ASSERT_EQ(call, cudaSuccess)
#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)

// 32 random bits at a time.
class dice {
 public:
  explicit dice(std::uint32_t seed) : engine_{seed} {}
  std::uint32_t operator()() { return static_cast<std::uint32_t>(engine_()); }

 private:
  std::mt19937 engine_;
};

template <class T>
class device_array {
 public:
  explicit device_array(std::size_t size) : size_{size} {
    void* memory = nullptr;
    EXPECT_CUDA(cudaMalloc(&memory, (size == 0 ? 1 : size) * sizeof(T)));
    d_data_ = static_cast<T*>(memory);
  }
  device_array(const device_array&) = delete;
  device_array& operator=(const device_array&) = delete;
  ~device_array() { EXPECT_CUDA(cudaFree(d_data_)); }

  [[nodiscard]] T* data() const { return d_data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  T* d_data_;
  std::size_t size_;
};

// Both wait for the stream.
template <class T>
std::vector<T> read_sync(const T* d_data, std::size_t size, cudaStream_t stream) {
  std::vector<T> values(size);
  EXPECT_CUDA(cudaMemcpyAsync(values.data(), d_data, size * sizeof(T), cudaMemcpyDeviceToHost, stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  return values;
}

template <class T>
void write_sync(T* d_data, const std::vector<T>& values, cudaStream_t stream) {
  EXPECT_CUDA(
      cudaMemcpyAsync(d_data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice, stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
}
