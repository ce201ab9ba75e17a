// verify() on the host, against a plain gather: the sum of what lies at the same indices of an array of the
// same size.  Items are entries.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <kvpage/kvpage.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "workloads.hpp"

namespace {

using pool_type = kvpage::page_pool<kvpage::bf16, kvpage::tagged>;
using table_type = kvpage::block_table<pool_type>;

constexpr std::size_t tokens_per_page = 16;

// Rows of equal length whose pages lie in shuffled order all over the pool.
struct scene {
  scene(std::size_t usable_pages, std::size_t rows, std::size_t pages_per_row)
      : pool({.pages = usable_pages + 1}),
        batch({.rows = rows, .entries = rows * pages_per_row, .slots = rows}),
        verdicts(rows) {
    std::vector<pool_type::handle> all(usable_pages);
    bench::require_ok(pool.allocate(all));
    std::shuffle(all.begin(), all.end(), std::mt19937_64{1});
    bench::require_ok(pool.release(all));
    for (std::size_t row = 0; row < rows; ++row) {
      tables.emplace_back(pool);
      bench::require_ok(tables.back().append(pages_per_row * tokens_per_page));
      bench::require_ok(batch.add(tables.back()));
    }
  }

  pool_type pool;
  std::vector<table_type> tables;
  kvpage::decode_batch<pool_type> batch;
  std::vector<kvpage::verdict> verdicts;
};

scene scene_of(const benchmark::State& state) {
  return {static_cast<std::size_t>(state.range(0)), static_cast<std::size_t>(state.range(1)),
          static_cast<std::size_t>(state.range(2))};
}

void verify(benchmark::State& state) {
  scene s = scene_of(state);
  kvpage::step_number step = 0;
  for (auto _ : state) {
    if (kvpage::verify(s.batch, s.pool, ++step, s.verdicts).value().failed_rows != 0)
      state.SkipWithError("a row failed");
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(s.batch.entries()));
}

void plain_gather(benchmark::State& state) {
  scene s = scene_of(state);
  std::vector<std::uint64_t> values(s.pool.size(), 1);
  for (auto _ : state) {
    std::uint64_t sum = 0;
    for (const std::int32_t page : s.batch.indices()) sum += values[static_cast<std::uint32_t>(page)];
    benchmark::DoNotOptimize(sum);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(s.batch.entries()));
}

// Pages of the pool, rows, pages a row.
#define KVPAGE_BENCH(who)          \
  BENCHMARK(who)                   \
      ->Name("verify/" #who)       \
      ->Args({1 << 16, 64, 144})   \
      ->Args({1 << 20, 256, 2048}) \
      ->Args({1 << 24, 256, 2048})

KVPAGE_BENCH(plain_gather);
KVPAGE_BENCH(verify);

}  // namespace
