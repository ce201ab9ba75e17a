// What moving tokens into, between and out of pages costs on the device, in bytes read and written a
// second, against a device-to-device copy of as many bytes.  64 tokens are a decode step's, 65 536 are more
// than the caches hold.
#include <benchmark/benchmark.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <kvpage/cuda/device_storage.cuh>
#include <kvpage/cuda/storage_operations.cuh>
#include <span>
#include <vector>

namespace {

using kvpage::bf16;
using kvpage::fp8_e4m3;
using kvpage::page_shape;
using kvpage::scale_rule;
namespace cuda = kvpage::cuda;

constexpr std::uint32_t heads = 8, dim = 128, tokens_per_page = 16;

void require(cudaError_t code) { cuda::detail::require_success("storage_cuda_bench", code); }

template <class T>
class device_array {
 public:
  explicit device_array(std::size_t size) {
    require(cudaMalloc(reinterpret_cast<void**>(&d_data_), size * sizeof(T)));
    require(cudaMemset(d_data_, 0x3C, size * sizeof(T)));  // numbers of ordinary size, in every element type
  }
  explicit device_array(const std::vector<T>& values) : device_array(values.size()) {
    require(cudaMemcpy(d_data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  device_array(const device_array&) = delete;
  device_array& operator=(const device_array&) = delete;
  ~device_array() { static_cast<void>(cudaFree(d_data_)); }

  [[nodiscard]] T* data() const { return d_data_; }

 private:
  T* d_data_ = nullptr;
};

// One layer of pages 1 to n in order, and as many again behind them.
template <kvpage::element E>
struct cache {
  explicit cache(std::size_t tokens_, scale_rule scales = scale_rule::none)
      : tokens{tokens_},
        pages{static_cast<std::uint32_t>(tokens_ / tokens_per_page)},
        shape{page_shape::kv({.layers = 1,
                              .kv_heads = heads,
                              .head_dim = dim,
                              .tokens_per_page = tokens_per_page,
                              .element_bytes = sizeof(E),
                              .scales = scales})},
        storage{shape, kvpage::page_layout::layer_major(shape, 1 + 2 * pages)},
        d_pages{page_ids(pages)},
        d_slots{slots_of(tokens_)} {}

  static std::vector<std::int32_t> page_ids(std::uint32_t pages) {
    std::vector<std::int32_t> ids(pages);
    for (std::uint32_t i = 0; i < pages; ++i) ids[i] = static_cast<std::int32_t>(1 + i);
    return ids;
  }
  static std::vector<kvpage::slot_index> slots_of(std::size_t tokens) {
    std::vector<kvpage::slot_index> slots(tokens);
    for (std::size_t i = 0; i < tokens; ++i) slots[i] = static_cast<kvpage::slot_index>(tokens_per_page + i);
    return slots;
  }
  [[nodiscard]] std::size_t bytes() const { return tokens * shape.token_bytes(); }

  std::size_t tokens;
  std::uint32_t pages;
  page_shape shape;
  cuda::device_storage<E> storage;
  device_array<std::int32_t> d_pages;
  device_array<kvpage::slot_index> d_slots;
};

// Holds a stream for about 100 us: longer than it takes the host to enqueue what is measured.
__global__ void hold() {
  for (int i = 0; i < 50; ++i) __nanosleep(2000);
}

// Times enqueue(stream), one launch at a time, by events, without the host's part.
template <class Enqueue>
void measure(benchmark::State& state, std::size_t bytes, Enqueue enqueue) {
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  require(cudaStreamCreate(&stream));
  require(cudaEventCreate(&begin));
  require(cudaEventCreate(&end));
  require(enqueue(stream));
  for (auto _ : state) {
    float milliseconds = 0;
    hold<<<1, 1, 0, stream>>>();
    require(cudaGetLastError());
    require(cudaEventRecord(begin, stream));
    require(enqueue(stream));
    require(cudaEventRecord(end, stream));
    require(cudaEventSynchronize(end));
    require(cudaEventElapsedTime(&milliseconds, begin, end));
    state.SetIterationTime(double{milliseconds} / 1000);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
  require(cudaEventDestroy(end));
  require(cudaEventDestroy(begin));
  require(cudaStreamDestroy(stream));
}

std::size_t tokens_of(const benchmark::State& state) { return static_cast<std::size_t>(state.range(0)); }

// As many bytes as copy_pages moves.
void copy_memory(benchmark::State& state) {
  const std::size_t bytes = tokens_of(state) * 2 * heads * dim * sizeof(bf16);
  const device_array<std::byte> d_from(bytes), d_to(bytes);
  measure(state, 2 * bytes, [&](cudaStream_t stream) {
    return cudaMemcpyAsync(d_to.data(), d_from.data(), bytes, cudaMemcpyDeviceToDevice, stream);
  });
}

template <kvpage::element E, scale_rule Scales>
void append(benchmark::State& state) {
  const cache<E> to{tokens_of(state), Scales};
  const device_array<bf16> d_keys(to.tokens * heads * dim), d_values(to.tokens * heads * dim);
  measure(state, to.tokens * 2 * heads * dim * sizeof(bf16) + to.bytes(), [&](cudaStream_t stream) {
    return cuda::enqueue_append(to.storage.view(), 0, to.d_slots.data(), to.tokens,
                                kvpage::token_arrays<const bf16>{d_keys.data(), d_values.data(), heads * dim},
                                nullptr, stream);
  });
}

template <kvpage::element E, scale_rule Scales>
void gather(benchmark::State& state) {
  const cache<E> from{tokens_of(state), Scales};
  const device_array<bf16> d_keys(from.tokens * heads * dim), d_values(from.tokens * heads * dim);
  measure(state, from.tokens * 2 * heads * dim * sizeof(bf16) + from.bytes(), [&](cudaStream_t stream) {
    return cuda::enqueue_gather(from.storage.view(), 0, from.d_pages.data(), from.tokens,
                                kvpage::token_arrays<bf16>{d_keys.data(), d_values.data(), heads * dim},
                                stream);
  });
}

template <kvpage::element From, kvpage::element To, scale_rule ToScales>
void convert(benchmark::State& state) {
  const cache<From> from{tokens_of(state)};
  const cache<To> to{tokens_of(state), ToScales};
  measure(state, from.bytes() + to.bytes(), [&](cudaStream_t stream) {
    return cuda::enqueue_convert_pages(from.storage.view(), from.d_pages.data(), to.storage.view(),
                                       to.d_pages.data(), from.tokens, stream);
  });
}

void copy_pages(benchmark::State& state) {
  using handle = kvpage::page_handle<bf16, kvpage::tagged>;
  const cache<bf16> both{tokens_of(state)};
  std::vector<kvpage::page_copy<handle>> copies;
  for (kvpage::page_id page = 1; page <= both.pages; ++page)
    copies.push_back({handle{page, 1}, handle{page + both.pages, 1}, tokens_per_page});
  const device_array<kvpage::page_copy<handle>> d_copies(copies);
  measure(state, 2 * both.bytes(), [&](cudaStream_t stream) {
    return cuda::enqueue_copy_pages(both.storage.view(), d_copies.data(), copies.size(), stream);
  });
}

void clear_pages(benchmark::State& state) {
  const cache<bf16> of{tokens_of(state)};
  measure(state, of.bytes(), [&](cudaStream_t stream) {
    return cuda::enqueue_clear_pages(of.storage.view(), of.d_pages.data(), of.pages, stream);
  });
}

#define KVPAGE_BENCH(...) BENCHMARK(__VA_ARGS__)->Arg(64)->Arg(65536)->UseManualTime()

using enum scale_rule;
KVPAGE_BENCH(copy_memory);
KVPAGE_BENCH(append<bf16, none>);
KVPAGE_BENCH(append<fp8_e4m3, none>);
KVPAGE_BENCH(append<fp8_e4m3, per_token_head>);
KVPAGE_BENCH(gather<bf16, none>);
KVPAGE_BENCH(gather<fp8_e4m3, per_token_head>);
KVPAGE_BENCH(convert<bf16, fp8_e4m3, none>);
KVPAGE_BENCH(convert<bf16, fp8_e4m3, per_token_head>);
KVPAGE_BENCH(convert<fp8_e4m3, bf16, none>);
KVPAGE_BENCH(copy_pages);
KVPAGE_BENCH(clear_pages);

}  // namespace
