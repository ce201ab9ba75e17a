// An audit that finds nothing is worth what it finds when something is wrong: every kind of corruption,
// planted in a pool's own records, must be named with its page.
#include "kvpage/page_audit.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "../support/configurations.hpp"
#include "../support/probed_pool.hpp"

namespace {

using kvpage::errc;
using kvpage::page_id;
using kvpage::page_state;
using kvpage::detail::page_use;

template <class Policy>
struct page_audit : ::testing::Test {
  using pool_type = kvpage::page_pool<kvpage::bf16, Policy>;
  using record = kvpage::detail::page_record<Policy>;
  using auditor = kvpage::detail::page_auditor<Policy>;

  // Pages 1 and 2 live, 3 cached, 4 fenced, 5 to 8 free.
  page_audit() {
    auto pages = pool.grant(4);
    EXPECT_EQ(pool->publish(pages[2]), errc::ok);
    EXPECT_EQ(pool->release({&pages[2], 1}), errc::ok);
    EXPECT_EQ(pool->release_after({&pages[3], 1}, 9), errc::ok);
    EXPECT_TRUE(pool->audit().clean()) << pool->audit().finding;
  }

  record& at(page_id page) { return pool.records()[page]; }

  void expect_found(page_id page, const std::string& what) {
    const kvpage::pool_audit audit = pool->audit();
    EXPECT_FALSE(audit.clean());
    EXPECT_EQ(audit.page, page);
    EXPECT_NE(audit.finding.find(what), std::string::npos) << audit.finding;
  }

  kvpage_test::probed_pool<pool_type> pool{8};
};

using policies = ::testing::Types<kvpage::untagged, kvpage::tagged, kvpage_test::tagged2>;
TYPED_TEST_SUITE(page_audit, policies, );

TYPED_TEST(page_audit, case_B_a_live_page_in_the_free_list) {
  this->at(6).use = page_use::once();
  this->expect_found(6, "another state");
}

TYPED_TEST(page_audit, case_E_a_live_page_that_lost_its_references_is_leaked) {
  this->at(2).use = page_use::free();
  this->expect_found(2, "leaked");
}

TYPED_TEST(page_audit, case_E_a_fenced_page_in_no_chain_is_leaked) {
  this->at(1).use = this->at(1).use.fenced();
  this->expect_found(1, "leaked");
}

TYPED_TEST(page_audit, case_E_a_retired_page_that_nobody_counted) {
  this->at(1).use = page_use::retired();
  const kvpage::pool_audit audit = this->pool->audit();
  EXPECT_FALSE(audit.clean());
}

TYPED_TEST(page_audit, a_fenced_page_that_somebody_holds) {
  this->at(4).use = page_use::once();
  this->expect_found(4, "another state");
}

TYPED_TEST(page_audit, a_chain_that_leads_nowhere) {
  const auto more = this->pool.grant(1);
  EXPECT_EQ(this->pool->release_after(more, 9), errc::ok);
  this->at(4).use = this->at(4).use.linked_to(0);
  this->expect_found(0, "not a page");
  this->at(4).use = this->at(4).use.linked_to(100);
  this->expect_found(100, "not a page");
  this->at(4).use = this->at(4).use.linked_to(4);
  this->expect_found(4, "twice");
  this->at(4).use = this->at(4).use.linked_to(more[0].id());
  EXPECT_TRUE(this->pool->audit().clean());
}

TYPED_TEST(page_audit, a_cached_page_that_is_not_published) {
  this->at(3).use = this->at(3).use.withdrawn();
  this->expect_found(3, "not published");
}

TYPED_TEST(page_audit, a_free_page_that_is_published) {
  this->at(7).use = this->at(7).use.published();
  this->expect_found(7, "published");
}

TYPED_TEST(page_audit, case_G_the_null_page_granted) {
  this->at(0).use = page_use::once();
  this->expect_found(0, "null page");
}

TYPED_TEST(page_audit, a_page_cached_behind_the_counters_back) {
  this->at(1).use = this->at(1).use.published().cached();
  EXPECT_FALSE(this->pool->audit().clean());
}

TYPED_TEST(page_audit, the_first_page_is_named) {
  this->at(2).use = page_use::free();
  this->at(1).use = page_use::free();
  this->expect_found(1, "leaked");
}

TYPED_TEST(page_audit, says_what_the_policy_cannot_know) {
  EXPECT_EQ(this->pool->audit().cannot_know.empty(), TypeParam::is_tagged);
}

TYPED_TEST(page_audit, case_N_a_tag_that_does_not_fit_the_state) {
  if constexpr (TypeParam::is_tagged) {
    for (const page_id page : {1U, 3U, 4U, 6U}) {
      this->at(page).tag ^= 1;
      this->expect_found(page, "tag");
      this->at(page).tag ^= 1;
    }
    this->at(0).tag = 2;
    this->expect_found(0, "null page");
    this->at(0).tag = 0;
    EXPECT_TRUE(this->pool->audit().clean());
  }
}

TYPED_TEST(page_audit, case_N_a_page_retired_with_generations_left) {
  if constexpr (TypeParam::is_tagged) {
    this->at(1).use = page_use::retired();
    this->at(1).tag = 2;
    this->expect_found(1, "retired");
  }
}

// The lists by themselves.
TYPED_TEST(page_audit, case_B_a_page_listed_twice_or_outside) {
  std::vector<typename TestFixture::record> records(4);
  typename TestFixture::auditor twice{records};
  twice.expect_listed(2, page_state::free);
  EXPECT_TRUE(twice.audit().clean());
  twice.expect_listed(2, page_state::free);
  EXPECT_EQ(twice.audit().page, 2U);
  twice.expect_listed(0, page_state::free);  // the first finding is kept
  EXPECT_EQ(twice.audit().page, 2U);
  for (const page_id outside : {page_id{0}, page_id{4}, ~page_id{0}}) {
    typename TestFixture::auditor audit{records};
    audit.expect_listed(outside, page_state::free);
    EXPECT_FALSE(audit.audit().clean());
    EXPECT_EQ(audit.audit().page, outside);
  }
}

}  // namespace
