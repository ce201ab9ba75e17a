// Case M: without tags a pool is a plain allocator.  Ids, references and counters are those of a stack or a
// queue of page numbers with a reference count, whatever is done to it.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <vector>

#include "../support/probed_pool.hpp"

namespace {

using kvpage::errc;
using kvpage::page_id;
using kvpage::reuse_order;

using pool_type = kvpage::page_pool<kvpage::bf16, kvpage::untagged>;
using handle = pool_type::handle;

class plain_allocator {
 public:
  plain_allocator(page_id pages, reuse_order order) : order_{order}, references_(pages + 1) {
    for (page_id page = 1; page <= pages; ++page) free_.push_back(page);
  }

  [[nodiscard]] std::size_t free() const { return free_.size(); }
  [[nodiscard]] std::uint32_t references(page_id page) const { return references_[page]; }

  page_id allocate() {
    const page_id page = free_.front();
    free_.pop_front();
    references_[page] = 1;
    return page;
  }
  void retain(page_id page) { ++references_[page]; }
  void release(page_id page) {
    if (--references_[page] != 0) return;
    order_ == reuse_order::lifo ? free_.push_front(page) : free_.push_back(page);
  }

 private:
  reuse_order order_;
  std::vector<std::uint32_t> references_;
  std::deque<page_id> free_;
};

struct off_path : ::testing::TestWithParam<reuse_order> {};

TEST_P(off_path, case_M_untagged_equals_a_plain_allocator) {
  constexpr page_id pages = 23;
  kvpage_test::probed_pool<pool_type> pool{pages, GetParam()};
  plain_allocator plain{pages, GetParam()};
  std::vector<handle> held;  // one for each reference
  std::mt19937 random{2024};
  for (int round = 0; round < 20'000; ++round) {
    const std::size_t count = random() % 6;
    switch (random() % 3) {
      case 0: {
        std::vector<handle> granted(count);
        ASSERT_EQ(pool->allocate(granted), count <= plain.free() ? errc::ok : errc::exhausted);
        if (count > plain.free()) break;
        for (const handle& page : granted) ASSERT_EQ(page.id(), plain.allocate());
        held.insert(held.end(), granted.begin(), granted.end());
        break;
      }
      case 1: {
        if (held.empty()) break;
        const handle page = held[random() % held.size()];
        ASSERT_EQ(pool->retain({&page, 1}), errc::ok);
        plain.retain(page.id());
        held.push_back(page);
        break;
      }
      default: {
        std::vector<handle> released;
        for (std::size_t i = 0; i < count && !held.empty(); ++i) {
          std::swap(held[random() % held.size()], held.back());
          released.push_back(held.back());
          held.pop_back();
        }
        ASSERT_EQ(pool->release(released), errc::ok);
        for (const handle& page : released) plain.release(page.id());
      }
    }
    ASSERT_EQ(pool->stats(),
              (kvpage::pool_stats{.capacity = pages, .free = plain.free(), .live = pages - plain.free()}));
    for (page_id page = 1; page <= pages; ++page) ASSERT_EQ(pool->references(page), plain.references(page));
  }
  EXPECT_TRUE(pool->audit().clean());
}

TEST_P(off_path, case_M_takes_8_bytes_a_page) {
  kvpage_test::probed_pool<pool_type> pool{999, GetParam()};
  EXPECT_LE(pool.memory().bytes_held(), 8U * 1000);
}

INSTANTIATE_TEST_SUITE_P(both_orders, off_path, ::testing::Values(reuse_order::lifo, reuse_order::fifo),
                         [](const auto& order) {
                           return order.param == reuse_order::lifo ? "lifo" : "fifo";
                         });

}  // namespace
