#include "kvpage/free_list.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <random>
#include <vector>

#include "../support/counting_memory.hpp"

namespace {

using kvpage::page_id;
using kvpage::reuse_order;
using list = kvpage::detail::free_list;

std::vector<page_id> take(list& pages, std::size_t count) {
  std::vector<page_id> taken(count);
  EXPECT_TRUE(pages.take(count, [&](std::size_t i, page_id page) { taken[i] = page; }));
  return taken;
}

TEST(free_list, both_orders_start_with_page_1_and_take_4_bytes_a_page) {
  for (const reuse_order order : {reuse_order::lifo, reuse_order::fifo}) {
    kvpage_test::counting_resource memory;
    list pages{5, order, &memory};
    EXPECT_EQ(pages.size(), 5U);
    EXPECT_LE(memory.bytes_held(), 6 * sizeof(page_id));  // the pool's null page has no place here
    EXPECT_EQ(take(pages, 5), (std::vector<page_id>{1, 2, 3, 4, 5}));
    EXPECT_EQ(pages.size(), 0U);
  }
}

TEST(free_list, case_K_taking_more_than_there_are_takes_none) {
  for (const reuse_order order : {reuse_order::lifo, reuse_order::fifo}) {
    kvpage_test::counting_resource memory;
    list pages{3, order, &memory};
    EXPECT_FALSE(pages.take(4, [](std::size_t, page_id) { FAIL(); }));
    EXPECT_FALSE(pages.take(~std::size_t{0}, [](std::size_t, page_id) { FAIL(); }));
    EXPECT_EQ(take(pages, 3), (std::vector<page_id>{1, 2, 3}));
    EXPECT_TRUE(pages.take(0, [](std::size_t, page_id) { FAIL(); }));
  }
}

// Random pushes, takes, bulk pushes and undone pushes against std::deque, around the ring many times.
TEST(free_list, behaves_as_a_stack_or_a_queue) {
  for (const reuse_order order : {reuse_order::lifo, reuse_order::fifo}) {
    kvpage_test::counting_resource memory;
    constexpr std::size_t capacity = 7;
    list pages{capacity, order, &memory};
    std::deque<page_id> model;  // next first
    for (page_id page = 1; page <= capacity; ++page) model.push_back(page);
    std::vector<page_id> held;
    std::mt19937 random{42};
    const auto push_model = [&](page_id page) {
      order == reuse_order::lifo ? model.push_front(page) : model.push_back(page);
    };
    for (int round = 0; round < 5000; ++round) {
      const std::size_t count = random() % (capacity + 1);
      switch (random() % 4) {
        case 0:
          if (count > model.size()) break;
          for (const page_id page : take(pages, count)) {
            ASSERT_EQ(page, model.front());
            model.pop_front();
            held.push_back(page);
          }
          break;
        case 1:
          if (held.empty()) break;
          pages.push(held.back());
          push_model(held.back());
          held.pop_back();
          break;
        case 2: {
          const std::size_t bulk = (std::min)({count, held.size(), pages.room()});
          for (std::size_t i = 0; i < bulk; ++i) {
            pages.back()[i] = held.back();
            push_model(held.back());
            held.pop_back();
          }
          pages.grow(bulk);
          break;
        }
        default:
          for (const page_id page : held) pages.push(page);
          for (std::size_t i = 0; i < held.size(); ++i) pages.undo_push();
      }
      ASSERT_EQ(pages.size(), model.size());
      std::vector<page_id> listed;
      pages.for_each([&](page_id page) { listed.push_back(page); });
      ASSERT_TRUE(std::ranges::is_permutation(listed, model));
    }
    EXPECT_EQ(take(pages, model.size()), std::vector<page_id>(model.begin(), model.end()));
  }
}

}  // namespace
