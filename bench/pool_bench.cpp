// What a page costs: page_pool against the floors, in the four workloads, over pools of several sizes.
#include <benchmark/benchmark.h>

#include <kvpage/kvpage.hpp>

#include "floors.hpp"
#include "workloads.hpp"

namespace {

using untagged_pool = kvpage::page_pool<kvpage::bf16, kvpage::untagged>;
using tagged_pool = kvpage::page_pool<kvpage::bf16, kvpage::tagged>;

// A pool whose options the benchmark's template arguments choose.
template <class Pool, kvpage::reuse_order Reuse>
struct kvpage_pool : Pool {
  explicit kvpage_pool(std::uint32_t capacity)
      : Pool({.pages = std::uint64_t{capacity} + 1, .reuse = Reuse}) {}
};

using untagged_lifo = kvpage_pool<untagged_pool, kvpage::reuse_order::lifo>;
using untagged_fifo = kvpage_pool<untagged_pool, kvpage::reuse_order::fifo>;
using tagged_lifo = kvpage_pool<tagged_pool, kvpage::reuse_order::lifo>;
using tagged_fifo = kvpage_pool<tagged_pool, kvpage::reuse_order::fifo>;

template <template <class> class Workload, class Allocator>
void run(benchmark::State& state) {
  const auto capacity = static_cast<std::size_t>(state.range(0));
  Allocator allocator(static_cast<std::uint32_t>(capacity));
  bench::shuffle_free_pages(allocator, capacity);
  Workload<Allocator> workload(allocator, capacity);
  std::size_t pages = 0;
  for (auto _ : state) {
    pages += workload.step();
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(pages));
}

// Pools of 4 Ki to 16 Mi pages.  churn holds up to 9 216 pages.
constexpr std::int64_t smallest = 1 << 12, small_for_churn = 1 << 14, usual = 1 << 16, large = 1 << 20,
                       largest = 1 << 24;

#define KVPAGE_BENCH(workload, allocator, first)      \
  BENCHMARK_TEMPLATE(run, bench::workload, allocator) \
      ->Name(#workload "/" #allocator)                \
      ->Arg(first)                                    \
      ->Arg(usual)                                    \
      ->Arg(large)                                    \
      ->Arg(largest)
#define KVPAGE_BENCH_WORKLOADS(allocator)          \
  KVPAGE_BENCH(single, allocator, smallest);       \
  KVPAGE_BENCH(batch, allocator, smallest);        \
  KVPAGE_BENCH(churn, allocator, small_for_churn); \
  KVPAGE_BENCH(shared, allocator, smallest)

using bench::floor;
using bench::plain_floor;
KVPAGE_BENCH_WORKLOADS(plain_floor);
KVPAGE_BENCH_WORKLOADS(untagged_lifo);
KVPAGE_BENCH_WORKLOADS(untagged_fifo);
KVPAGE_BENCH_WORKLOADS(floor);
KVPAGE_BENCH_WORKLOADS(tagged_lifo);
KVPAGE_BENCH_WORKLOADS(tagged_fifo);

}  // namespace
