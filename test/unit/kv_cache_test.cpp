// Admission, the prefix cache and groups: cases C, D, E, H and K, as an engine meets them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "../support/counting_memory.hpp"
#include "kv_cache_fixture.hpp"

namespace {

using kvpage::cache_event_kind;
using kvpage::errc;
using kvpage::page_state;
using kvpage::prefix_salt;
using kvpage::request_handle;
using kvpage::token_id;

template <class Policy>
using kv_cache = kv_cache_fixture<Policy>;
using policies = testing::Types<kvpage::untagged, kvpage::tagged>;
TYPED_TEST_SUITE(kv_cache, policies);

// --- Admission ---

TYPED_TEST(kv_cache, a_request_gets_pages_for_its_text) {
  typename TestFixture::cache_type cache(this->options(8));
  const auto request = this->admitted(cache, tokens_of(1, 10));
  ASSERT_NE(cache.table(request), nullptr);
  EXPECT_EQ(cache.table(request)->tokens(), 10u);
  EXPECT_EQ(cache.table(request)->pages(), 3u);
  EXPECT_EQ(cache.pool().stats().free, 5u);
}

TYPED_TEST(kv_cache, case_K_two_requests_that_do_not_fit_together) {
  typename TestFixture::cache_type cache(this->options(7));
  this->admitted(cache, tokens_of(1, 20));  // 5 pages
  const auto second = cache.admit(text_of(tokens_of(2, 16)));
  EXPECT_EQ(second.code, errc::exhausted);
  EXPECT_EQ(second.missing_pages, 2u);
  EXPECT_EQ(cache.pool().stats().free, 2u);
  EXPECT_EQ(cache.pool().stats().live, 5u);
}

TYPED_TEST(kv_cache, case_K_a_request_that_can_never_fit_is_told_so) {
  typename TestFixture::cache_type cache(this->options(7));
  EXPECT_EQ(cache.admit(text_of(tokens_of(1, 29))).code, errc::never_fits);
  EXPECT_EQ(cache.admit(text_of(tokens_of(1, 25)), 4).code, errc::never_fits);
  EXPECT_EQ(cache.admit(text_of(tokens_of(1, 257))).code, errc::never_fits);
  const auto all = this->admitted(cache, tokens_of(1, 28));
  EXPECT_EQ(cache.grow(all, 1), errc::never_fits);  // it holds the whole pool already
  EXPECT_EQ(cache.table(all)->tokens(), 28u);
}

TYPED_TEST(kv_cache, case_K_a_watermark_that_no_request_can_meet_is_never_fits) {
  typename TestFixture::cache_type cache(this->options(7, 3));
  EXPECT_EQ(cache.admit(text_of(tokens_of(1, 17))).code, errc::never_fits);
  const auto first = this->admitted(cache, tokens_of(1, 8));
  const auto second = cache.admit(text_of(tokens_of(2, 12)));
  EXPECT_EQ(second.code, errc::exhausted);
  EXPECT_EQ(second.missing_pages, 1u);
  EXPECT_EQ(cache.grow(first, 20), errc::ok);  // growth may use what admission leaves
}

TYPED_TEST(kv_cache, case_K_reserved_growth_is_seen_to_but_not_granted) {
  typename TestFixture::cache_type cache(this->options(4));
  EXPECT_EQ(cache.admit(text_of(tokens_of(1, 9)), 7).code, errc::ok);
  EXPECT_EQ(cache.pool().stats().free, 1u);
  EXPECT_EQ(cache.admit(text_of(tokens_of(2, 4)), 1).code, errc::exhausted);
}

TYPED_TEST(kv_cache, case_K_growth_is_all_or_nothing) {
  typename TestFixture::cache_type cache(this->options(4));
  const auto request = this->admitted(cache, tokens_of(1, 8));
  this->admitted(cache, tokens_of(2, 4));
  EXPECT_EQ(cache.grow(request, 5), errc::exhausted);
  EXPECT_EQ(cache.table(request)->tokens(), 8u);
  EXPECT_EQ(cache.pool().stats().free, 1u);
  EXPECT_EQ(cache.grow(request, 4), errc::ok);
}

TYPED_TEST(kv_cache, case_K_a_copy_that_ends_with_the_other_request_is_not_never_fits) {
  typename TestFixture::cache_type cache(this->options(2));
  const auto parent = this->admitted(cache, tokens_of(1, 6));
  cache.launched(1);
  const auto child = *cache.fork(parent);
  EXPECT_EQ(cache.grow(parent, 1), errc::exhausted);
  this->abort(cache, child);
  cache.retire(1);
  EXPECT_EQ(cache.grow(parent, 1), errc::ok);
  EXPECT_EQ(cache.grow(parent, 2), errc::never_fits);
}

TYPED_TEST(kv_cache, without_a_free_slot_nothing_is_missing_but_a_slot) {
  auto options = this->options(8);
  options.max_requests = 1;
  typename TestFixture::cache_type cache(options);
  const auto first = this->admitted(cache, {1});
  const auto second = cache.admit(text_of({2}));
  EXPECT_EQ(second.code, errc::exhausted);
  EXPECT_EQ(second.missing_pages, 0u);
  EXPECT_EQ(cache.fork(first).error(), errc::exhausted);
  EXPECT_EQ(this->abort(cache, first), 0u);
  EXPECT_EQ(cache.admit(text_of({2})).code, errc::ok);
}

// --- Prefix cache ---

TYPED_TEST(kv_cache, a_finished_request_is_found_by_the_next_turn) {
  typename TestFixture::cache_type cache(this->options(8));
  const tokens turn = tokens_of(1, 10);
  ASSERT_EQ(cache.finish(this->admitted(cache, turn), text_of(turn), 10), errc::ok);
  EXPECT_EQ(cache.pool().stats().cached, 2u);
  const auto next = cache.admit(text_of(tokens_of(1, 14)));
  EXPECT_EQ(next.cached_tokens, 8u);
  EXPECT_EQ(cache.table(next.request)->pages(), 4u);
  this->expect_clean(cache);
}

TYPED_TEST(kv_cache, a_running_request_is_found_too) {
  typename TestFixture::cache_type cache(this->options(8));
  const tokens prompt = tokens_of(1, 10);
  const auto first = this->admitted(cache, prompt);
  EXPECT_EQ(*cache.publish(first, text_of(prompt), 8), 2u);
  const auto second = cache.admit(text_of(prompt));
  EXPECT_EQ(second.cached_tokens, 8u);
  EXPECT_EQ(cache.pool().stats().live, 4u);
}

TYPED_TEST(kv_cache, case_D_abort_publishes_nothing) {
  typename TestFixture::cache_type cache(this->options(8));
  const tokens prompt = tokens_of(1, 10);
  this->abort(cache, this->admitted(cache, prompt));
  EXPECT_EQ(cache.admit(text_of(prompt)).cached_tokens, 0u);
}

TYPED_TEST(kv_cache, case_D_other_weights_end_what_is_published_and_what_is_being_computed) {
  typename TestFixture::cache_type cache(this->options(16));
  const tokens prompt = tokens_of(1, 10), other = tokens_of(2, 10);
  ASSERT_EQ(cache.finish(this->admitted(cache, prompt), text_of(prompt), 10), errc::ok);
  const auto running = this->admitted(cache, other);
  cache.advance_epoch();
  EXPECT_EQ(cache.publish(running, text_of(other), 10).error(), errc::stale_epoch);
  EXPECT_EQ(cache.finish(running, text_of(other), 10), errc::ok);  // ends all the same
  EXPECT_EQ(cache.admit(text_of(prompt)).cached_tokens, 0u);
  EXPECT_EQ(cache.admit(text_of(other)).cached_tokens, 0u);
}

TYPED_TEST(kv_cache, case_D_tenants_do_not_share) {
  typename TestFixture::cache_type cache(this->options(16));
  const tokens prompt = tokens_of(1, 10);
  const auto first = cache.admit(text_of(prompt, {.tenant = "a"}));
  ASSERT_EQ(cache.finish(first.request, text_of(prompt, {.tenant = "a"}), 10), errc::ok);
  EXPECT_EQ(cache.admit(text_of(prompt, {.tenant = "b"})).cached_tokens, 0u);
  EXPECT_EQ(cache.admit(text_of(prompt, {.tenant = "a"})).cached_tokens, 8u);
}

TYPED_TEST(kv_cache, cached_pages_are_evicted_for_admission_and_growth) {
  typename TestFixture::cache_type cache(this->options(4));
  const tokens old = tokens_of(1, 16);
  ASSERT_EQ(cache.finish(this->admitted(cache, old), text_of(old), 16), errc::ok);
  EXPECT_EQ(cache.pool().stats().cached, 4u);
  const auto request = this->admitted(cache, tokens_of(2, 8));
  EXPECT_EQ(cache.pool().stats().cached, 2u);
  EXPECT_EQ(cache.grow(request, 4), errc::ok);
  EXPECT_EQ(cache.pool().stats().cached, 1u);
  EXPECT_EQ(cache.admit(text_of(old)).code, errc::exhausted);
  this->expect_clean(cache);
}

// Case C: of 4 pages, 2 are cached and matched.  They are not also counted as pages to evict.
TYPED_TEST(kv_cache, case_C_matched_pages_are_not_counted_as_free) {
  typename TestFixture::cache_type cache(this->options(4));
  const tokens old = tokens_of(1, 8);
  ASSERT_EQ(cache.finish(this->admitted(cache, old), text_of(old), 8), errc::ok);
  const auto holder = this->admitted(cache, tokens_of(2, 4));
  const auto hit = cache.admit(text_of(tokens_of(1, 16)));  // 2 matched, 2 more, 1 free
  EXPECT_EQ(hit.code, errc::exhausted);
  EXPECT_EQ(hit.missing_pages, 1u);
  EXPECT_EQ(cache.pool().stats().cached, 2u);
  this->abort(cache, holder);
  EXPECT_EQ(cache.admit(text_of(tokens_of(1, 16))).cached_tokens, 8u);
}

TYPED_TEST(kv_cache, case_C_a_failed_admission_leaves_counts_and_eviction_order) {
  typename TestFixture::cache_type cache(this->options(6));
  const tokens older = tokens_of(1, 4), newer = tokens_of(2, 4);
  ASSERT_EQ(cache.finish(this->admitted(cache, older), text_of(older), 4), errc::ok);
  ASSERT_EQ(cache.finish(this->admitted(cache, newer), text_of(newer), 4), errc::ok);
  const auto before = cache.pool().stats();
  const auto holder = this->admitted(cache, tokens_of(3, 4));
  EXPECT_EQ(cache.admit(text_of(tokens_of(1, 24))).code, errc::exhausted);  // matches the older
  this->abort(cache, holder);
  EXPECT_EQ(cache.pool().stats(), before);
  this->admitted(cache, tokens_of(4, 20));  // evicts one: the older
  typename TestFixture::cache_type::table_type pin(cache.pool());
  EXPECT_EQ(cache.pin(text_of(tokens_of(1, 5)), pin), 0u);
  EXPECT_EQ(cache.pin(text_of(tokens_of(2, 5)), pin), 4u);
}

TYPED_TEST(kv_cache, a_pinned_prefix_is_not_evicted) {
  typename TestFixture::cache_type cache(this->options(4));
  const tokens hot = tokens_of(1, 8);
  ASSERT_EQ(cache.finish(this->admitted(cache, hot), text_of(hot), 8), errc::ok);
  typename TestFixture::cache_type::table_type pin(cache.pool());
  EXPECT_EQ(cache.pin(text_of(tokens_of(1, 9)), pin), 8u);
  EXPECT_EQ(cache.admit(text_of(tokens_of(2, 12))).code, errc::exhausted);
  ASSERT_EQ(pin.release(), errc::ok);
  EXPECT_EQ(cache.admit(text_of(tokens_of(2, 12))).code, errc::ok);
}

TYPED_TEST(kv_cache, a_preempted_request_finds_its_pages_again) {
  typename TestFixture::cache_type cache(this->options(8));
  const tokens text = tokens_of(1, 14);
  ASSERT_EQ(cache.finish(this->admitted(cache, text), text_of(text), 13), errc::ok);
  EXPECT_EQ(cache.admit(text_of(text)).cached_tokens, 12u);
}

TYPED_TEST(kv_cache, without_a_prefix_cache_nothing_is_found) {
  auto options = this->options(8);
  options.prefix_cache = false;
  typename TestFixture::cache_type cache(options);
  const tokens text = tokens_of(1, 8);
  ASSERT_EQ(cache.finish(this->admitted(cache, text), text_of(text), 8), errc::ok);
  EXPECT_EQ(cache.pool().stats().free, 8u);
  EXPECT_EQ(cache.admit(text_of(tokens_of(1, 9))).cached_tokens, 0u);
}

// --- Page groups ---

TYPED_TEST(kv_cache, case_K_admission_is_all_or_nothing_over_groups) {
  auto options = this->options(8);
  options.groups.push_back({.pages = 1 + 3, .window = 6});
  typename TestFixture::cache_type cache(options);
  this->admitted(cache, tokens_of(1, 8));
  EXPECT_EQ(cache.pool(1).stats().live, 2u);
  const auto second = cache.admit(text_of(tokens_of(2, 8)));
  EXPECT_EQ(second.code, errc::exhausted);
  EXPECT_EQ(second.missing_pages, 1u);
  EXPECT_EQ(cache.pool(0).stats().live, 2u);
  EXPECT_EQ(cache.admit(text_of(tokens_of(2, 16))).code, errc::never_fits);
}

TYPED_TEST(kv_cache, case_K_growth_is_all_or_nothing_over_groups) {
  auto options = this->options(8);
  options.groups.push_back({.pages = 1 + 3, .window = 6});
  typename TestFixture::cache_type cache(options);
  const auto first = this->admitted(cache, tokens_of(1, 8));
  this->admitted(cache, tokens_of(2, 4));
  EXPECT_EQ(cache.grow(first, 1), errc::exhausted);
  EXPECT_EQ(cache.table(first, 0)->tokens(), 8u);
  EXPECT_EQ(cache.pool(0).stats().live, 3u);
  ASSERT_EQ(cache.slide(first, 8), errc::ok);  // position 8 attends to 3 .. 8: nothing to give
  ASSERT_EQ(cache.grow(first, 1), errc::exhausted);
}

TYPED_TEST(kv_cache, a_window_group_gives_back_what_the_full_group_keeps) {
  auto options = this->options(8);
  options.groups.push_back({.pages = 1 + 4, .window = 6});
  typename TestFixture::cache_type cache(options);
  const auto request = this->admitted(cache, tokens_of(1, 4));
  for (std::size_t length = 4; length < 32; ++length) {
    ASSERT_EQ(cache.slide(request, length), errc::ok);
    ASSERT_EQ(cache.grow(request, 1), errc::ok);
  }
  EXPECT_EQ(cache.table(request, 0)->dropped_pages(), 0u);
  EXPECT_EQ(cache.table(request, 1)->dropped_pages(), 6u);
  EXPECT_EQ(cache.pool(0).stats().live, 8u);
  EXPECT_EQ(cache.pool(1).stats().live, 2u);
  this->expect_clean(cache);
}

TYPED_TEST(kv_cache, case_H_a_rollback_that_one_group_cannot_do_is_done_in_none) {
  auto options = this->options(8);
  options.groups.push_back({.pages = 1 + 8, .window = 2});
  typename TestFixture::cache_type cache(options);
  const auto request = this->admitted(cache, tokens_of(1, 16));
  ASSERT_EQ(cache.slide(request, 12), errc::ok);
  EXPECT_EQ(cache.truncate(request, 4), errc::outside_row);
  EXPECT_EQ(cache.table(request, 0)->tokens(), 16u);
  EXPECT_EQ(cache.table(request, 1)->tokens(), 16u);
  EXPECT_EQ(cache.truncate(request, 12), errc::ok);
  EXPECT_EQ(cache.table(request, 1)->tokens(), 12u);
}

TYPED_TEST(kv_cache, a_fork_copies_in_every_group) {
  auto options = this->options(8);
  options.groups.push_back({.pages = 1 + 8, .window = 6});
  typename TestFixture::cache_type cache(options);
  const auto parent = this->admitted(cache, tokens_of(1, 6));
  cache.launched(1);
  const auto child = *cache.fork(parent);
  ASSERT_EQ(cache.grow(child, 1), errc::ok);
  EXPECT_EQ(cache.copies(0).size(), 1u);
  EXPECT_EQ(cache.copies(1).size(), 1u);
  cache.launched(2);
  this->abort(cache, parent);
  this->abort(cache, child);
  cache.retire(2);
  EXPECT_EQ(cache.pool(0).stats().free, 8u);
  EXPECT_EQ(cache.pool(1).stats().free, 8u);
}

// --- Leaks, options ---

TYPED_TEST(kv_cache, case_E_rejected_aborted_and_finished_requests_leave_nothing_behind) {
  typename TestFixture::cache_type cache(this->options(8));
  kvpage::step_number step = 0;
  for (token_id round = 0; round < 50; ++round) {
    const tokens text = tokens_of(round % 3, 13);
    const auto request = this->admitted(cache, text);
    EXPECT_EQ(cache.admit(text_of(tokens_of(7, 24))).code, errc::exhausted);
    cache.launched(++step);
    if (round % 2 == 0) {
      ASSERT_EQ(cache.finish(request, text_of(text), 13), errc::ok);
    } else {
      this->abort(cache, request);
    }
    cache.retire(step);
    EXPECT_EQ(cache.pool().stats().live, 0u);
    EXPECT_EQ(cache.pool().stats().fenced, 0u);
    EXPECT_EQ(cache.pool().stats().free + cache.pool().stats().cached, 8u);
    this->expect_clean(cache);
  }
}

TYPED_TEST(kv_cache, impossible_options_say_what_is_wrong) {
  auto options = this->options(8);
  options.groups.clear();
  EXPECT_THROW(typename TestFixture::cache_type{options}, std::invalid_argument);
  options = this->options(8);
  options.max_requests = 0;
  try {
    typename TestFixture::cache_type cache(options);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(std::string(error.what()), "kv_cache: max_requests is 0; it must be between 1 and 16777216");
  }
  options = this->options(8);
  options.watermark = ~std::size_t{0};  // with any text's pages, it would wrap
  EXPECT_THROW(typename TestFixture::cache_type{options}, std::invalid_argument);
  options = this->options(8);
  options.tokens_per_page = 0;
  EXPECT_THROW(typename TestFixture::cache_type{options}, std::invalid_argument);
}

TYPED_TEST(kv_cache, a_group_that_there_is_not_is_a_programming_error) {
  typename TestFixture::cache_type cache(this->options(8));
  const auto request = this->admitted(cache, tokens_of(1, 4));
  EXPECT_DEATH((void)cache.pool(1), "");
  EXPECT_DEATH((void)cache.table(request, 1), "");
  EXPECT_DEATH((void)cache.copies(1), "");
}

// As kv_cache_options says it.
TYPED_TEST(kv_cache, host_memory_is_what_the_options_ask_for) {
  constexpr std::size_t pages = 1 << 16;
  constexpr std::size_t handle_bytes = sizeof(typename TestFixture::handle);
  kvpage_test::counting_resource memory;
  auto options = this->options(pages - 1);
  options.memory = &memory;
  options.prefix_cache = false;
  options.max_requests = 4096;
  options.max_tokens_per_request = 4 * page_size;
  const std::size_t tables = options.max_requests * (4 * handle_bytes + 200);
  {
    const typename TestFixture::cache_type cache(options);
    EXPECT_LE(memory.bytes_held(), pages * (handle_bytes + 4) + tables);
  }
  options.prefix_cache = true;
  const typename TestFixture::cache_type cache(options);
  EXPECT_LE(memory.bytes_held(), pages * (handle_bytes + 4 + 62 + 4 * page_size) + tables);
}

}  // namespace
