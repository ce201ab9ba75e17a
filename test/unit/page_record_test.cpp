#include "kvpage/page_record.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>

#include "kvpage/config.hpp"
#include "kvpage/integrity.hpp"

namespace {

using kvpage::page_state;
using kvpage::detail::next_tag;
using kvpage::detail::page_record;
using kvpage::detail::page_use;

using tagged2 = kvpage::basic_tagged<std::uint8_t, 2>;
using tagged8 = kvpage::basic_tagged<std::uint8_t>;

static_assert(sizeof(page_record<kvpage::untagged>) == 4);
static_assert(sizeof(page_record<kvpage::tagged>) == 8 && alignof(page_record<kvpage::tagged>) == 8);
static_assert(sizeof(page_record<tagged2>) == 8);
static_assert(std::is_trivially_copyable_v<page_record<kvpage::tagged>>);

TEST(page_record, a_page_is_live_from_one_reference_to_the_most) {
  page_use use = page_use::free();
  EXPECT_EQ(use.state(), page_state::free);
  EXPECT_EQ(use.references(), 0U);
  EXPECT_FALSE(use.has_references(1));
  use = use.more();
  EXPECT_EQ(use, page_use::once());
  EXPECT_EQ(use.state(), page_state::live);
  EXPECT_TRUE(use.has_references(1));
  EXPECT_TRUE(use.is_exclusive());
  EXPECT_FALSE(use.is_shared());
  use = use.more();
  EXPECT_TRUE(use.is_shared());
  EXPECT_FALSE(use.is_exclusive());
  const page_use most = page_use::once().referenced(page_use::max_references);
  EXPECT_EQ(most.references(), page_use::max_references);
  EXPECT_EQ(most.state(), page_state::live);
  EXPECT_TRUE(most.is_shared());
  EXPECT_EQ(most.fewer().more(), most);
}

// What add_reference relies on: one more reference makes a page shared, or it cannot be taken.
TEST(page_record, one_more_reference_than_a_page_can_have_never_looks_shared) {
  constexpr auto last = static_cast<kvpage::page_id>(kvpage::max_pages_per_pool - 1);
  for (const page_use flagged : {page_use::once(), page_use::once().published(), page_use::once().awaited(),
                                 page_use::once().published().awaited()}) {
    EXPECT_TRUE(flagged.more().is_shared());
    EXPECT_TRUE(flagged.referenced(page_use::max_references - 1).more().is_shared());
    EXPECT_FALSE(flagged.referenced(page_use::max_references).more().is_shared());
    for (const kvpage::page_id next : {kvpage::null_page, kvpage::page_id{1}, last - 1, last}) {
      EXPECT_FALSE(flagged.cached().linked_to(next).more().is_shared());
      EXPECT_FALSE(flagged.fenced().linked_to(next).more().is_shared());
    }
  }
  EXPECT_FALSE(page_use::free().more().is_shared());
  EXPECT_FALSE(page_use::retired().more().is_shared());
}

TEST(page_record, flags_survive_everything_but_their_own_end) {
  for (const page_use flagged :
       {page_use::once().published(), page_use::once().awaited(), page_use::once().published().awaited()}) {
    const auto same_flags = [&](page_use use) {
      return use.is_published() == flagged.is_published() && use.is_awaited() == flagged.is_awaited();
    };
    EXPECT_TRUE(same_flags(flagged.more()));
    EXPECT_TRUE(same_flags(flagged.more().fewer()));
    EXPECT_TRUE(same_flags(flagged.cached().linked_to(77)));
    EXPECT_TRUE(same_flags(flagged.fenced().linked_to(77).referenced(3)));
    EXPECT_EQ(flagged.fenced().linked_to(77).referenced(1), flagged);
    EXPECT_EQ(flagged.references(), 1U);
    EXPECT_FALSE(flagged.is_shared());
    EXPECT_EQ(flagged.is_exclusive(), !flagged.is_published());
    EXPECT_NE(flagged, page_use::once());
    EXPECT_EQ(flagged.withdrawn().settled(), page_use::once());
  }
}

TEST(page_record, a_chain_can_link_to_every_page_of_the_largest_pool) {
  constexpr auto last = static_cast<kvpage::page_id>(kvpage::max_pages_per_pool - 1);
  for (const page_use use : {page_use::once().published().cached(), page_use::once().published().fenced()}) {
    EXPECT_EQ(use.next(), kvpage::null_page);
    EXPECT_EQ(use.linked_to(last).next(), last);
    EXPECT_EQ(use.linked_to(last).linked_to(1).next(), 1U);
    EXPECT_EQ(use.linked_to(last).state(), use.state());
    EXPECT_EQ(use.linked_to(last).references(), 0U);
    EXPECT_FALSE(use.linked_to(last).has_references(1));
    EXPECT_FALSE(use.linked_to(last).is_shared());
    EXPECT_FALSE(use.linked_to(1).is_exclusive());
  }
}

TEST(page_record, a_retired_page_is_nothing_else) {
  constexpr page_use retired = page_use::retired();
  EXPECT_EQ(retired.state(), page_state::retired);
  EXPECT_EQ(retired.references(), 0U);
  EXPECT_FALSE(retired.is_published());
  EXPECT_FALSE(retired.is_shared());
  EXPECT_FALSE(retired.is_exclusive());
  EXPECT_EQ(page_use::free().published().state(), page_state::free);  // which an audit then finds
}

TEST(page_record, case_N_the_last_generation_is_followed_by_none) {
  EXPECT_EQ(next_tag<tagged2>(0), 1U);
  EXPECT_EQ(next_tag<tagged2>(2), 3U);
  EXPECT_EQ(next_tag<tagged2>(3), 0U);
  EXPECT_EQ(next_tag<tagged8>(254), 255U);
  EXPECT_EQ(next_tag<tagged8>(255), 0U);
  EXPECT_EQ(next_tag<kvpage::tagged>(0xffff'fffeU), 0xffff'ffffU);
  EXPECT_EQ(next_tag<kvpage::tagged>(0xffff'ffffU), 0U);
}

}  // namespace
