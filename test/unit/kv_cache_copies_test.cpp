// Speculation and copy on write: cases A, B, D, E, H and K, as an engine meets them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "kv_cache_fixture.hpp"

namespace {

using kvpage::cache_event_kind;
using kvpage::errc;
using kvpage::page_state;
using kvpage::prefix_salt;
using kvpage::request_handle;
using kvpage::token_id;

template <class Policy>
using kv_cache_copies = kv_cache_fixture<Policy>;
using policies = testing::Types<kvpage::untagged, kvpage::tagged>;
TYPED_TEST_SUITE(kv_cache_copies, policies);

// --- Rollback ---

TYPED_TEST(kv_cache_copies, case_H_speculative_tokens_are_rolled_back) {
  auto options = this->options(8);
  options.tokens_per_page = 16;
  typename TestFixture::cache_type cache(options);
  const auto request = this->admitted(cache, tokens_of(1, 30));
  ASSERT_EQ(cache.grow(request, 5), errc::ok);
  ASSERT_EQ(cache.table(request)->pages(), 3u);
  const auto third = cache.table(request)->handles()[2];
  ASSERT_EQ(cache.truncate(request, 31), errc::ok);
  EXPECT_EQ(cache.table(request)->pages(), 2u);
  EXPECT_EQ(cache.pool().check(third), errc::double_release);
  ASSERT_EQ(cache.grow(request, 2), errc::ok);
  EXPECT_EQ(cache.table(request)->handles()[2].id(), third.id());
  if constexpr (TypeParam::is_tagged) {
    EXPECT_NE(cache.table(request)->handles()[2], third);
  }
  EXPECT_EQ(cache.truncate(request, 34), errc::outside_row);
}

// Case K: where it was published, it is no longer, and is written in place.
TYPED_TEST(kv_cache_copies, case_K_a_request_that_fills_the_pool_goes_on_in_its_own_published_page) {
  typename TestFixture::cache_type cache(this->options(2));
  const tokens text = tokens_of(1, 8);
  const auto request = this->admitted(cache, text);
  ASSERT_EQ(*cache.publish(request, text_of(text), 8), 2u);
  const auto last = cache.table(request)->handles()[1];
  ASSERT_EQ(cache.truncate(request, 7), errc::ok);
  ASSERT_EQ(cache.grow(request, 1), errc::ok);
  EXPECT_TRUE(cache.copies().empty());
  EXPECT_EQ(cache.table(request)->handles()[1], last);
  EXPECT_FALSE(cache.pool().is_published(last.id()));
  EXPECT_EQ(cache.grow(request, 1), errc::never_fits);
  this->expect_clean(cache);
  EXPECT_EQ(*cache.publish(request, text_of(text), 8), 1u);  // with what it holds now
  EXPECT_EQ(cache.finish(request), errc::ok);
  EXPECT_EQ(cache.admit(text_of(text)).cached_tokens, 4u);  // one token is left to compute
  this->expect_clean(cache);
}

TYPED_TEST(kv_cache_copies, case_K_its_own_cached_page_makes_room_for_the_copy) {
  typename TestFixture::cache_type cache(this->options(2));
  const tokens text = tokens_of(1, 8);
  const auto request = this->admitted(cache, text);
  ASSERT_EQ(*cache.publish(request, text_of(text), 8), 2u);
  cache.launched(1);
  ASSERT_EQ(cache.truncate(request, 3), errc::ok);     // the second page hangs from the first
  EXPECT_EQ(cache.grow(request, 1), errc::exhausted);  // the step in flight may read it
  cache.retire(1);
  ASSERT_EQ(cache.grow(request, 1), errc::ok);
  ASSERT_EQ(cache.copies().size(), 1u);
  EXPECT_EQ(cache.copies()[0].tokens, 3u);
  this->expect_clean(cache);
}

TYPED_TEST(kv_cache_copies, case_K_a_published_page_that_others_hold_is_copied) {
  typename TestFixture::cache_type cache(this->options(3));
  const tokens text = tokens_of(1, 8);
  const auto request = this->admitted(cache, text);
  ASSERT_EQ(*cache.publish(request, text_of(text), 8), 2u);
  const auto other = this->admitted(cache, tokens_of(1, 9));
  ASSERT_EQ(cache.truncate(request, 7), errc::ok);
  cache.launched(1);
  EXPECT_EQ(cache.grow(request, 1), errc::exhausted);
  cache.retire(1);
  this->abort(cache, other);
  EXPECT_EQ(cache.grow(request, 1), errc::ok);
  EXPECT_TRUE(cache.copies().empty());
  this->expect_clean(cache);
}

// What another request has published below a page keeps it published.
TYPED_TEST(kv_cache_copies, case_D_a_page_that_others_are_published_below_is_copied) {
  typename TestFixture::cache_type cache(this->options(6));
  const tokens text = tokens_of(1, 8);
  const auto first = this->admitted(cache, text), second = this->admitted(cache, text);
  ASSERT_EQ(*cache.publish(first, text_of(text), 4), 1u);
  ASSERT_EQ(*cache.publish(second, text_of(text), 8), 1u);  // below the first one's page
  ASSERT_EQ(cache.truncate(first, 3), errc::ok);
  cache.launched(1);
  ASSERT_EQ(cache.grow(first, 1), errc::ok);
  EXPECT_EQ(cache.copies().size(), 1u);
  EXPECT_EQ(cache.admit(text_of(tokens_of(1, 9))).cached_tokens, 8u);
  this->expect_clean(cache);
}

// --- Copies ---

TYPED_TEST(kv_cache_copies, case_H_a_fork_copies_the_shared_partial_page_before_the_next_step) {
  typename TestFixture::cache_type cache(this->options(8));
  const auto parent = this->admitted(cache, tokens_of(1, 6));
  cache.launched(1);
  const auto child = *cache.fork(parent);
  const auto shared = cache.table(parent)->handles()[1];
  ASSERT_EQ(cache.grow(child, 1), errc::ok);
  ASSERT_EQ(cache.copies().size(), 1u);
  EXPECT_EQ(cache.copies()[0].source, shared);
  EXPECT_EQ(cache.copies()[0].destination, cache.table(child)->handles()[1]);
  EXPECT_EQ(cache.copies()[0].tokens, 2u);

  this->abort(cache, parent);
  EXPECT_EQ(cache.pool().state(shared.id()), page_state::live);  // until the copy has run
  cache.launched(2);
  EXPECT_TRUE(cache.copies().empty());
  EXPECT_EQ(cache.pool().state(shared.id()), page_state::fenced);
  cache.retire(2);
  EXPECT_EQ(cache.pool().state(shared.id()), page_state::free);
  this->expect_clean(cache);
}

TYPED_TEST(kv_cache_copies, case_A_a_copy_ends_with_its_destination) {
  typename TestFixture::cache_type cache(this->options(8));
  const auto parent = this->admitted(cache, tokens_of(1, 6));
  cache.launched(1);
  const auto child = *cache.fork(parent);
  ASSERT_EQ(cache.grow(child, 1), errc::ok);
  const auto destination = cache.copies()[0].destination;
  this->abort(cache, child);
  EXPECT_TRUE(cache.copies().empty());  // so no step to come writes there
  EXPECT_EQ(cache.pool().state(destination.id()), page_state::fenced);
  cache.retire(1);
  EXPECT_EQ(cache.pool().state(destination.id()), page_state::free);
}

TYPED_TEST(kv_cache_copies, case_H_a_copy_that_is_rolled_back_is_not_made) {
  typename TestFixture::cache_type cache(this->options(8));
  const auto parent = this->admitted(cache, tokens_of(1, 6));
  cache.launched(1);
  const auto child = *cache.fork(parent);
  ASSERT_EQ(cache.grow(child, 1), errc::ok);
  ASSERT_EQ(cache.truncate(child, 5), errc::ok);
  EXPECT_EQ(cache.copies()[0].tokens, 2u);
  ASSERT_EQ(cache.truncate(child, 4), errc::ok);
  EXPECT_TRUE(cache.copies().empty());
  cache.retire(1);
  EXPECT_EQ(cache.pool().stats().free, 6u);
  this->expect_clean(cache);
}

TYPED_TEST(kv_cache_copies, case_H_no_copy_reads_what_another_one_writes) {
  typename TestFixture::cache_type cache(this->options(8));
  const auto first = this->admitted(cache, tokens_of(1, 7));
  cache.launched(1);
  const auto original = cache.table(first)->handles()[1];
  const auto second = *cache.fork(first);
  ASSERT_EQ(cache.grow(second, 1), errc::ok);
  ASSERT_EQ(cache.truncate(second, 6), errc::ok);
  const auto third = *cache.fork(second);  // of a page that is yet to be copied to
  ASSERT_EQ(cache.grow(third, 1), errc::ok);
  ASSERT_EQ(cache.copies().size(), 2u);
  EXPECT_EQ(cache.copies()[1].source, original);
  EXPECT_EQ(cache.copies()[1].destination, cache.table(third)->handles()[1]);
  EXPECT_EQ(cache.copies()[1].tokens, 2u);
  EXPECT_EQ(cache.pool().references(original.id()), 3u);
  EXPECT_EQ(cache.pool().references(cache.table(second)->handles()[1].id()), 1u);
  cache.launched(2);
  for (const auto request : {first, second, third}) EXPECT_EQ(this->abort(cache, request), 0u);
  cache.retire(2);
  EXPECT_EQ(cache.pool().stats().free, 8u);
  this->expect_clean(cache);
}

TYPED_TEST(kv_cache_copies, case_B_the_source_of_a_copy_given_up_behind_its_back_ends_one_request_alone) {
  typename TestFixture::cache_type cache(this->options(8));
  const auto parent = this->admitted(cache, tokens_of(1, 6));
  cache.launched(1);
  const auto first = *cache.fork(parent), second = *cache.fork(parent);
  const auto bystander = this->admitted(cache, tokens_of(2, 4));
  const auto shared = cache.table(parent)->handles().last(1);
  for (const auto request : {first, second}) ASSERT_EQ(cache.grow(request, 1), errc::ok);  // copies hold two
  for (int reference = 0; reference < 2; ++reference)
    ASSERT_EQ(cache.pool().release(shared), errc::ok);  // so this is not the parent's alone
  cache.launched(2);
  EXPECT_EQ(this->abort(cache, parent), 1u);
  for (const auto request : {first, second, bystander}) EXPECT_EQ(cache.finish(request), errc::ok);
  cache.retire(2);
  EXPECT_EQ(cache.pool().stats().free, 8u);
  this->expect_clean(cache);
}

// --- What no launched step has computed ---

TYPED_TEST(kv_cache_copies, case_D_a_copy_waits_for_the_step_that_computes_its_tokens) {
  typename TestFixture::cache_type cache(this->options(8));
  const auto parent = this->admitted(cache, tokens_of(1, 6));
  const auto prompt_only = *cache.fork(parent);
  EXPECT_EQ(cache.grow(prompt_only, 1), errc::not_ready);
  EXPECT_EQ(cache.grow(parent, 1), errc::not_ready);  // what the other reads would never be computed
  cache.launched(1);
  this->abort(cache, prompt_only);

  ASSERT_EQ(cache.grow(parent, 1), errc::ok);
  const auto child = *cache.fork(parent);
  EXPECT_EQ(cache.grow(child, 1), errc::not_ready);
  EXPECT_EQ(cache.table(child)->tokens(), 7u);
  EXPECT_TRUE(cache.copies().empty());
  cache.launched(2);
  ASSERT_EQ(cache.grow(child, 1), errc::ok);
  ASSERT_EQ(cache.copies().size(), 1u);
  EXPECT_EQ(cache.copies()[0].tokens, 3u);
}

TYPED_TEST(kv_cache_copies, case_D_a_copy_does_not_wait_for_tokens_that_were_rolled_back) {
  typename TestFixture::cache_type cache(this->options(8));
  const auto parent = this->admitted(cache, tokens_of(1, 6));
  cache.launched(1);
  ASSERT_EQ(cache.grow(parent, 1), errc::ok);
  const auto child = *cache.fork(parent);
  ASSERT_EQ(cache.truncate(child, 6), errc::ok);
  ASSERT_EQ(cache.grow(child, 1), errc::ok);
  EXPECT_EQ(cache.copies()[0].tokens, 2u);
  EXPECT_EQ(cache.grow(child, 1), errc::ok);  // in its own page
  EXPECT_EQ(cache.copies().size(), 1u);
}

TYPED_TEST(kv_cache_copies, case_D_a_page_that_is_yet_to_be_copied_to_is_not_published) {
  typename TestFixture::cache_type cache(this->options(8));
  const tokens text = tokens_of(1, 12);
  const auto parent = this->admitted(cache, tokens_of(1, 6));
  cache.launched(1);
  const auto child = *cache.fork(parent);
  ASSERT_EQ(cache.grow(child, 6), errc::ok);
  EXPECT_EQ(*cache.publish(child, text_of(text), 12), 1u);
  cache.launched(2);
  EXPECT_EQ(*cache.publish(child, text_of(text), 12), 2u);
  this->expect_clean(cache);
}

// --- Copies whose step has another number than expected, or never comes ---

TYPED_TEST(kv_cache_copies, case_A_the_step_of_a_copy_may_have_any_number) {
  typename TestFixture::cache_type cache(this->options(8));
  const auto parent = this->admitted(cache, tokens_of(1, 6));
  cache.launched(5);
  const auto child = *cache.fork(parent), grandchild = *cache.fork(parent);
  for (const auto request : {child, grandchild}) ASSERT_EQ(cache.grow(request, 1), errc::ok);
  ASSERT_EQ(cache.finish(child), errc::ok);
  const std::vector copies(cache.copies().begin(), cache.copies().end());
  cache.launched(10);
  ASSERT_EQ(cache.finish(grandchild), errc::ok);
  this->abort(cache, parent);
  cache.retire(9);
  for (const auto& copy : copies) {
    if (copy.tokens == 0) continue;
    EXPECT_NE(cache.pool().state(copy.source.id()), page_state::free);
    EXPECT_NE(cache.pool().state(copy.destination.id()), page_state::free);
  }
  cache.retire(10);
  EXPECT_EQ(cache.pool().stats().free, 8u);
  this->expect_clean(cache);
}

TYPED_TEST(kv_cache_copies, case_E_what_waits_for_a_copy_is_given_back_though_no_further_step_comes) {
  typename TestFixture::cache_type cache(this->options(8));
  const auto parent = this->admitted(cache, tokens_of(1, 6));
  cache.launched(1);
  const auto aborted = *cache.fork(parent), finished = *cache.fork(parent);
  for (const auto request : {aborted, finished}) ASSERT_EQ(cache.grow(request, 1), errc::ok);
  const auto twin = *cache.fork(finished);  // of a page that is yet to be copied to
  this->abort(cache, aborted);
  this->abort(cache, parent);
  for (const auto request : {finished, twin}) ASSERT_EQ(cache.finish(request), errc::ok);
  EXPECT_TRUE(cache.copies().empty());
  cache.retire(1);
  EXPECT_EQ(cache.pool().stats().free, 8u);
  this->expect_clean(cache);
}

}  // namespace
