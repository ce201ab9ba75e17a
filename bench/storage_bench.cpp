// What moving tokens into, between and out of pages costs on the host, in bytes read and written a second,
// against memcpy of as many bytes.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <kvpage/kvpage.hpp>
#include <span>
#include <type_traits>
#include <vector>

namespace {

using kvpage::bf16;
using kvpage::fp8_e4m3;
using kvpage::page_shape;
using kvpage::scale_rule;

// One layer of a model with 8 KV heads of 128; 4 096 tokens: 16 MiB in bf16, beyond the caches.
constexpr std::uint32_t heads = 8, dim = 128, tokens_per_page = 16;
constexpr std::size_t tokens = 4096, values = tokens * 2 * heads * dim;

template <kvpage::element E>
page_shape shape(scale_rule scales) {
  return page_shape::kv({.layers = 1,
                         .kv_heads = heads,
                         .head_dim = dim,
                         .tokens_per_page = tokens_per_page,
                         .element_bytes = sizeof(E),
                         .scales = scales});
}

// A pool whose first half of pages one request holds.
template <kvpage::element E>
struct cache {
  using pool_type = kvpage::page_pool<E, kvpage::tagged>;

  explicit cache(scale_rule scales)
      : pool{{.pages = 1 + 2 * tokens / tokens_per_page, .tokens_per_page = tokens_per_page}},
        table{pool, tokens / tokens_per_page},
        calibrated(shape<E>(scales).calibrated_scales(), 0.01f),
        storage{shape<E>(scales), kvpage::page_layout::layer_major(shape<E>(scales), pool.size()),
                calibrated},
        slots(tokens) {
    if (table.append(tokens) != kvpage::errc::ok) std::abort();
    for (std::size_t token = 0; token < tokens; ++token) slots[token] = *table.slot(token);
  }

  [[nodiscard]] kvpage::paged_tokens<E, kvpage::tagged> request() const {
    return {storage.view(), pool, table.handles(), tokens};
  }
  // Of the request, scales included.
  [[nodiscard]] std::size_t bytes() const { return tokens * storage.view().shape().token_bytes(); }

  pool_type pool;
  kvpage::block_table<pool_type> table;
  std::vector<float> calibrated;
  kvpage::page_storage<E> storage;
  std::vector<kvpage::slot_index> slots;
};

// Numbers of ordinary size, so that scales are neither tiny nor huge.
template <kvpage::numeric T>
std::vector<T> numbers() {
  std::vector<T> result(values);
  for (std::size_t i = 0; i < values; ++i)
    result[i] = kvpage::convert_value<T>(static_cast<float>(i * 2654435761u % 2001) / 500.0f - 2.0f);
  return result;
}

template <class T>
kvpage::token_arrays<T> arrays(std::vector<std::remove_const_t<T>>& of) {
  return {of.data(), of.data() + values / 2, heads * dim};
}

void finish(benchmark::State& state, std::size_t bytes, kvpage::errc code) {
  if (code != kvpage::errc::ok) state.SkipWithError("refused");
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}

// Bytes: what the operation of the same name reads and writes.
void copy_memory(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0)) << 20;
  std::vector<char> from(bytes / 2, 1), to(bytes / 2);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  finish(state, bytes, kvpage::errc::ok);
}

template <kvpage::numeric T, kvpage::element E, scale_rule Scales = scale_rule::none>
void append(benchmark::State& state) {
  cache<E> to{Scales};
  std::vector<T> input = numbers<T>();
  kvpage::errc code{};
  for (auto _ : state) {
    code = kvpage::append(to.storage.view(), 0, to.slots, arrays<const T>(input));
    benchmark::ClobberMemory();
  }
  finish(state, values * sizeof(T) + to.bytes(), code);
}

template <kvpage::numeric T, kvpage::element E, scale_rule Scales = scale_rule::none>
void gather(benchmark::State& state) {
  cache<E> from{Scales};
  std::vector<T> output = numbers<T>();
  kvpage::errc code = kvpage::append(from.storage.view(), 0, from.slots, arrays<const T>(output));
  for (auto _ : state) {
    code = kvpage::gather(from.request(), 0, arrays<T>(output));
    benchmark::ClobberMemory();
  }
  finish(state, values * sizeof(T) + from.bytes(), code);
}

template <kvpage::element From, scale_rule FromScales, kvpage::element To, scale_rule ToScales>
void convert(benchmark::State& state) {
  cache<From> from{FromScales};
  cache<To> to{ToScales};
  std::vector<bf16> input = numbers<bf16>();
  kvpage::errc code = kvpage::append(from.storage.view(), 0, from.slots, arrays<const bf16>(input));
  for (auto _ : state) {
    code = kvpage::convert_pages(from.request(), to.request());
    benchmark::ClobberMemory();
  }
  finish(state, from.bytes() + to.bytes(), code);
}

void copy_pages(benchmark::State& state) {
  cache<bf16> both{scale_rule::none};
  kvpage::block_table<cache<bf16>::pool_type> other{both.pool};
  kvpage::errc code = other.append(tokens);
  std::vector<kvpage::page_copy<cache<bf16>::pool_type::handle>> copies;
  for (std::size_t page = 0; page < other.pages(); ++page)
    copies.push_back({both.table.handles()[page], other.handles()[page], tokens_per_page});
  for (auto _ : state) {
    code = kvpage::copy_pages(both.storage.view(), both.pool, copies);
    benchmark::ClobberMemory();
  }
  finish(state, 2 * both.bytes(), code);
}

void clear_pages(benchmark::State& state) {
  cache<bf16> of{scale_rule::none};
  kvpage::errc code{};
  for (auto _ : state) {
    code = kvpage::clear_pages(of.storage.view(), of.pool, of.table.handles());
    benchmark::ClobberMemory();
  }
  finish(state, of.bytes(), code);
}

template <kvpage::numeric From, kvpage::numeric To>
void convert_elements(benchmark::State& state) {
  const std::vector<From> from = numbers<From>();
  std::vector<To> to(values);
  for (auto _ : state) {
    kvpage::convert_elements(std::span<const From>{from}, std::span<To>{to});
    benchmark::ClobberMemory();
  }
  finish(state, values * (sizeof(From) + sizeof(To)), kvpage::errc::ok);
}

using enum scale_rule;
BENCHMARK(copy_memory)->Name("memcpy, MiB")->Arg(16)->Arg(32)->Arg(48);
BENCHMARK_TEMPLATE(convert_elements, float, bf16);
BENCHMARK_TEMPLATE(convert_elements, bf16, fp8_e4m3);
BENCHMARK_TEMPLATE(convert_elements, fp8_e4m3, bf16);
BENCHMARK_TEMPLATE(append, bf16, bf16);
BENCHMARK_TEMPLATE(append, float, bf16);
BENCHMARK_TEMPLATE(append, bf16, fp8_e4m3);
BENCHMARK_TEMPLATE(append, bf16, fp8_e4m3, per_tensor);
BENCHMARK_TEMPLATE(append, bf16, fp8_e4m3, per_token_head);
BENCHMARK_TEMPLATE(gather, bf16, bf16);
BENCHMARK_TEMPLATE(gather, bf16, fp8_e4m3);
BENCHMARK_TEMPLATE(gather, bf16, fp8_e4m3, per_token_head);
BENCHMARK_TEMPLATE(convert, bf16, none, fp8_e4m3, none);
BENCHMARK_TEMPLATE(convert, bf16, none, fp8_e4m3, per_token_head);
BENCHMARK_TEMPLATE(convert, fp8_e4m3, per_token_head, bf16, none);
BENCHMARK(copy_pages);
BENCHMARK(clear_pages);

}  // namespace
