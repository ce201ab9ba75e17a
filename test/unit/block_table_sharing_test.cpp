// Forks, copy on write, truncation into shared pages (cases A, B and H).
#include <gtest/gtest.h>
#include <kvpage/block_table.hpp>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <vector>

namespace {

using kvpage::errc;

template <class Policy>
class block_table_sharing : public testing::Test {
 protected:
  using pool_type = kvpage::page_pool<kvpage::bf16, Policy>;
  using handle = typename pool_type::handle;
  using table = kvpage::block_table<pool_type>;
  using copy = kvpage::page_copy<handle>;

  void expect_all_free() const {
    EXPECT_EQ(pool.stats().free, pool.capacity());
    EXPECT_TRUE(pool.audit().clean()) << pool.audit().finding;
  }

  pool_type pool{{.pages = 1 + 32, .tokens_per_page = 4}};
};

using policies = testing::Types<kvpage::untagged, kvpage::tagged>;
TYPED_TEST_SUITE(block_table_sharing, policies);

TYPED_TEST(block_table_sharing, fork_shares_every_page) {
  typename TestFixture::table parent(this->pool), child(this->pool);
  ASSERT_EQ(parent.append(10), errc::ok);
  ASSERT_EQ(parent.fork(child), errc::ok);
  EXPECT_TRUE(std::ranges::equal(parent.handles(), child.handles()));
  EXPECT_EQ(child.tokens(), 10u);
  EXPECT_EQ(this->pool.stats().live, 3u);
  for (const auto& page : parent.handles()) EXPECT_EQ(this->pool.references(page.id()), 2u);
}

TYPED_TEST(block_table_sharing, case_H_shared_partial_page_is_not_written) {
  typename TestFixture::table parent(this->pool), child(this->pool);
  ASSERT_EQ(parent.append(10), errc::ok);
  ASSERT_EQ(parent.fork(child), errc::ok);
  EXPECT_EQ(parent.append(1), errc::shared_page);
  EXPECT_EQ(child.append(1), errc::shared_page);
  EXPECT_EQ(parent.append(0), errc::ok);  // nothing is written
  EXPECT_EQ(parent.tokens(), 10u);
}

TYPED_TEST(block_table_sharing, case_H_copy_on_write_gives_the_appender_a_page_of_its_own) {
  typename TestFixture::table parent(this->pool), child(this->pool);
  ASSERT_EQ(parent.append(10), errc::ok);
  ASSERT_EQ(parent.fork(child), errc::ok);
  const auto shared = parent.handles()[2];

  typename TestFixture::copy owed;
  ASSERT_EQ(child.append(7, owed), errc::ok);  // 17 tokens: 5 pages
  EXPECT_EQ(owed.tokens, 2u);
  EXPECT_EQ(owed.source, shared);
  EXPECT_EQ(owed.destination, child.handles()[2]);
  EXPECT_NE(owed.destination.id(), shared.id());
  EXPECT_EQ(child.pages(), 5u);
  EXPECT_EQ(parent.handles()[2], shared);
  EXPECT_TRUE(std::ranges::equal(parent.handles().first(2), child.handles().first(2)));
}

TYPED_TEST(block_table_sharing, case_A_copy_source_stays_referenced_until_the_copy_is_settled) {
  typename TestFixture::table parent(this->pool), child(this->pool);
  ASSERT_EQ(parent.append(2), errc::ok);
  ASSERT_EQ(parent.fork(child), errc::ok);
  typename TestFixture::copy owed;
  ASSERT_EQ(child.append(1, owed), errc::ok);
  ASSERT_EQ(parent.release(), errc::ok);  // the other holder is gone before the copy has run
  EXPECT_EQ(this->pool.references(owed.source.id()), 1u);

  ASSERT_EQ(this->pool.release_after({&owed.source, 1}, 7), errc::ok);
  EXPECT_EQ(this->pool.stats().fenced, 1u);
  this->pool.retire(7);
  ASSERT_EQ(child.release(), errc::ok);
  this->expect_all_free();
}

TYPED_TEST(block_table_sharing, last_holder_of_a_fork_writes_in_place) {
  typename TestFixture::table parent(this->pool), child(this->pool);
  ASSERT_EQ(parent.append(10), errc::ok);
  ASSERT_EQ(parent.fork(child), errc::ok);
  ASSERT_EQ(child.release(), errc::ok);
  typename TestFixture::copy owed;
  const auto last = parent.handles()[2];
  ASSERT_EQ(parent.append(1, owed), errc::ok);
  EXPECT_EQ(owed.tokens, 0u);
  EXPECT_EQ(parent.handles()[2], last);
}

TYPED_TEST(block_table_sharing, full_last_page_needs_no_copy) {
  typename TestFixture::table parent(this->pool), child(this->pool);
  ASSERT_EQ(parent.append(8), errc::ok);
  ASSERT_EQ(parent.fork(child), errc::ok);
  typename TestFixture::copy owed;
  ASSERT_EQ(parent.append(1, owed), errc::ok);
  EXPECT_EQ(owed.tokens, 0u);
  ASSERT_EQ(child.append(1), errc::ok);
  EXPECT_NE(parent.handles()[2].id(), child.handles()[2].id());
}

TYPED_TEST(block_table_sharing, case_H_truncation_into_a_shared_full_page_is_copied_too) {
  typename TestFixture::table parent(this->pool), child(this->pool);
  ASSERT_EQ(parent.append(8), errc::ok);
  ASSERT_EQ(parent.fork(child), errc::ok);
  ASSERT_EQ(child.truncate(5), errc::ok);
  EXPECT_EQ(child.append(1), errc::shared_page);
  typename TestFixture::copy owed;
  ASSERT_EQ(child.append(1, owed), errc::ok);
  EXPECT_EQ(owed.tokens, 1u);
  ASSERT_EQ(this->pool.release({&owed.source, 1}), errc::ok);
  EXPECT_EQ(this->pool.references(parent.handles()[1].id()), 1u);
}

TYPED_TEST(block_table_sharing, truncation_into_a_published_page_is_copied_too) {
  typename TestFixture::table row(this->pool);
  ASSERT_EQ(row.append(8), errc::ok);
  const auto published = row.handles()[1];
  ASSERT_EQ(this->pool.publish(published), errc::ok);
  ASSERT_EQ(row.truncate(6), errc::ok);
  EXPECT_EQ(row.append(1), errc::shared_page);
  typename TestFixture::copy owed;
  ASSERT_EQ(row.append(1, owed), errc::ok);
  ASSERT_EQ(this->pool.release({&owed.source, 1}), errc::ok);
  EXPECT_EQ(this->pool.state(published.id()), kvpage::page_state::cached);
}

TYPED_TEST(block_table_sharing, case_K_copy_on_write_without_a_free_page_changes_nothing) {
  typename TestFixture::table parent(this->pool), child(this->pool), rest(this->pool);
  ASSERT_EQ(parent.append(10), errc::ok);
  ASSERT_EQ(parent.fork(child), errc::ok);
  ASSERT_EQ(rest.append(28 * 4), errc::ok);  // one page is left
  const std::vector before(child.handles().begin(), child.handles().end());
  typename TestFixture::copy owed;
  EXPECT_EQ(child.append(3, owed), errc::exhausted);  // a copy and a new page
  EXPECT_EQ(owed.tokens, 0u);
  EXPECT_TRUE(std::ranges::equal(child.handles(), before));
  EXPECT_EQ(child.tokens(), 10u);
  EXPECT_EQ(this->pool.stats().free, 1u);
  EXPECT_EQ(child.append(2, owed), errc::ok);
  ASSERT_EQ(this->pool.release({&owed.source, 1}), errc::ok);
}

TYPED_TEST(block_table_sharing, case_B_a_shared_page_that_is_not_the_tables_own_is_not_copied) {
  if constexpr (TypeParam::is_tagged) {
    typename TestFixture::table row(this->pool), other(this->pool), fork(this->pool);
    ASSERT_EQ(row.append(2), errc::ok);
    ASSERT_EQ(this->pool.release(row.handles()), errc::ok);  // by mistake
    ASSERT_EQ(other.append(2), errc::ok);
    ASSERT_EQ(other.fork(fork), errc::ok);
    typename TestFixture::copy owed;
    EXPECT_EQ(row.append(1, owed), errc::stale_handle);
    EXPECT_EQ(row.tokens(), 2u);
    EXPECT_EQ(this->pool.references(other.handles()[0].id()), 2u);
    EXPECT_EQ(row.abandon(), 1u);
  }
}

TYPED_TEST(block_table_sharing, case_B_a_cached_page_that_nobody_holds_is_not_copied) {
  typename TestFixture::table row(this->pool);
  ASSERT_EQ(row.append(2), errc::ok);
  const auto page = row.handles()[0];
  ASSERT_EQ(this->pool.publish(page), errc::ok);
  ASSERT_EQ(this->pool.release(row.handles()), errc::ok);  // by mistake
  typename TestFixture::copy owed;
  EXPECT_EQ(row.append(1, owed), errc::double_release);
  EXPECT_EQ(row.handles()[0], page);
  EXPECT_EQ(row.abandon(), 1u);
  this->pool.drain_newly_cached([](kvpage::page_id) {});
  ASSERT_EQ(this->pool.withdraw(page), errc::ok);
  this->expect_all_free();
}

TYPED_TEST(block_table_sharing, fork_keeps_a_dropped_front) {
  typename TestFixture::table parent(this->pool), child(this->pool);
  ASSERT_EQ(parent.append(14), errc::ok);
  ASSERT_EQ(parent.drop_front(2), errc::ok);
  ASSERT_EQ(parent.fork(child), errc::ok);
  EXPECT_EQ(child.dropped_pages(), 2u);
  EXPECT_EQ(this->pool.stats().live, 2u);
  ASSERT_EQ(child.release(), errc::ok);
  ASSERT_EQ(parent.release(), errc::ok);
  this->expect_all_free();
}

// Case E: four tables, each forked from the one before and grown by copy on write; whichever order they
// end in, with and without a fence, the pool is empty afterwards.
TYPED_TEST(block_table_sharing, case_E_every_removal_order_of_forks_empties_the_pool) {
  std::array<int, 4> order{0, 1, 2, 3};
  do {
    std::vector<typename TestFixture::table> tables;
    for (int i = 0; i < 4; ++i) tables.emplace_back(this->pool);
    ASSERT_EQ(tables[0].append(6), errc::ok);
    for (std::size_t i = 1; i < 4; ++i) {
      ASSERT_EQ(tables[i - 1].fork(tables[i]), errc::ok);
      typename TestFixture::copy owed;
      ASSERT_EQ(tables[i].append(3, owed), errc::ok);
      if (owed.tokens != 0) {
        ASSERT_EQ(this->pool.release_after({&owed.source, 1}, 1), errc::ok);
      }
    }
    for (const int i : order)
      ASSERT_EQ(tables[static_cast<std::size_t>(i)].release(i % 2 == 0 ? 1u : 0u), errc::ok);
    EXPECT_EQ(this->pool.stats().live, 0u);
    this->pool.retire(1);
    this->expect_all_free();
  } while (std::ranges::next_permutation(order).found);
}

TYPED_TEST(block_table_sharing, adopted_pages_are_released_with_the_table) {
  typename TestFixture::table owner(this->pool);
  ASSERT_EQ(owner.append(8), errc::ok);
  {
    typename TestFixture::table borrower(this->pool);
    ASSERT_EQ(this->pool.retain(owner.handles()), errc::ok);
    borrower.adopt(owner.handles());
    EXPECT_EQ(borrower.tokens(), 8u);
    ASSERT_EQ(borrower.append(1), errc::ok);
    EXPECT_EQ(borrower.pages(), 3u);
  }
  EXPECT_EQ(this->pool.stats().live, 2u);
  EXPECT_TRUE(this->pool.is_exclusive(owner.handles()[0].id()));
}

}  // namespace
