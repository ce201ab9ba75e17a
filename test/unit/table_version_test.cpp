#include <kvpage/block_table.hpp>
#include <kvpage/table_version.hpp>

#include <gtest/gtest.h>

#include <utility>

namespace {

using pool_type = kvpage::page_pool<kvpage::bf16, kvpage::tagged>;
using table_type = kvpage::block_table<pool_type>;
using kvpage::errc;
using kvpage::table_version;

class version_of_a_table : public testing::Test {
 protected:
  version_of_a_table() { EXPECT_EQ(table.append(64), errc::ok); }

  pool_type pool{{.pages = 33, .tokens_per_page = 16}};
  table_type table{pool};
};

TEST_F(version_of_a_table, growth_is_no_revision) {
  const table_version before = table.version();
  ASSERT_EQ(table.append(40), errc::ok);
  EXPECT_EQ(table.version(), before);
}

TEST_F(version_of_a_table, dropping_the_front_is_no_revision) {
  const table_version before = table.version();
  ASSERT_EQ(table.drop_front(2), errc::ok);
  EXPECT_EQ(table.version(), before);
}

TEST_F(version_of_a_table, truncation_names_the_first_entry_that_it_removes) {
  const table_version before = table.version();
  ASSERT_EQ(table.truncate(17), errc::ok);
  EXPECT_EQ(table.version(), (table_version{before.table, before.revision + 1, 2}));
}

TEST_F(version_of_a_table, truncation_within_a_page_is_no_revision) {
  const table_version before = table.version();
  ASSERT_EQ(table.truncate(50), errc::ok);
  EXPECT_EQ(table.version(), before);
}

TEST_F(version_of_a_table, release_concerns_every_entry) {
  const table_version before = table.version();
  ASSERT_EQ(table.release(), errc::ok);
  EXPECT_EQ(table.version(), (table_version{before.table, before.revision + 1, 0}));
  ASSERT_EQ(table.append(16), errc::ok);
  EXPECT_EQ(table.abandon(), 0u);
  EXPECT_EQ(table.version(), (table_version{before.table, before.revision + 2, 0}));
}

TEST_F(version_of_a_table, moves_with_the_pages) {
  const table_version before = table.version();
  table_type moved{std::move(table)};
  EXPECT_EQ(moved.version(), before);
  EXPECT_NE(table.version().table,
            before.table);  // NOLINT(bugprone-use-after-move): a moved-from table is empty

  table_type other{pool};
  const table_version others = other.version();
  std::swap(moved, other);
  EXPECT_EQ(other.version(), before);
  EXPECT_EQ(moved.version(), others);
  moved = std::move(other);
  EXPECT_EQ(moved.version(), before);
}

TEST_F(version_of_a_table, no_two_tables_share_a_number) {
  const table_type second{pool};
  EXPECT_NE(second.version().table, table.version().table);
  EXPECT_NE(second.version().table, 0u);
}

TEST(untagged_table_version, costs_nothing) {
  using untagged_pool = kvpage::page_pool<kvpage::bf16, kvpage::untagged>;
  EXPECT_LT(sizeof(kvpage::block_table<untagged_pool>), sizeof(table_type));
  EXPECT_EQ(sizeof(untagged_pool) + sizeof(void*), sizeof(pool_type));
}

}  // namespace
