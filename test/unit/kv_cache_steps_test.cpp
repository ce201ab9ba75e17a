// Steps and windows: cases A, B, H and N, as an engine meets them.
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
using kv_cache_steps = kv_cache_fixture<Policy>;
using policies = testing::Types<kvpage::untagged, kvpage::tagged>;
TYPED_TEST_SUITE(kv_cache_steps, policies);

// --- Lifetime ---

// A transfer holds a fork.  6 usable pages, 4 of them A's.
TYPED_TEST(kv_cache_steps, case_A_a_transfer_keeps_an_aborted_requests_pages) {
  typename TestFixture::cache_type cache(this->options(6));
  const auto a = this->admitted(cache, tokens_of(1, 16));
  const auto transfer = cache.fork(a);
  ASSERT_EQ(transfer.error(), errc::ok);
  const std::vector old(cache.table(a)->handles().begin(), cache.table(a)->handles().end());
  this->abort(cache, a);
  EXPECT_EQ(cache.pool().stats().free, 2u);
  EXPECT_EQ(cache.admit(text_of(tokens_of(2, 16))).code, errc::exhausted);
  this->abort(cache, *transfer);
  EXPECT_EQ(cache.pool().stats().free, 6u);
  EXPECT_EQ(cache.admit(text_of(tokens_of(2, 16))).code, errc::ok);
  if constexpr (TypeParam::is_tagged) {
    for (const auto& page : old) EXPECT_NE(cache.pool().check(page), errc::ok);
  }
  EXPECT_EQ(cache.abort(*transfer).error(), errc::stale_request);
}

TYPED_TEST(kv_cache_steps, case_A_an_aborted_requests_pages_wait_for_the_step_in_flight) {
  typename TestFixture::cache_type cache(this->options(4));
  const auto request = this->admitted(cache, tokens_of(1, 16));
  const auto old = cache.table(request)->handles()[0];
  cache.launched(1);
  this->abort(cache, request);
  EXPECT_EQ(cache.pool().stats().fenced, 4u);
  if constexpr (TypeParam::is_tagged) {
    EXPECT_NE(cache.pool().check(old), errc::ok);  // stale at once
  }
  EXPECT_EQ(cache.admit(text_of(tokens_of(2, 4))).code, errc::exhausted);
  cache.retire(1);
  EXPECT_EQ(cache.admit(text_of(tokens_of(2, 16))).code, errc::ok);
}

TYPED_TEST(kv_cache_steps, case_A_a_finished_requests_pages_wait_but_can_be_matched_meanwhile) {
  typename TestFixture::cache_type cache(this->options(8));
  const tokens text = tokens_of(1, 8);
  const auto request = this->admitted(cache, text);
  cache.launched(1);
  ASSERT_EQ(cache.finish(request, text_of(text), 8), errc::ok);
  EXPECT_EQ(cache.table(request), nullptr);
  EXPECT_EQ(cache.pool().stats().live, 2u);
  EXPECT_EQ(cache.admit(text_of(tokens_of(1, 12))).cached_tokens, 8u);
  cache.retire(1);
  EXPECT_EQ(cache.pool().stats().live, 3u);
  this->expect_clean(cache);
}

TYPED_TEST(kv_cache_steps, case_A_a_slot_is_not_reused_before_its_last_step_has_retired) {
  auto options = this->options(8);
  options.max_requests = 2;
  typename TestFixture::cache_type cache(options);
  const auto first = this->admitted(cache, {1});
  const auto second = this->admitted(cache, {2});
  cache.launched(1);
  ASSERT_EQ(cache.finish(first), errc::ok);
  EXPECT_EQ(cache.admit(text_of({3})).code, errc::exhausted);
  cache.launched(2);
  this->abort(cache, second);
  cache.retire(1);
  EXPECT_EQ(this->admitted(cache, {3}).slot, first.slot);
  EXPECT_EQ(cache.admit(text_of({4})).code, errc::exhausted);
  cache.retire(2);
  EXPECT_EQ(this->admitted(cache, {4}).slot, second.slot);
}

TYPED_TEST(kv_cache_steps, case_N_what_comes_late_for_a_request_does_not_reach_its_successor) {
  typename TestFixture::cache_type cache(this->options(8));
  const auto dead = this->admitted(cache, {1});
  this->abort(cache, dead);
  const auto successor = this->admitted(cache, {2});
  ASSERT_EQ(successor.slot, dead.slot);
  EXPECT_EQ(cache.grow(dead, 1), errc::stale_request);
  EXPECT_EQ(cache.truncate(dead, 0), errc::stale_request);
  EXPECT_EQ(cache.slide(dead, 0), errc::stale_request);
  EXPECT_EQ(cache.fork(dead).error(), errc::stale_request);
  EXPECT_EQ(cache.publish(dead, text_of({1}), 1).error(), errc::stale_request);
  EXPECT_EQ(cache.finish(dead), errc::stale_request);
  EXPECT_EQ(cache.abort(dead).error(), errc::stale_request);
  EXPECT_EQ(cache.table(dead), nullptr);
  EXPECT_EQ(cache.table(successor)->tokens(), 1u);
}

TYPED_TEST(kv_cache_steps, case_B_a_page_given_up_behind_a_requests_back) {
  typename TestFixture::cache_type cache(this->options(8));
  const tokens text = tokens_of(1, 8);
  const auto request = this->admitted(cache, text);
  ASSERT_EQ(cache.pool().release(cache.table(request)->handles().first(1)), errc::ok);
  EXPECT_EQ(cache.finish(request, text_of(text), 8), errc::double_release);
  EXPECT_EQ(cache.truncate(request, 0), errc::double_release);
  EXPECT_EQ(cache.fork(request).error(), errc::double_release);
  EXPECT_EQ(cache.table(request)->pages(), 2u);
  EXPECT_EQ(this->abort(cache, request), 1u);
  EXPECT_EQ(cache.pool().stats().free, 8u);
  this->expect_clean(cache);
}

TYPED_TEST(kv_cache_steps, case_B_a_published_page_given_up_behind_a_requests_back) {
  typename TestFixture::cache_type cache(this->options(8));
  const tokens text = tokens_of(1, 8);
  const auto request = this->admitted(cache, text);
  ASSERT_TRUE(cache.publish(request, text_of(text), 8));
  ASSERT_EQ(cache.pool().release(cache.table(request)->handles().last(1)), errc::ok);  // cached, nobody's
  EXPECT_EQ(cache.truncate(request, 4), errc::double_release);
  EXPECT_EQ(cache.fork(request).error(), errc::double_release);
  EXPECT_EQ(cache.table(request)->pages(), 2u);
  EXPECT_EQ(this->abort(cache, request), 1u);
  EXPECT_EQ(cache.pool().stats().cached, 2u);
  this->expect_clean(cache);
}

TEST(kv_cache_tags, case_N_eviction_is_not_counted_on_for_pages_in_their_last_generation) {
  using two_grants = kvpage::basic_tagged<std::uint8_t, 2>;
  kvpage::kv_cache<kvpage::bf16, two_grants> cache({.groups = {{.pages = 1 + 2}}, .tokens_per_page = 4});
  for (token_id author = 1; author <= 2; ++author) {
    const tokens text = tokens_of(author, 8);
    const auto admission = cache.admit(text_of(text));
    ASSERT_EQ(admission.code, errc::ok);
    ASSERT_EQ(cache.finish(admission.request, text_of(text), 8), errc::ok);
    EXPECT_EQ(cache.audit().finding, "");
  }
  EXPECT_EQ(cache.admit(text_of(tokens_of(3, 4))).code, errc::never_fits);
  EXPECT_EQ(cache.pool().stats().retired, 2u);
}

// --- Numbers of steps ---

TYPED_TEST(kv_cache_steps, case_A_a_step_that_was_never_launched_holds_nothing_and_frees_nothing) {
  typename TestFixture::cache_type cache(this->options(4));
  const auto early = this->admitted(cache, tokens_of(1, 8));
  cache.launched(2);
  this->abort(cache, early);
  const auto late = this->admitted(cache, tokens_of(2, 8));
  cache.launched(7);
  ASSERT_EQ(cache.finish(late), errc::ok);
  cache.retire(1);
  EXPECT_EQ(cache.pool().stats().fenced, 2u);
  cache.retire(6);  // step 2 is over, step 7 is not
  EXPECT_EQ(cache.pool().stats().free, 2u);
  EXPECT_EQ(cache.pool().stats().live, 2u);
  cache.retire(7);
  EXPECT_EQ(cache.pool().stats().free, 4u);
}

// --- Windows ---

TYPED_TEST(kv_cache_steps, case_A_pages_behind_the_window_are_given_back_once_no_launched_step_reads_them) {
  auto options = this->options(8);
  options.groups[0].window = 6;
  typename TestFixture::cache_type cache(options);
  const auto request = this->admitted(cache, tokens_of(1, 13));
  cache.launched(1);
  ASSERT_EQ(cache.slide(request, 9), errc::ok);  // position 9 attends to 4 .. 9
  EXPECT_EQ(cache.table(request)->dropped_pages(), 1u);
  EXPECT_EQ(cache.pool().stats().fenced, 1u);
  cache.retire(1);
  EXPECT_EQ(cache.pool().stats().free, 5u);
  ASSERT_EQ(cache.slide(request, 9), errc::ok);  // nothing more
  ASSERT_EQ(cache.slide(request, 5), errc::ok);
  EXPECT_EQ(cache.table(request)->dropped_pages(), 1u);
  EXPECT_EQ(cache.slide(request, 14), errc::outside_row);
  EXPECT_EQ(cache.truncate(request, 3), errc::outside_row);
  ASSERT_EQ(cache.finish(request), errc::ok);
  EXPECT_EQ(cache.pool().stats().free, 8u);
}

TEST(page_group, case_H_a_page_is_behind_the_window_when_its_last_token_is) {
  // S = 4, window 6: the token at position p attends to p - 5 .. p.
  for (std::size_t settled = 0; settled < 64; ++settled) {
    std::size_t behind = 0;
    while (settled >= 5 && (behind + 1) * 4 <= settled - 5) ++behind;
    EXPECT_EQ(kvpage::pages_behind_window(settled, 6, 4), behind) << settled;
  }
  EXPECT_EQ(kvpage::pages_behind_window(1000, 0, 4), 0u);
  EXPECT_EQ(kvpage::pages_behind_window(1000, 1, 4), 250u);
}

}  // namespace
