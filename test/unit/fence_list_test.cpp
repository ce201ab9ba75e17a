#include "kvpage/fence_list.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

namespace {

using kvpage::step_number;
using kvpage::detail::fence_list;
using kvpage::detail::page_chain;

std::size_t settled_by(fence_list& fences, step_number step) {
  std::size_t settled = 0;
  fences.retire(step, [&](const page_chain& chain) { settled += chain.count; });
  return settled;
}

TEST(fence_list, chains_settle_when_their_step_has_retired_oldest_first) {
  fence_list fences;
  for (const step_number step : {9U, 3U, 6U, 3U}) ++fences.at(step).count;
  EXPECT_EQ(settled_by(fences, 2), 0U);
  EXPECT_EQ(settled_by(fences, 3), 2U);
  std::vector<std::size_t> counts;
  fences.at(6).count = 5;
  fences.retire(10, [&](const page_chain& chain) { counts.push_back(chain.count); });
  EXPECT_EQ(counts, (std::vector<std::size_t>{5, 1}));
  EXPECT_EQ(fences.retired(), 10U);
}

TEST(fence_list, retiring_backwards_or_again_does_nothing) {
  fence_list fences;
  EXPECT_EQ(settled_by(fences, 5), 0U);
  ++fences.at(6).count;
  EXPECT_EQ(settled_by(fences, 5), 0U);
  EXPECT_EQ(settled_by(fences, 0), 0U);
  EXPECT_EQ(fences.retired(), 5U);
  EXPECT_EQ(settled_by(fences, 6), 1U);
}

// However many steps are pending, nothing settles before its step and nothing is lost.
TEST(fence_list, case_A_a_full_list_lets_pages_wait_longer_never_shorter) {
  std::mt19937 random{7};
  for (int round = 0; round < 50; ++round) {
    fence_list fences;
    constexpr step_number last = 100;
    std::vector<std::size_t> due(last + 1);  // pages by step
    for (int page = 0; page < 300; ++page) {
      const step_number step = 1 + random() % last;
      ++due[step];
      ++fences.at(step).count;
    }
    std::size_t settled = 0;
    std::size_t allowed = 0;
    for (step_number step = 1; step <= last; ++step) {
      settled += settled_by(fences, step);
      allowed += due[step];
      ASSERT_LE(settled, allowed) << "at step " << step;
    }
    EXPECT_EQ(settled, 300U);
  }
}

}  // namespace
