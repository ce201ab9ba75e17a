// A pool whose records a test can read and corrupt, without a door in the pool: they lie in memory that
// the test handed out.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "counting_memory.hpp"
#include "kvpage/page_pool.hpp"

namespace kvpage_test {

template <class Pool>
class probed_pool {
 public:
  using pool_type = Pool;
  using handle = typename Pool::handle;
  using record = kvpage::detail::page_record<typename Pool::policy>;

  explicit probed_pool(std::size_t usable_pages, kvpage::reuse_order reuse = kvpage::reuse_order::lifo,
                       std::uint32_t tokens_per_page = 16)
      : pool_{kvpage::pool_options{.pages = usable_pages + 1,
                                   .tokens_per_page = tokens_per_page,
                                   .reuse = reuse,
                                   .memory = &memory_}} {}

  [[nodiscard]] Pool& operator*() { return pool_; }
  [[nodiscard]] Pool* operator->() { return &pool_; }
  [[nodiscard]] const counting_resource& memory() const { return memory_; }

  // The pool's own records: its first allocation.
  [[nodiscard]] std::span<record> records() const {
    const auto& block = memory_.allocations().front();
    EXPECT_EQ(block.bytes, pool_.size() * sizeof(record));
    return {static_cast<record*>(block.address), pool_.size()};
  }

  [[nodiscard]] std::vector<handle> grant(std::size_t count) {
    std::vector<handle> pages(count);
    EXPECT_EQ(pool_.allocate(pages), kvpage::errc::ok);
    return pages;
  }

  // A live page that a prefix lookup could find.
  [[nodiscard]] handle grant_published() {
    const handle page = grant(1)[0];
    EXPECT_EQ(pool_.publish(page), kvpage::errc::ok);
    return page;
  }

 private:
  counting_resource memory_;
  Pool pool_;
};

// A pool at one moment: every record to the bit, and the accounts.
struct pool_snapshot {
  template <class Pool>
  explicit pool_snapshot(probed_pool<Pool>& pool) : stats{pool->stats()} {
    const auto bytes = std::as_bytes(pool.records());
    records.assign(bytes.begin(), bytes.end());
  }

  friend bool operator==(const pool_snapshot&, const pool_snapshot&) = default;

  kvpage::pool_stats stats;
  std::vector<std::byte> records;
};

// What a snapshot cannot show: in which order pages become cached, settle as their fences retire, and are
// granted.  Uses the pool up.
template <class Pool>
struct pool_future {
  explicit pool_future(probed_pool<Pool>& pool, kvpage::step_number last_step = 64) {
    const auto drain = [&] {
      pool->drain_newly_cached([&](kvpage::page_id page) { cached.push_back(page); });
    };
    drain();
    for (kvpage::step_number step = 1; step <= last_step; ++step) {
      pool->retire(step);
      drain();
      settled.push_back(pool->stats());
    }
    granted = pool.grant(pool->stats().free);
    EXPECT_TRUE(pool->audit().clean()) << pool->audit().finding;
  }

  friend bool operator==(const pool_future&, const pool_future&) = default;

  std::vector<kvpage::page_id> cached;
  std::vector<kvpage::pool_stats> settled;
  std::vector<typename Pool::handle> granted;
};

// Runs `prepare` on two equal pools and `fail`, which must return `expected`, on one of them: afterwards
// nothing may tell the two apart.
template <class Pool>
void expect_nothing_changed(std::size_t usable_pages, kvpage::reuse_order reuse, kvpage::errc expected,
                            const std::function<void(probed_pool<Pool>&)>& prepare,
                            const std::function<kvpage::errc(probed_pool<Pool>&)>& fail) {
  probed_pool<Pool> untouched{usable_pages, reuse};
  probed_pool<Pool> tried{usable_pages, reuse};
  prepare(untouched);
  prepare(tried);
  EXPECT_EQ(fail(tried), expected);
  EXPECT_TRUE(tried->audit().clean()) << tried->audit().finding << ", page " << tried->audit().page;
  EXPECT_EQ(pool_snapshot{tried}, pool_snapshot{untouched});
  EXPECT_EQ(pool_future<Pool>{tried}, pool_future<Pool>{untouched});
}

}  // namespace kvpage_test
