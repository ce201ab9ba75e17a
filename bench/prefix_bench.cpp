// prefix_index: a hit of 128 pages, their publication, and eviction.  Items are pages.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <kvpage/kvpage.hpp>
#include <numeric>
#include <vector>

#include "workloads.hpp"

namespace {

using pool_type = kvpage::page_pool<kvpage::bf16, kvpage::tagged>;
using table_type = kvpage::block_table<pool_type>;

constexpr std::size_t tokens_per_page = 16;
constexpr std::size_t pages = 128;

// A text of 128 full pages and one token, another for each `number`.
std::vector<kvpage::token_id> text_of(std::int32_t number) {
  std::vector<kvpage::token_id> text(pages * tokens_per_page + 1);
  std::iota(text.begin(), text.end(), number * 1'000'000);
  return text;
}

struct scene {
  void publish(const std::vector<kvpage::token_id>& text) {
    table_type table(pool, pages + 1);
    bench::require_ok(table.append(text.size()));
    if (index.publish(table, {text}, text.size(), index.epoch()).value() != pages) std::abort();
  }

  pool_type pool{{.pages = 1 << 16}};
  kvpage::prefix_index<pool_type> index{pool};
};

// The pages of one text among 256 cached ones are found, retained, and released again.
void match(benchmark::State& state) {
  scene s;
  for (std::int32_t number = 0; number < 256; ++number) s.publish(text_of(number));
  const auto text = text_of(100);
  table_type table(s.pool, pages + 1);
  for (auto _ : state) {
    if (s.index.match_and_retain({text}, table) != pages * tokens_per_page) state.SkipWithError("no hit");
    bench::require_ok(table.release());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(pages));
}

void miss(benchmark::State& state) {
  scene s;
  for (std::int32_t number = 0; number < 256; ++number) s.publish(text_of(number));
  const auto text = text_of(1000);
  table_type table(s.pool, pages + 1);
  for (auto _ : state) benchmark::DoNotOptimize(s.index.match_and_retain({text}, table));
  state.SetItemsProcessed(state.iterations());
}

// A text is granted, published and released, and its pages are evicted.
void publish_and_evict(benchmark::State& state) {
  scene s;
  const auto text = text_of(0);
  for (auto _ : state) {
    s.publish(text);
    if (s.index.evict(pages) != pages) state.SkipWithError("not evicted");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(pages));
}

BENCHMARK(match)->Name("match/tagged");
BENCHMARK(miss)->Name("miss/tagged");
BENCHMARK(publish_and_evict)->Name("publish_and_evict/tagged");

}  // namespace
