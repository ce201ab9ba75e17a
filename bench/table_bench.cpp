// Block tables and decode batches: growth, rollback, fork, and what a batch of 256 rows x 2 048 pages costs
// a step.  Items are tokens (append), pages (truncate, fork) and entries (export).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <kvpage/kvpage.hpp>
#include <utility>
#include <vector>

#include "workloads.hpp"

namespace {

template <class P>
using pool_of = kvpage::page_pool<kvpage::bf16, P>;

constexpr std::size_t tokens_per_page = 16;
constexpr std::size_t rows = 256;
constexpr std::size_t pages_per_row = 2048;

// A row that grows token by token to 144 pages.
template <class P>
void append(benchmark::State& state) {
  pool_of<P> pool({.pages = 1 << 16});
  kvpage::block_table<pool_of<P>> table(pool, 144);
  for (auto _ : state) {
    for (std::size_t token = 0; token < 144 * tokens_per_page; ++token) bench::require_ok(table.append(1));
    bench::require_ok(table.release());
  }
  state.SetItemsProcessed(state.iterations() * 144 * static_cast<std::int64_t>(tokens_per_page));
}

// Eight speculative pages taken and given back.
template <class P>
void truncate(benchmark::State& state) {
  pool_of<P> pool({.pages = 1 << 16});
  kvpage::block_table<pool_of<P>> table(pool, 144);
  bench::require_ok(table.append(128 * tokens_per_page));
  for (auto _ : state) {
    bench::require_ok(table.append(8 * tokens_per_page));
    bench::require_ok(table.truncate(128 * tokens_per_page));
  }
  state.SetItemsProcessed(state.iterations() * 8);
}

template <class P>
void fork(benchmark::State& state) {
  pool_of<P> pool({.pages = 1 << 16});
  kvpage::block_table<pool_of<P>> table(pool);
  kvpage::block_table<pool_of<P>> child(pool, 144);
  bench::require_ok(table.append(144 * tokens_per_page));
  for (auto _ : state) {
    bench::require_ok(table.fork(child));
    bench::require_ok(child.release());
  }
  state.SetItemsProcessed(state.iterations() * 144);
}

template <class P>
struct batch_scene {
  batch_scene() : pool({.pages = rows * pages_per_row + 1}), batch({rows, rows * pages_per_row, rows}) {
    for (std::size_t row = 0; row < rows; ++row) {
      tables.emplace_back(pool);
      bench::require_ok(tables.back().append(pages_per_row * tokens_per_page));
    }
  }
  void rebuild() {
    batch.clear();
    for (const auto& table : tables) bench::require_ok(batch.add(table));
  }

  pool_of<P> pool;
  std::vector<kvpage::block_table<pool_of<P>>> tables;
  kvpage::decode_batch<pool_of<P>> batch;
};

template <class P>
void export_csr(benchmark::State& state) {
  batch_scene<P> scene;
  for (auto _ : state) {
    scene.rebuild();
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows * pages_per_row));
}

template <class P>
void export_padded(benchmark::State& state) {
  batch_scene<P> scene;
  scene.rebuild();
  std::vector<std::int32_t> out(rows * pages_per_row);
  for (auto _ : state) {
    bench::require_ok(scene.batch.export_padded(out, rows, pages_per_row));
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows * pages_per_row));
}

using kvpage::tagged;
using kvpage::untagged;
#define KVPAGE_BENCH(what)                                     \
  BENCHMARK_TEMPLATE(what, untagged)->Name(#what "/untagged"); \
  BENCHMARK_TEMPLATE(what, tagged)->Name(#what "/tagged")

KVPAGE_BENCH(append);
KVPAGE_BENCH(truncate);
KVPAGE_BENCH(fork);
KVPAGE_BENCH(export_csr);
KVPAGE_BENCH(export_padded);

}  // namespace
