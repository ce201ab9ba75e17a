#include <gtest/gtest.h>
#include <kvpage/config.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

TEST(config, page_ids_fit_the_int32_of_exported_tables) {
  static_assert(std::is_same_v<kvpage::page_id, std::uint32_t>);
  EXPECT_LE(kvpage::max_pages_per_pool, static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max()));
}

TEST(config, null_page_is_page_0_and_a_skipped_slot_is_minus_1) {
  EXPECT_EQ(kvpage::null_page, 0U);
  EXPECT_EQ(kvpage::skipped_slot, -1);
}

TEST(config, case_I_the_largest_pools_slots_need_64_bits_and_fit) {
  static_assert(sizeof(kvpage::slot_index) == 8);
  constexpr auto largest_page_tokens = std::uint64_t{1} << 16;
  EXPECT_LE(kvpage::max_pages_per_pool * largest_page_tokens,
            static_cast<std::uint64_t>(std::numeric_limits<kvpage::slot_index>::max()));
}
