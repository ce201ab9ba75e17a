// What moving values into, between and out of pages costs on the host, beside a memcpy that reads and writes as
// many bytes.  An item is a value.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <kvpage/kvpage.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using kvpage::bf16;
using kvpage::fp8_e4m3;
using kvpage::page_shape;
using kvpage::scale_rule;

// One layer of a model with 8 KV heads of 128; 8 192 tokens: 32 MiB in bf16, 48 with what they are moved to.
constexpr std::uint32_t heads = 8, dim = 128, tokens_per_page = 16;
constexpr std::size_t tokens = 8192, values = tokens * 2 * heads * dim;

template <kvpage::element E>
page_shape shape(scale_rule scales) {
  return page_shape::kv({.layers = 1,
                         .kv_heads = heads,
                         .head_dim = dim,
                         .tokens_per_page = tokens_per_page,
                         .element_bytes = sizeof(E),
                         .scales = scales});
}

// A pool, half of whose pages one request holds.
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

void finish(benchmark::State& state, kvpage::errc code) {
  if (code != kvpage::errc::ok) state.SkipWithError("refused");
  state.SetItemsProcessed(static_cast<std::int64_t>(values) * state.iterations());
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
  finish(state, code);
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
  finish(state, code);
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
  finish(state, code);
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
  finish(state, code);
}

void clear_pages(benchmark::State& state) {
  cache<bf16> of{scale_rule::none};
  kvpage::errc code{};
  for (auto _ : state) {
    code = kvpage::clear_pages(of.storage.view(), of.pool, of.table.handles());
    benchmark::ClobberMemory();
  }
  finish(state, code);
}

template <kvpage::numeric From, kvpage::numeric To>
void convert_elements(benchmark::State& state) {
  const std::vector<From> from = numbers<From>();
  std::vector<To> to(values);
  for (auto _ : state) {
    kvpage::convert_elements(std::span<const From>{from}, std::span<To>{to});
    benchmark::ClobberMemory();
  }
  finish(state, kvpage::errc::ok);
}

// Bytes of the request's values, scales included, and of arrays of them.
template <kvpage::element E>
std::size_t in_pages(scale_rule scales = scale_rule::none) {
  return tokens * shape<E>(scales).token_bytes();
}
template <kvpage::numeric T>
constexpr std::size_t in_array = values * sizeof(T);

// Registers WORKLOAD/kvpage, and WORKLOAD/memcpy of half of `bytes`.
void compare(const std::string& workload, void (*operation)(benchmark::State&), std::size_t bytes) {
  benchmark::RegisterBenchmark((workload + "/kvpage").c_str(), operation);
  benchmark::RegisterBenchmark((workload + "/memcpy").c_str(), [bytes](benchmark::State& state) {
    const std::vector<char> from(bytes / 2, 1);
    std::vector<char> to(bytes / 2);
    for (auto _ : state) {
      std::memcpy(to.data(), from.data(), from.size());
      benchmark::DoNotOptimize(to.data());
      benchmark::ClobberMemory();
    }
    finish(state, kvpage::errc::ok);
  });
}

[[maybe_unused]] const bool registered = [] {
  using enum scale_rule;
  using e4m3 = fp8_e4m3;
  compare("convert_elements, float to bf16", convert_elements<float, bf16>, in_array<float> + in_array<bf16>);
  compare("convert_elements, bf16 to e4m3", convert_elements<bf16, e4m3>, in_array<bf16> + in_array<e4m3>);
  compare("convert_elements, e4m3 to bf16", convert_elements<e4m3, bf16>, in_array<bf16> + in_array<e4m3>);
  compare("append, bf16", append<bf16, bf16>, in_array<bf16> + in_pages<bf16>());
  compare("append, float to bf16", append<float, bf16>, in_array<float> + in_pages<bf16>());
  compare("append, bf16 to e4m3", append<bf16, e4m3>, in_array<bf16> + in_pages<e4m3>());
  compare("append, bf16 to e4m3 per_tensor", append<bf16, e4m3, per_tensor>,
          in_array<bf16> + in_pages<e4m3>(per_tensor));
  compare("append, bf16 to e4m3 per_token_head", append<bf16, e4m3, per_token_head>,
          in_array<bf16> + in_pages<e4m3>(per_token_head));
  compare("gather, bf16", gather<bf16, bf16>, in_array<bf16> + in_pages<bf16>());
  compare("gather, e4m3 to bf16", gather<bf16, e4m3>, in_array<bf16> + in_pages<e4m3>());
  compare("gather, e4m3 per_token_head to bf16", gather<bf16, e4m3, per_token_head>,
          in_array<bf16> + in_pages<e4m3>(per_token_head));
  compare("convert_pages, bf16 to e4m3", convert<bf16, none, e4m3, none>,
          in_pages<bf16>() + in_pages<e4m3>());
  compare("convert_pages, bf16 to e4m3 per_token_head", convert<bf16, none, e4m3, per_token_head>,
          in_pages<bf16>() + in_pages<e4m3>(per_token_head));
  compare("convert_pages, e4m3 per_token_head to bf16", convert<e4m3, per_token_head, bf16, none>,
          in_pages<bf16>() + in_pages<e4m3>(per_token_head));
  compare("copy_pages, bf16", copy_pages, 2 * in_pages<bf16>());
  compare("clear_pages, bf16", clear_pages, in_pages<bf16>());
  return true;
}();

}  // namespace
