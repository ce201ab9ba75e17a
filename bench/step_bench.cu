// What the host does before a decode step of 256 rows, one new token each: the batch built anew, or only what has
// changed looked for, as cuda::device_tables does (through cuda::resident_rows, its host half).  By the rows' length
// in pages of 64 tokens.  Items are rows.  Needs nvcc, but no GPU.
#include <benchmark/benchmark.h>
#include <kvpage/cuda/resident_rows.cuh>
#include <kvpage/kvpage.hpp>

#include <cstdint>
#include <vector>

#include "workloads.hpp"

namespace {

using pool_type = kvpage::page_pool<kvpage::fp8_e4m3, kvpage::tagged>;
using table_type = kvpage::block_table<pool_type>;

constexpr std::uint32_t rows = 256;
constexpr std::size_t tokens_per_page = 64;

// Requests that grow by a token a step, spread evenly over the 64 tokens of their last page, and fall back by a page
// when they have grown by one: so their length stays the same.
class requests {
 public:
  explicit requests(std::size_t pages)
      : pool_({.pages = rows * (pages + 1) + 1, .tokens_per_page = tokens_per_page}) {
    for (std::uint32_t row = 0; row < rows; ++row) {
      shortest_.push_back(pages * tokens_per_page - row % tokens_per_page);
      tables_.emplace_back(pool_, pages + 2);
      bench::require_ok(tables_.back().append(shortest_.back()));
    }
  }

  void advance() {
    for (std::uint32_t row = 0; row < rows; ++row) {
      if (tables_[row].tokens() == shortest_[row] + tokens_per_page)
        bench::require_ok(tables_[row].truncate(shortest_[row]));
      bench::require_ok(tables_[row].append(1));
    }
  }

  [[nodiscard]] const std::vector<table_type>& tables() const { return tables_; }

 private:
  pool_type pool_;
  std::vector<std::size_t> shortest_;
  std::vector<table_type> tables_;
};

void step_anew(benchmark::State& state) {
  const auto pages = static_cast<std::size_t>(state.range(0));
  requests running(pages);
  kvpage::decode_batch<pool_type> batch({.rows = rows, .entries = rows * (pages + 2), .slots = rows});
  for (auto _ : state) {
    running.advance();
    batch.clear();
    for (const table_type& table : running.tables()) bench::require_ok(batch.add(table));
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * rows);
}

void step_changes(benchmark::State& state) {
  const auto pages = static_cast<std::size_t>(state.range(0));
  requests running(pages);
  const auto width = static_cast<std::uint32_t>(pages + 2);
  kvpage::cuda::resident_rows<pool_type> resident(rows, width, rows * width);
  std::vector<kvpage::cuda::entry_change<pool_type::handle>> changes(rows * width);
  std::size_t travelled = 0;
  for (auto _ : state) {
    running.advance();
    for (std::uint32_t row = 0; row < rows; ++row)
      bench::require_ok(resident.assign(row, running.tables()[row]));
    travelled = resident.stage_changes(changes.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * rows);
  state.counters["changed_entries"] = static_cast<double>(travelled);
}

BENCHMARK(step_anew)->Name("step/anew")->Arg(16)->Arg(128)->Arg(2048);
BENCHMARK(step_changes)->Name("step/changes")->Arg(16)->Arg(128)->Arg(2048);

}  // namespace
