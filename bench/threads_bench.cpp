// Two threads on one allocator: total throughput, against one thread on page_pool.  Every thread runs a
// workload of its own; items are pages of all threads, time is the wall's.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <kvpage/kvpage.hpp>
#include <memory>
#include <mutex>
#include <span>

#include "workloads.hpp"

#if __has_include(<boost/lockfree/stack.hpp>)
#include <boost/lockfree/stack.hpp>
#define KVPAGE_BENCH_BOOST 1
#else
#define KVPAGE_BENCH_BOOST 0
#endif

namespace {

constexpr std::uint32_t usable_pages = 1 << 16;

struct page_pool : kvpage::page_pool<kvpage::bf16, kvpage::tagged> {
  page_pool() : kvpage::page_pool<kvpage::bf16, kvpage::tagged>({.pages = usable_pages + 1}) {}
};

struct concurrent_page_pool : kvpage::concurrent_page_pool<kvpage::bf16, kvpage::tagged> {
  concurrent_page_pool()
      : kvpage::concurrent_page_pool<kvpage::bf16, kvpage::tagged>({.pages = usable_pages + 1}) {}
};

// page_pool behind a std::mutex.
class mutexed_page_pool {
 public:
  using handle = page_pool::handle;
  kvpage::errc allocate(std::span<handle> out) {
    const std::lock_guard locked{mutex_};
    return pool_.allocate(out);
  }
  kvpage::errc release(std::span<const handle> pages) {
    const std::lock_guard locked{mutex_};
    return pool_.release(pages);
  }

 private:
  page_pool pool_;
  std::mutex mutex_;
};

#if KVPAGE_BENCH_BOOST
// Free page ids only: no references, no tags, no checks, no all or nothing.
class boost_lockfree_stack {
 public:
  using handle = kvpage::page_id;
  boost_lockfree_stack() : stack_(usable_pages) {
    for (handle page = usable_pages; page != 0; --page) stack_.push(page);
  }
  kvpage::errc allocate(std::span<handle> out) {
    for (handle& page : out) {
      if (!stack_.pop(page)) return kvpage::errc::exhausted;
    }
    return kvpage::errc::ok;
  }
  kvpage::errc release(std::span<const handle> pages) {
    for (const handle page : pages) stack_.bounded_push(page);
    return kvpage::errc::ok;
  }

 private:
  boost::lockfree::stack<handle> stack_;
};
#endif

template <class Allocator>
std::unique_ptr<Allocator> shared_by_all_threads;

template <template <class> class Workload, class Allocator>
void run(benchmark::State& state) {
  Workload<Allocator> workload(*shared_by_all_threads<Allocator>, usable_pages / 2);
  std::size_t pages = 0;
  for (auto _ : state) pages += workload.step();
  state.SetItemsProcessed(static_cast<std::int64_t>(pages));
}

template <class Allocator>
void set_up(const benchmark::State&) {
  shared_by_all_threads<Allocator> = std::make_unique<Allocator>();
  bench::shuffle_free_pages(*shared_by_all_threads<Allocator>, usable_pages);
}

template <class Allocator>
void tear_down(const benchmark::State&) {
  shared_by_all_threads<Allocator>.reset();
}

#define KVPAGE_BENCH(workload, allocator, threads)             \
  BENCHMARK_TEMPLATE(run, bench::workload, allocator)          \
      ->Name(#workload "/" #allocator "_" #threads "_threads") \
      ->Setup(set_up<allocator>)                               \
      ->Teardown(tear_down<allocator>)                         \
      ->Threads(threads)                                       \
      ->UseRealTime()
#define KVPAGE_BENCH_WORKLOADS(allocator, threads) \
  KVPAGE_BENCH(single, allocator, threads);        \
  KVPAGE_BENCH(batch, allocator, threads);         \
  KVPAGE_BENCH(churn, allocator, threads)

KVPAGE_BENCH_WORKLOADS(page_pool, 1);
KVPAGE_BENCH_WORKLOADS(concurrent_page_pool, 1);
KVPAGE_BENCH_WORKLOADS(concurrent_page_pool, 2);
KVPAGE_BENCH_WORKLOADS(mutexed_page_pool, 2);
#if KVPAGE_BENCH_BOOST
KVPAGE_BENCH_WORKLOADS(boost_lockfree_stack, 2);
#endif

}  // namespace
