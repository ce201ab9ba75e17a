#include <kvpage/page_pool.hpp>
#include <kvpage/tag_journal.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

namespace {

using pool_type = kvpage::page_pool<kvpage::bf16, kvpage::tagged>;
using handle = pool_type::handle;
using kvpage::errc;

std::vector<kvpage::page_id> sorted(const kvpage::tag_journal& journal) {
  std::vector<kvpage::page_id> pages(journal.pages().begin(), journal.pages().end());
  std::ranges::sort(pages);
  return pages;
}

std::vector<kvpage::page_id> ids(std::span<const handle> pages) {
  std::vector<kvpage::page_id> ids;
  for (const handle& page : pages) ids.push_back(page.id());
  std::ranges::sort(ids);
  return ids;
}

class attached_tag_journal : public testing::Test {
 protected:
  attached_tag_journal() {
    pool.attach_journal(journal);
    journal.clear();
  }
  ~attached_tag_journal() override { pool.detach_journal(journal); }

  pool_type pool{{.pages = 17}};
  kvpage::tag_journal journal{8};
  std::array<handle, 4> pages;
};

TEST(new_tag_journal, counts_as_overflowed_because_its_reader_has_nothing_yet) {
  EXPECT_TRUE(kvpage::tag_journal{8}.overflowed());
}

TEST_F(attached_tag_journal, records_grants_and_releases) {
  ASSERT_EQ(pool.allocate(pages), errc::ok);
  EXPECT_EQ(sorted(journal), ids(pages));
  journal.clear();
  ASSERT_EQ(pool.release(pages), errc::ok);
  EXPECT_EQ(sorted(journal), ids(pages));
  EXPECT_FALSE(journal.overflowed());
}

TEST_F(attached_tag_journal, records_a_fenced_release_at_once_and_its_retirement_not_at_all) {
  ASSERT_EQ(pool.allocate(pages), errc::ok);
  journal.clear();
  ASSERT_EQ(pool.release_after(pages, 5), errc::ok);
  EXPECT_EQ(sorted(journal), ids(pages));
  journal.clear();
  pool.retire(5);
  EXPECT_TRUE(journal.pages().empty());
}

TEST_F(attached_tag_journal, records_an_eviction) {
  ASSERT_EQ(pool.allocate(pages), errc::ok);
  ASSERT_EQ(pool.publish(pages[2]), errc::ok);
  ASSERT_EQ(pool.release(pages), errc::ok);
  pool.drain_newly_cached([](kvpage::page_id) {});
  journal.clear();
  ASSERT_EQ(pool.withdraw(pages[2]), errc::ok);
  EXPECT_EQ(sorted(journal), std::vector{pages[2].id()});
}

TEST_F(attached_tag_journal, records_nothing_on_errors) {
  ASSERT_EQ(pool.allocate(pages), errc::ok);
  journal.clear();
  EXPECT_EQ(pool.release(std::array{pages[0], pages[0]}), errc::double_release);
  std::array<handle, 13> too_many;
  EXPECT_EQ(pool.allocate(too_many), errc::exhausted);
  EXPECT_TRUE(journal.pages().empty());
}

TEST_F(attached_tag_journal, overflows_instead_of_forgetting) {
  std::array<handle, 5> more;
  ASSERT_EQ(pool.allocate(pages), errc::ok);
  ASSERT_EQ(pool.allocate(more), errc::ok);
  EXPECT_TRUE(journal.overflowed());
  journal.clear();
  EXPECT_FALSE(journal.overflowed());
  ASSERT_EQ(pool.release(more), errc::ok);
  EXPECT_EQ(sorted(journal), ids(more));
}

TEST_F(attached_tag_journal, every_attached_journal_records_until_detached) {
  kvpage::tag_journal second{8};
  pool.attach_journal(second);
  second.clear();
  ASSERT_EQ(pool.allocate(pages), errc::ok);
  EXPECT_EQ(sorted(journal), ids(pages));
  EXPECT_EQ(sorted(second), ids(pages));
  second.clear();
  pool.detach_journal(second);
  ASSERT_EQ(pool.release(pages), errc::ok);
  EXPECT_EQ(journal.pages().size(), 8u);
  EXPECT_TRUE(second.pages().empty());
}

}  // namespace
