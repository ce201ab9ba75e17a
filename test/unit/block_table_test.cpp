#include "kvpage/block_table.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <utility>
#include <vector>

#include "../support/configurations.hpp"
#include "../support/counting_memory.hpp"
#include "../support/probed_pool.hpp"

namespace {

using kvpage::bf16;
using kvpage::errc;
using kvpage::page_state;
using kvpage::pool_stats;
using kvpage::tagged;
using kvpage::untagged;
using kvpage_test::pool_snapshot;

constexpr std::size_t S = 16;  // tokens per page

using pool_type = kvpage::page_pool<bf16, tagged>;
using table_type = kvpage::block_table<pool_type>;
using handle = pool_type::handle;

static_assert(std::is_nothrow_move_constructible_v<table_type>);
static_assert(std::is_nothrow_move_assignable_v<table_type>);
static_assert(!std::is_copy_constructible_v<table_type>);

// All that can be seen of a table.
struct table_state {
  explicit table_state(const table_type& table)
      : tokens{table.tokens()},
        dropped{table.dropped_pages()},
        handles{table.handles().begin(), table.handles().end()} {}
  friend bool operator==(const table_state&, const table_state&) = default;

  std::size_t tokens, dropped;
  std::vector<handle> handles;
};

// A call on `table` that must fail with `expected` and leave table and pool as they were.
template <class Call>
void expect_refused(kvpage_test::probed_pool<pool_type>& pool, table_type& table, errc expected, Call call) {
  const table_state before{table};
  const pool_snapshot pool_before{pool};
  EXPECT_EQ(call(), expected);
  EXPECT_EQ(table_state{table}, before);
  EXPECT_EQ(pool_snapshot{pool}, pool_before);
}

struct block_table : ::testing::Test {
  kvpage_test::probed_pool<pool_type> pool{8};
  table_type table{*pool};
};

TEST_F(block_table, case_H_lengths_around_page_boundaries) {
  struct expectation {
    std::size_t tokens, pages, last_page_len;
  };
  for (const auto& [tokens, pages, last] : {expectation{0, 0, 0},
                                            {1, 1, 1},
                                            {15, 1, 15},
                                            {16, 1, 16},
                                            {17, 2, 1},
                                            {32, 2, 16},
                                            {33, 3, 1},
                                            {127, 8, 15},
                                            {128, 8, 16}}) {
    SCOPED_TRACE(tokens);
    table_type grown{*pool};
    EXPECT_EQ(grown.append(tokens), errc::ok);
    EXPECT_EQ(grown.tokens(), tokens);
    EXPECT_EQ(grown.pages(), pages);
    EXPECT_EQ(grown.last_page_len(), last);
    EXPECT_EQ(pool->stats().live, pages);
  }
  EXPECT_EQ(pool->stats().free, 8U);  // the tables gave theirs back
}

TEST_F(block_table, case_H_token_by_token_a_page_is_granted_only_when_the_last_is_full) {
  for (std::size_t tokens = 1; tokens <= 8 * S; ++tokens) {
    EXPECT_EQ(table.append(1), errc::ok);
    EXPECT_EQ(table.pages(), kvpage::pages_for(tokens, S));
    EXPECT_EQ(table.last_page_len(), (tokens - 1) % S + 1);
  }
  expect_refused(pool, table, errc::exhausted, [&] { return table.append(1); });
}

TEST_F(block_table, case_H_pages_of_one_token) {
  kvpage_test::probed_pool<pool_type> narrow{4, kvpage::reuse_order::lifo, 1};
  table_type row{*narrow};
  EXPECT_EQ(row.append(3), errc::ok);
  EXPECT_EQ(row.pages(), 3U);
  EXPECT_EQ(row.last_page_len(), 1U);
  EXPECT_EQ(row.drop_front(3), errc::ok);
  EXPECT_EQ(row.append(1), errc::ok);
  EXPECT_EQ(row.slot(3).value(), static_cast<kvpage::slot_index>(row.handles()[3].id()));
}

TEST_F(block_table, case_H_rejected_speculation_gives_its_page_back_and_regrowth_brings_a_new_tag) {
  EXPECT_EQ(table.append(30), errc::ok);
  EXPECT_EQ(table.append(5), errc::ok);  // speculative
  EXPECT_EQ(table.pages(), 3U);
  const handle third = table.handles()[2];
  EXPECT_EQ(table.truncate(31), errc::ok);  // one accepted
  EXPECT_EQ(table.tokens(), 31U);
  EXPECT_EQ(table.pages(), 2U);
  EXPECT_EQ(pool->check(third), errc::double_release);
  EXPECT_EQ(table.append(2), errc::ok);
  EXPECT_EQ(table.handles()[2].id(), third.id());
  EXPECT_NE(table.handles()[2].tag(), third.tag());
  EXPECT_EQ(pool->check(third), errc::stale_handle);
}

TEST_F(block_table, case_H_truncation_keeps_what_still_has_a_token) {
  EXPECT_EQ(table.append(3 * S), errc::ok);
  const std::vector before(table.handles().begin(), table.handles().end());
  EXPECT_EQ(table.truncate(3 * S), errc::ok);
  EXPECT_EQ(table.pages(), 3U);
  EXPECT_EQ(table.truncate(2 * S + 1), errc::ok);
  EXPECT_EQ(table.pages(), 3U);
  EXPECT_EQ(table.truncate(2 * S), errc::ok);
  EXPECT_EQ(table.pages(), 2U);
  EXPECT_EQ(table.last_page_len(), S);
  EXPECT_EQ(table.handles()[1], before[1]);
  EXPECT_EQ(table.truncate(0), errc::ok);
  EXPECT_EQ(table.pages(), 0U);
  EXPECT_EQ(table.last_page_len(), 0U);
  EXPECT_EQ(pool->stats().free, 8U);
}

TEST_F(block_table, truncation_refuses_more_tokens_than_held_and_the_dropped_front) {
  EXPECT_EQ(table.append(3 * S + 5), errc::ok);
  expect_refused(pool, table, errc::outside_row, [&] { return table.truncate(3 * S + 6); });
  expect_refused(pool, table, errc::outside_row,
                 [&] { return table.truncate(std::numeric_limits<std::size_t>::max()); });
  EXPECT_EQ(table.drop_front(2), errc::ok);
  expect_refused(pool, table, errc::outside_row, [&] { return table.truncate(2 * S - 1); });
  expect_refused(pool, table, errc::outside_row, [&] { return table.truncate(0); });
  EXPECT_EQ(table.truncate(2 * S), errc::ok);
  EXPECT_EQ(table.pages(), 2U);
  EXPECT_EQ(pool->stats().live, 0U);
  EXPECT_EQ(table.append(1), errc::ok);
  EXPECT_EQ(table.pages(), 3U);
}

TEST_F(block_table, case_K_growth_is_all_or_nothing) {
  table_type other{*pool};
  EXPECT_EQ(other.append(5 * S), errc::ok);
  EXPECT_EQ(table.append(S - 1), errc::ok);
  expect_refused(pool, table, errc::exhausted, [&] { return table.append(2 * S + 2); });
  expect_refused(pool, table, errc::never_fits, [&] { return table.append(9 * S + 1); });
  EXPECT_EQ(table.append(2 * S + 1), errc::ok);
  EXPECT_EQ(table.tokens(), 3 * S);
}

TEST_F(block_table, case_K_a_row_that_never_fits_takes_no_host_memory) {
  kvpage_test::counting_resource memory;
  table_type row{*pool, 0, &memory};
  expect_refused(pool, row, errc::never_fits, [&] { return row.append(kvpage::max_tokens_per_row); });
  EXPECT_TRUE(memory.allocations().empty());
}

TEST_F(block_table, case_I_a_row_never_grows_past_the_int32_of_exported_lengths) {
  EXPECT_EQ(table.append(1), errc::ok);
  expect_refused(pool, table, errc::outside_row, [&] { return table.append(kvpage::max_tokens_per_row); });
  expect_refused(pool, table, errc::outside_row,
                 [&] { return table.append(std::numeric_limits<std::size_t>::max()); });
  expect_refused(pool, table, errc::never_fits, [&] { return table.append(kvpage::max_tokens_per_row - 1); });
  EXPECT_EQ(table.append(0), errc::ok);

  kvpage_test::probed_pool<pool_type> wide{2048, kvpage::reuse_order::lifo, 1U << 20};
  table_type longest{*wide};
  EXPECT_EQ(longest.append(kvpage::max_tokens_per_row), errc::ok);
  EXPECT_EQ(longest.pages(), 2048U);
  expect_refused(wide, longest, errc::outside_row, [&] { return longest.append(1); });
  EXPECT_EQ(
      longest.slot(kvpage::max_tokens_per_row - 1).value(),
      static_cast<kvpage::slot_index>(std::uint64_t{longest.handles()[2047].id()} << 20 | ((1U << 20) - 2)));
}

// --- Slots ---

TEST_F(block_table, case_F_a_position_past_the_row_is_refused_and_never_another_rows_page) {
  EXPECT_EQ(table.append(2 * S), errc::ok);
  table_type neighbour{*pool};
  EXPECT_EQ(neighbour.append(2 * S), errc::ok);
  EXPECT_EQ(table.slot(36).error(), errc::outside_row);
  EXPECT_EQ(table.slot(2 * S).error(), errc::outside_row);
  EXPECT_EQ(table.slot(std::numeric_limits<std::size_t>::max()).error(), errc::outside_row);
  for (const std::size_t position : {std::size_t{0}, S - 1, S, 2 * S - 1}) {
    EXPECT_EQ(table.slot(position).value(),
              static_cast<kvpage::slot_index>(table.handles()[position / S].id() * S + position % S));
  }
  EXPECT_EQ(table_type{*pool}.slot(0).error(), errc::outside_row);
}

TEST_F(block_table, case_F_a_position_in_the_free_part_of_the_last_page_is_refused) {
  EXPECT_EQ(table.append(S + 1), errc::ok);
  EXPECT_TRUE(table.slot(S));
  EXPECT_EQ(table.slot(S + 1).error(), errc::outside_row);
  EXPECT_EQ(table.truncate(S), errc::ok);
  EXPECT_EQ(table.slot(S).error(), errc::outside_row);
}

TEST_F(block_table, case_I_slots_are_computed_in_64_bits) {
  kvpage_test::probed_pool<pool_type> wide{8192, kvpage::reuse_order::fifo, 1U << 20};
  table_type row{*wide};
  const auto skipped = wide.grant(8190);
  EXPECT_EQ(row.append(1), errc::ok);
  EXPECT_EQ(row.slot(0).value(), 8191LL << 20);  // past 2^32
}

// --- Sliding windows ---

TEST_F(block_table, drop_front_gives_up_full_pages_only_and_leaves_null_entries) {
  EXPECT_EQ(table.append(2 * S + 3), errc::ok);
  const std::vector before(table.handles().begin(), table.handles().end());
  expect_refused(pool, table, errc::outside_row, [&] { return table.drop_front(3); });
  expect_refused(pool, table, errc::outside_row,
                 [&] { return table.drop_front(std::numeric_limits<std::size_t>::max()); });
  EXPECT_EQ(table.drop_front(0), errc::ok);
  EXPECT_EQ(table.drop_front(1), errc::ok);
  EXPECT_EQ(table.handles()[0], handle{});
  EXPECT_EQ(table.handles()[1], before[1]);
  EXPECT_NE(pool->check(before[0]), errc::ok);
  EXPECT_EQ(table.pages(), 3U);
  EXPECT_EQ(table.dropped_pages(), 1U);
  EXPECT_EQ(table.tokens(), 2 * S + 3);
  EXPECT_EQ(table.slot(S - 1).error(), errc::outside_row);
  EXPECT_TRUE(table.slot(S));
  expect_refused(pool, table, errc::outside_row, [&] { return table.drop_front(2); });
  EXPECT_EQ(table.drop_front(1), errc::ok);
  EXPECT_EQ(table.release(), errc::ok);
  EXPECT_EQ(pool->stats().free, 8U);
  EXPECT_EQ(table.dropped_pages(), 0U);
}

TEST_F(block_table, a_window_slides_without_end_through_a_small_pool) {
  for (int page = 0; page < 100; ++page) {
    ASSERT_EQ(table.append(S), errc::ok);
    if (table.pages() - table.dropped_pages() <= 4) continue;
    ASSERT_EQ(table.drop_front(1), errc::ok);
    ASSERT_EQ(pool->stats().live, 4U);
  }
  EXPECT_EQ(table.tokens(), 100 * S);
  EXPECT_TRUE(pool->audit().clean());
}

// --- Fences ---

TEST_F(block_table, case_A_pages_given_up_with_a_fence_wait_for_it) {
  EXPECT_EQ(table.append(6 * S), errc::ok);
  EXPECT_EQ(table.truncate(5 * S, 3), errc::ok);
  EXPECT_EQ(table.drop_front(1, 4), errc::ok);
  EXPECT_EQ(pool->stats().fenced, 2U);
  EXPECT_EQ(table.release(5), errc::ok);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 8, .free = 2, .fenced = 6}));
  EXPECT_EQ(table.append(S), errc::ok);
  EXPECT_EQ(table.abandon(6), 0U);
  EXPECT_EQ(pool->stats().fenced, 7U);
  pool->retire(4);
  EXPECT_EQ(pool->stats().fenced, 5U);
  pool->retire(6);
  EXPECT_EQ(pool->stats().free, 8U);
}

// --- Pages released behind the table's back ---

TEST_F(block_table, case_N_a_table_whose_page_has_a_new_owner_cannot_free_it) {
  EXPECT_EQ(table.append(4 * S), errc::ok);
  const handle lost = table.handles()[2];
  EXPECT_EQ(pool->release({&lost, 1}), errc::ok);
  table_type successor{*pool};
  EXPECT_EQ(successor.append(1), errc::ok);
  ASSERT_EQ(successor.handles()[0].id(), lost.id());

  expect_refused(pool, table, errc::stale_handle, [&] { return table.release(); });
  expect_refused(pool, table, errc::stale_handle, [&] { return table.release(9); });
  expect_refused(pool, table, errc::stale_handle, [&] { return table.truncate(S); });
  expect_refused(pool, table, errc::stale_handle, [&] { return table.drop_front(3); });
  EXPECT_EQ(table.truncate(3 * S), errc::ok);  // the lost page stays
  EXPECT_EQ(table.drop_front(2), errc::ok);
  EXPECT_EQ(table.abandon(), 1U);
  EXPECT_EQ(table.pages(), 0U);
  EXPECT_EQ(pool->references(lost.id()), 1U);
  EXPECT_EQ(pool->check(successor.handles()[0]), errc::ok);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 8, .free = 7, .live = 1}));
  EXPECT_TRUE(pool->audit().clean());
}

TEST_F(block_table, case_B_a_destroyed_table_leaves_foreign_pages_alone) {
  handle lost;
  {
    table_type doomed{*pool};
    EXPECT_EQ(doomed.append(2 * S), errc::ok);
    lost = doomed.handles()[1];
    EXPECT_EQ(pool->release({&lost, 1}), errc::ok);
    EXPECT_EQ(table.append(1), errc::ok);
    ASSERT_EQ(table.handles()[0].id(), lost.id());
  }
  EXPECT_EQ(pool->references(lost.id()), 1U);
  EXPECT_EQ(pool->stats().live, 1U);
}

// --- Moves ---

TEST_F(block_table, a_moved_from_table_is_empty_and_can_be_used_again) {
  EXPECT_EQ(table.append(3 * S), errc::ok);
  EXPECT_EQ(table.drop_front(1), errc::ok);
  const table_state before{table};
  table_type moved{std::move(table)};
  EXPECT_EQ(table_state{moved}, before);
  // NOLINTBEGIN(bugprone-use-after-move): what a moved-from table is
  EXPECT_EQ(table_state{table}, table_state{table_type{*pool}});
  EXPECT_EQ(pool->stats().live, 2U);
  EXPECT_EQ(table.release(), errc::ok);
  EXPECT_EQ(table.append(S), errc::ok);
  EXPECT_EQ(pool->stats().live, 3U);
  // NOLINTEND(bugprone-use-after-move)
}

TEST_F(block_table, assigning_releases_what_the_table_held) {
  EXPECT_EQ(table.append(3 * S), errc::ok);
  table_type other{*pool};
  EXPECT_EQ(other.append(S), errc::ok);
  const table_state before{other};
  table = std::move(other);
  EXPECT_EQ(table_state{table}, before);
  EXPECT_EQ(pool->stats().live, 1U);
}

TEST_F(block_table, assigning_to_itself_changes_nothing) {
  EXPECT_EQ(table.append(3 * S), errc::ok);
  const table_state before{table};
  table_type& same = table;
  table = std::move(same);
  EXPECT_EQ(table_state{table}, before);
  EXPECT_EQ(pool->stats().live, 3U);
}

TEST_F(block_table, tables_in_different_memory_and_of_different_pools_change_places) {
  kvpage_test::counting_resource here, there;
  kvpage_test::probed_pool<pool_type> other_pool{4};
  {
    table_type a{*pool, 2, &here};
    table_type b{*other_pool, 2, &there};
    EXPECT_EQ(a.append(2 * S), errc::ok);
    EXPECT_EQ(b.append(1), errc::ok);
    std::swap(a, b);
    EXPECT_EQ(a.tokens(), 1U);
    EXPECT_EQ(b.tokens(), 2 * S);
    a = std::move(b);
    EXPECT_EQ(other_pool->stats().live, 0U);
    EXPECT_EQ(a.append(S), errc::ok);
    EXPECT_EQ(pool->stats().live, 3U);
  }
  EXPECT_EQ(here.bytes_held(), 0U);
  EXPECT_EQ(there.bytes_held(), 0U);
  EXPECT_EQ(pool->stats().live, 0U);
}

TEST_F(block_table, growth_within_the_reserved_pages_takes_no_memory) {
  kvpage_test::counting_resource memory;
  table_type row{*pool, 8, &memory};
  const std::size_t reserved = memory.allocations().size();
  EXPECT_EQ(row.append(8 * S), errc::ok);
  EXPECT_EQ(row.truncate(1), errc::ok);
  EXPECT_EQ(row.append(7 * S), errc::ok);
  EXPECT_EQ(memory.allocations().size(), reserved);
}

TEST(block_table_untagged, case_M_costs_no_more_than_its_ids) {
  using untagged_table = kvpage::block_table<kvpage::page_pool<bf16, untagged>>;
  struct ids_and_counts {
    void* pool;
    std::pmr::vector<std::uint32_t> pages;
    std::size_t tokens, dropped;
  };
  static_assert(sizeof(untagged_table) == sizeof(ids_and_counts));
  static_assert(sizeof(untagged_table::handle) == 4);
}

}  // namespace
