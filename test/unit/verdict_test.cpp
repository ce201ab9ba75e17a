#include "kvpage/verdict.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

namespace {

using kvpage::row_state;
using kvpage::verdict;

// Written by kernels and read by the host.
static_assert(sizeof(verdict) == 24 && alignof(verdict) == 4);
static_assert(std::is_trivially_copyable_v<verdict> && std::is_standard_layout_v<verdict>);
static_assert(offsetof(verdict, state) == 0 && offsetof(verdict, position) == 4 &&
              offsetof(verdict, page) == 8);
static_assert(std::is_trivially_copyable_v<kvpage::verify_summary>);

TEST(verdict, a_fresh_one_is_ok_and_all_zero) {
  EXPECT_EQ(static_cast<std::uint32_t>(row_state::ok), 0U);
  EXPECT_EQ(verdict{}, (verdict{row_state::ok, 0, 0, 0, 0, 0}));
}

TEST(verdict, the_states_keep_their_numbers) {  // they travel between host and device
  EXPECT_EQ(static_cast<std::uint32_t>(row_state::stale_page), 1U);
  EXPECT_EQ(static_cast<std::uint32_t>(row_state::bad_page), 2U);
  EXPECT_EQ(static_cast<std::uint32_t>(row_state::short_row), 3U);
}

TEST(verdict, a_summary_of_nothing_names_step_0_which_is_no_step) {
  EXPECT_EQ(kvpage::verify_summary{}, (kvpage::verify_summary{0, 0, 0, 0}));
}

}  // namespace
