// What could be taken from a package manager instead of a page pool, in the same workloads.  None of them
// counts references, tells one grant of a page from the next, or notices a page given back twice; each is
// built only where it is installed.  One thread, 65 536 pages.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <kvpage/kvpage.hpp>
#include <memory_resource>
#include <span>

#include "floors.hpp"
#include "workloads.hpp"

#if __has_include(<boost/lockfree/stack.hpp>)
#include <boost/lockfree/stack.hpp>
#define KVPAGE_BENCH_BOOST
#endif
#if __has_include(<concurrentqueue/concurrentqueue.h>)
#include <concurrentqueue/concurrentqueue.h>
#define KVPAGE_BENCH_MOODYCAMEL
#endif

namespace {

constexpr std::uint32_t usable_pages = 1 << 16;
using kvpage::errc;

struct kvpage_tagged : kvpage::page_pool<kvpage::bf16, kvpage::tagged> {
  explicit kvpage_tagged(std::uint32_t pages)
      : kvpage::page_pool<kvpage::bf16, kvpage::tagged>({.pages = pages + 1}) {}
};

// Allocators of memory hand out the address of a 64-byte record for a page; `Memory` has get() and put().
// No bound: they never refuse.
template <class Memory>
class records_of {
 public:
  using handle = void*;
  explicit records_of(std::uint32_t) {}
  errc allocate(std::span<handle> out) {
    for (handle& page : out) page = memory_.get();
    return errc::ok;
  }
  errc release(std::span<const handle> pages) {
    for (const handle page : pages) memory_.put(page);
    return errc::ok;
  }

 private:
  Memory memory_;
};

constexpr std::size_t record_bytes = 64;

struct malloc_memory {
  void* get() { return std::malloc(record_bytes); }
  void put(void* record) { std::free(record); }
};
using glibc_malloc = records_of<malloc_memory>;

struct pmr_memory {
  void* get() { return pool.allocate(record_bytes); }
  void put(void* record) { pool.deallocate(record, record_bytes); }
  std::pmr::unsynchronized_pool_resource pool;
};
using pmr_pool = records_of<pmr_memory>;

// Loaded at run time: linked, it would take the place of glibc's malloc in this whole program.
class mimalloc_memory {
 public:
  void* get() { return malloc_(record_bytes); }
  void put(void* record) { free_(record); }
  static bool is_installed() { return library() != nullptr; }

 private:
  static void* library() {
    static void* const loaded = dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL);
    return loaded;
  }
  void* (*malloc_)(std::size_t) = reinterpret_cast<void* (*)(std::size_t)>(dlsym(library(), "mi_malloc"));
  void (*free_)(void*) = reinterpret_cast<void (*)(void*)>(dlsym(library(), "mi_free"));
};
using mimalloc = records_of<mimalloc_memory>;

// Containers hold free page ids; a shortage is noticed page by page, so a call is not all or nothing.
#ifdef KVPAGE_BENCH_BOOST
class boost_lockfree_stack {
 public:
  using handle = kvpage::page_id;
  explicit boost_lockfree_stack(std::uint32_t pages) : free_(pages) {
    for (handle page = pages; page != 0; --page) free_.push(page);
  }
  errc allocate(std::span<handle> out) {
    for (handle& page : out) {
      if (!free_.pop(page)) return errc::exhausted;
    }
    return errc::ok;
  }
  errc release(std::span<const handle> pages) {
    for (const handle page : pages) free_.bounded_push(page);
    return errc::ok;
  }

 private:
  boost::lockfree::stack<handle> free_;
};
#endif

#ifdef KVPAGE_BENCH_MOODYCAMEL
class moodycamel_queue {
 public:
  using handle = kvpage::page_id;
  explicit moodycamel_queue(std::uint32_t pages) : free_(pages) {
    for (handle page = 1; page <= pages; ++page) free_.enqueue(page);
  }
  errc allocate(std::span<handle> out) {
    return free_.try_dequeue_bulk(out.data(), out.size()) == out.size() ? errc::ok : errc::exhausted;
  }
  errc release(std::span<const handle> pages) {
    free_.enqueue_bulk(pages.data(), pages.size());
    return errc::ok;
  }

 private:
  moodycamel::ConcurrentQueue<handle> free_;
};
#endif

template <template <class> class Workload, class Allocator>
void run(benchmark::State& state) {
  if constexpr (std::same_as<Allocator, mimalloc>) {
    if (!mimalloc_memory::is_installed()) return state.SkipWithError("libmimalloc.so.2 is not installed");
  }
  Allocator allocator(usable_pages);
  bench::shuffle_free_pages(allocator, usable_pages);
  Workload<Allocator> workload(allocator, usable_pages);
  std::size_t pages = 0;
  for (auto _ : state) {
    pages += workload.step();
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(pages));
}

#define KVPAGE_BENCH_WORKLOADS(allocator)                                        \
  BENCHMARK_TEMPLATE(run, bench::single, allocator)->Name("single/" #allocator); \
  BENCHMARK_TEMPLATE(run, bench::batch, allocator)->Name("batch/" #allocator);   \
  BENCHMARK_TEMPLATE(run, bench::churn, allocator)->Name("churn/" #allocator)

using bench::floor;
KVPAGE_BENCH_WORKLOADS(floor);
KVPAGE_BENCH_WORKLOADS(kvpage_tagged);
KVPAGE_BENCH_WORKLOADS(glibc_malloc);
KVPAGE_BENCH_WORKLOADS(pmr_pool);
KVPAGE_BENCH_WORKLOADS(mimalloc);
#ifdef KVPAGE_BENCH_BOOST
KVPAGE_BENCH_WORKLOADS(boost_lockfree_stack);
#endif
#ifdef KVPAGE_BENCH_MOODYCAMEL
KVPAGE_BENCH_WORKLOADS(moodycamel_queue);
#endif

}  // namespace
