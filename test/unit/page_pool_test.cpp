// What page_pool does beyond the contract that test/contract checks for every configuration.
#include "kvpage/page_pool.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "../support/configurations.hpp"
#include "../support/probed_pool.hpp"

namespace {

using kvpage::errc;
using pool_type = kvpage::page_pool<kvpage::fp8_e4m3, kvpage::tagged>;

static_assert(!std::is_copy_constructible_v<pool_type> && !std::is_move_constructible_v<pool_type>);
static_assert(!std::is_same_v<pool_type::handle, kvpage::page_pool<kvpage::bf16, kvpage::tagged>::handle>);
static_assert(
    !std::is_convertible_v<pool_type::handle, kvpage::page_pool<kvpage::bf16, kvpage::tagged>::handle>);

std::string refusal(const kvpage::pool_options& options) {
  try {
    const pool_type pool{options};
  } catch (const std::invalid_argument& refused) {
    return refused.what();
  }
  return "accepted";
}

TEST(page_pool, impossible_options_are_refused_by_value_and_bound) {
  EXPECT_EQ(refusal({.pages = 0}),
            "page_pool: pages (the null page included) is 0; it must be between 2 and 268435456");
  EXPECT_NE(refusal({.pages = 1}).find("is 1;"), std::string::npos);
  EXPECT_NE(refusal({.pages = kvpage::max_pages_per_pool + 1}).find("is 268435457;"), std::string::npos);
  EXPECT_NE(refusal({.pages = ~std::uint64_t{0}}).find("is 18446744073709551615;"), std::string::npos);
  EXPECT_EQ(refusal({.pages = 2, .tokens_per_page = 0}),
            "page_pool: tokens_per_page is 0; it must be between 1 and 1048576");
  EXPECT_NE(refusal({.pages = 2, .tokens_per_page = (1U << 20) + 1}), "accepted");
  EXPECT_EQ(refusal({.pages = 2, .tokens_per_page = 1U << 20}), "accepted");
}

TEST(page_pool, a_refused_pool_takes_no_memory) {
  kvpage_test::counting_resource memory;
  EXPECT_THROW(pool_type({.pages = kvpage::max_pages_per_pool + 1, .memory = &memory}),
               std::invalid_argument);
  EXPECT_TRUE(memory.allocations().empty());
}

TEST(page_pool, the_smallest_pool_has_one_page) {
  kvpage_test::probed_pool<pool_type> pool{1};
  EXPECT_EQ(pool->capacity(), 1U);
  EXPECT_EQ(pool->size(), 2U);
  const auto page = pool.grant(1)[0];
  EXPECT_EQ(page.id(), 1U);
  EXPECT_EQ(pool->release({&page, 1}), errc::ok);
  EXPECT_EQ(pool.grant(1)[0].id(), 1U);
}

TEST(page_pool, case_G_the_null_page_is_retired_from_the_start_with_tag_0) {
  kvpage_test::probed_pool<pool_type> pool{3};
  EXPECT_EQ(pool->state(kvpage::null_page), kvpage::page_state::retired);
  EXPECT_EQ(pool->tag(kvpage::null_page), 0U);
  EXPECT_EQ(pool->references(kvpage::null_page), 0U);
  EXPECT_EQ(pool->stats().retired, 0U);  // it is no page of the five states
}

TEST(page_pool, case_N_tags_are_odd_while_live_and_even_while_free) {
  kvpage_test::probed_pool<pool_type> pool{1};
  for (kvpage::page_tag tag = 1; tag < 20; tag += 2) {
    EXPECT_EQ(pool->tag(1), tag - 1);
    const auto page = pool.grant(1)[0];
    EXPECT_EQ(page.tag(), tag);
    EXPECT_EQ(pool->tag(1), tag);
    EXPECT_EQ(pool->release({&page, 1}), errc::ok);
  }
}

TEST(page_pool, case_N_the_last_of_32_bit_generations_retires_the_page) {
  kvpage_test::probed_pool<pool_type> pool{1};
  pool.records()[1].tag = 0xffff'fffeU;  // as after 2^31 - 1 grants
  const auto page = pool.grant(1)[0];
  EXPECT_EQ(page.tag(), 0xffff'ffffU);
  EXPECT_EQ(pool->release({&page, 1}), errc::ok);
  EXPECT_EQ(pool->stats().retired, 1U);
  EXPECT_EQ(pool->check(page), errc::double_release);
  EXPECT_EQ(pool->check({1, 0}), errc::double_release);  // the tag that a retired page holds
  std::vector<pool_type::handle> one(1);
  EXPECT_EQ(pool->allocate(one), errc::never_fits);
  EXPECT_TRUE(pool->audit().clean()) << pool->audit().finding;
}

TEST(page_pool, check_room_says_what_allocate_would) {
  kvpage_test::probed_pool<pool_type> pool{4};
  const auto held = pool.grant(1);
  EXPECT_EQ(pool->check_room(0), errc::ok);
  EXPECT_EQ(pool->check_room(3), errc::ok);
  EXPECT_EQ(pool->check_room(4), errc::exhausted);
  EXPECT_EQ(pool->check_room(5), errc::never_fits);
}

TEST(page_pool, is_exclusive_only_while_one_holds_it_unpublished) {
  kvpage_test::probed_pool<pool_type> pool{4};
  const auto pages = pool.grant(2);
  EXPECT_TRUE(pool->is_exclusive(pages[0].id()));
  EXPECT_EQ(pool->retain(pages), errc::ok);
  EXPECT_FALSE(pool->is_exclusive(pages[0].id()));
  EXPECT_EQ(pool->release_after(pages, 3), errc::ok);  // whoever let go only reads its own tokens
  EXPECT_TRUE(pool->is_exclusive(pages[0].id()));
  EXPECT_EQ(pool->publish(pages[0]), errc::ok);
  EXPECT_FALSE(pool->is_exclusive(pages[0].id()));
  EXPECT_FALSE(pool->is_exclusive(kvpage::null_page));
}

TEST(page_pool, case_A_a_refused_release_of_awaited_pages_changes_nothing) {
  const auto prepare = [](auto& pool) {
    auto pages = pool.grant(4);
    EXPECT_EQ(pool->publish(pages[1]), errc::ok);
    EXPECT_EQ(pool->retain(pages), errc::ok);
    EXPECT_EQ(pool->release_after(pages, 7), errc::ok);
  };
  const std::vector<pool_type::handle> pages{{1, 1}, {2, 1}, {3, 1}, {1, 1}};
  for (const kvpage::step_number step : {0U, 3U, 7U, 12U}) {
    for (const auto reuse : {kvpage::reuse_order::lifo, kvpage::reuse_order::fifo}) {
      kvpage_test::expect_nothing_changed<pool_type>(
          6, reuse, errc::double_release, prepare,
          [&](auto& pool) { return pool->release_after(pages, step); });
    }
  }
}

}  // namespace
