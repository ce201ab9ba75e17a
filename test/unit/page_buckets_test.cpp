// Pages by hash: every page is found under its own, whatever else comes and goes.
#include <gtest/gtest.h>
#include <kvpage/page_buckets.hpp>

#include <algorithm>
#include <cstdint>
#include <memory_resource>
#include <random>
#include <vector>

namespace {

using kvpage::null_page;
using kvpage::page_id;
using kvpage::detail::page_buckets;

page_id find(const page_buckets& buckets, std::uint32_t hash, page_id page) {
  return buckets.find(hash, [=](page_id found) { return found == page; });
}

TEST(page_buckets, case_D_pages_that_hash_alike_are_told_apart_by_the_caller) {
  page_buckets buckets(8, std::pmr::get_default_resource());
  for (page_id page = 1; page < 8; ++page) buckets.insert(7, page);
  for (page_id page = 1; page < 8; ++page) EXPECT_EQ(find(buckets, 7, page), page);
  EXPECT_EQ(find(buckets, 7, 8), null_page);
  EXPECT_EQ(buckets.find(8, [](page_id) { return true; }), null_page);
  buckets.clear();
  EXPECT_EQ(buckets.find(7, [](page_id) { return true; }), null_page);
}

// Few different hashes, around the end of the table, so that runs merge, wrap and break.
TEST(page_buckets, case_D_a_page_that_leaves_hides_no_other) {
  constexpr std::size_t pages = 24;
  page_buckets buckets(pages, std::pmr::get_default_resource());
  std::vector<std::uint32_t> hash_of(pages);
  std::vector<bool> present(pages);
  std::mt19937 random{1};
  for (int round = 0; round < 20'000; ++round) {
    const page_id page = 1 + static_cast<page_id>(random() % (pages - 1));
    if (present[page]) {
      buckets.erase(hash_of[page], page);
    } else {
      hash_of[page] = 28 + random() % 8;
      buckets.insert(hash_of[page], page);
    }
    present[page] = !present[page];
    for (page_id other = 1; other < pages; ++other)
      ASSERT_EQ(find(buckets, hash_of[other], other), present[other] ? other : null_page)
          << "round " << round;
  }
}

}  // namespace
