#include <gtest/gtest.h>
#include <kvpage/integrity.hpp>

#include <cstdint>
#include <type_traits>

namespace {

struct not_a_policy {};
struct live_tags_end_even {
  static constexpr bool is_tagged = true;
  static constexpr kvpage::page_tag last_live_tag = 254;
};

static_assert(kvpage::integrity_policy<kvpage::untagged>);
static_assert(kvpage::integrity_policy<kvpage::tagged>);
static_assert(kvpage::integrity_policy<kvpage::basic_tagged<std::uint8_t, 2>>);
static_assert(!kvpage::integrity_policy<not_a_policy>);
static_assert(!kvpage::integrity_policy<live_tags_end_even>);
static_assert(!kvpage::integrity_policy<int>);
static_assert(!kvpage::tagged_policy<kvpage::untagged>);
static_assert(!kvpage::untagged_policy<kvpage::tagged>);

}  // namespace

TEST(integrity, case_M_the_untagged_policy_is_empty) {
  EXPECT_TRUE(std::is_empty_v<kvpage::untagged>);
  EXPECT_FALSE(kvpage::untagged::is_tagged);
}

TEST(integrity, the_last_live_tag_is_the_largest_odd_number_of_the_policys_bits) {
  EXPECT_EQ(kvpage::tagged::last_live_tag, 0xFFFF'FFFFU);
  EXPECT_EQ(kvpage::basic_tagged<std::uint16_t>::last_live_tag, 0xFFFFU);
  EXPECT_EQ(kvpage::basic_tagged<std::uint8_t>::last_live_tag, 0xFFU);
  EXPECT_EQ((kvpage::basic_tagged<std::uint8_t, 2>::last_live_tag), 3U);
}
