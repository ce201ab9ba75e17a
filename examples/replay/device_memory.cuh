// kvpage-replay: device memory, a stream and a pair of events, owned.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <kvpage/cuda/error.cuh>
#include <span>

namespace replay {

inline void check(const char* purpose, cudaError_t code) {
  if (code != cudaSuccess) throw kvpage::cuda::cuda_error(purpose, code);
}

template <class T>
class device_array {
 public:
  explicit device_array(std::size_t size) {
    void* memory = nullptr;
    check("device memory", cudaMalloc(&memory, (size + 1) * sizeof(T)));  // one more: never of size 0
    d_data_ = static_cast<T*>(memory);
  }
  device_array(const device_array&) = delete;
  device_array& operator=(const device_array&) = delete;
  ~device_array() { static_cast<void>(cudaFree(d_data_)); }

  [[nodiscard]] T* d_data() const { return d_data_; }

  void upload(std::span<const T> from, cudaStream_t stream) {
    check("upload", cudaMemcpyAsync(d_data_, from.data(), from.size_bytes(), cudaMemcpyHostToDevice, stream));
  }

 private:
  T* d_data_ = nullptr;
};

class device_stream {
 public:
  device_stream() { check("stream", cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  device_stream(const device_stream&) = delete;
  device_stream& operator=(const device_stream&) = delete;
  ~device_stream() { static_cast<void>(cudaStreamDestroy(stream_)); }

  [[nodiscard]] cudaStream_t get() const { return stream_; }
  void wait_sync() const { check("a step", cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

// The time that passes on the device between begin() and end().
class device_timer {
 public:
  device_timer() {
    check("event", cudaEventCreate(&begin_));
    check("event", cudaEventCreate(&end_));
  }
  device_timer(const device_timer&) = delete;
  device_timer& operator=(const device_timer&) = delete;
  ~device_timer() {
    static_cast<void>(cudaEventDestroy(begin_));
    static_cast<void>(cudaEventDestroy(end_));
  }

  void begin(cudaStream_t stream) { check("event", cudaEventRecord(begin_, stream)); }
  void end(cudaStream_t stream) { check("event", cudaEventRecord(end_, stream)); }

  // Once the stream has come past end().
  [[nodiscard]] float milliseconds() const {
    float time = 0;
    check("event", cudaEventElapsedTime(&time, begin_, end_));
    return time;
  }

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace replay
