// Case E: whatever the order in which the members of a tree of forks end, nothing is left.
#include <gtest/gtest.h>
#include <kvpage/block_table.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

template <class Policy>
struct fork_removal : testing::Test {};
using policies = testing::Types<kvpage::untagged, kvpage::tagged, kvpage::basic_tagged<std::uint8_t, 2>>;
TYPED_TEST_SUITE(fork_removal, policies);

TYPED_TEST(fork_removal, case_E_every_order_empties_the_pool) {
  using pool_type = kvpage::page_pool<kvpage::bf16, TypeParam>;
  using table = kvpage::block_table<pool_type>;
  constexpr std::array<std::size_t, 5> parents{0, 0, 1, 1, 0};  // of members 1 to 5
  std::array<std::size_t, 6> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  do {
    pool_type pool({.pages = 32, .tokens_per_page = 4});
    std::vector<table> members;
    for (std::size_t i = 0; i < order.size(); ++i) members.emplace_back(pool);
    ASSERT_EQ(members[0].append(6), kvpage::errc::ok);
    for (std::size_t child = 1; child < order.size(); ++child) {
      ASSERT_EQ(members[parents[child - 1]].fork(members[child]), kvpage::errc::ok);
      kvpage::page_copy<typename table::handle> copy;
      ASSERT_EQ(members[child].append(child, copy), kvpage::errc::ok);
      ASSERT_EQ(pool.release({&copy.source, 1}), kvpage::errc::ok);
    }
    for (const std::size_t member : order) ASSERT_EQ(members[member].release(), kvpage::errc::ok);
    ASSERT_EQ(pool.stats().live, 0U);
    ASSERT_TRUE(pool.audit().clean()) << pool.audit().finding;
  } while (std::next_permutation(order.begin(), order.end()));
}

}  // namespace
