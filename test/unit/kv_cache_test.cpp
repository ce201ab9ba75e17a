// Admission, steps, windows and groups: cases A, C, D, E, H and K, as an engine meets them.
#include <gtest/gtest.h>
#include <kvpage/kv_cache.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using kvpage::cache_event_kind;
using kvpage::errc;
using kvpage::page_state;
using kvpage::prefix_salt;
using kvpage::request_handle;
using kvpage::token_id;
using tokens = std::vector<token_id>;

kvpage::prompt<token_id> text_of(const tokens& text, const prefix_salt& salt = {}) { return {text, salt}; }

// `count` tokens that nobody else's text begins with.
tokens tokens_of(token_id author, std::size_t count) {
  tokens text(count);
  std::iota(text.begin(), text.end(), 1000 * author);
  return text;
}

constexpr std::uint32_t page_size = 4;

template <class Policy>
class kv_cache : public testing::Test {
 protected:
  using cache_type = kvpage::kv_cache<kvpage::bf16, Policy>;
  using handle = typename cache_type::handle;

  static kvpage::kv_cache_options options(std::uint64_t usable, std::size_t watermark = 0) {
    return {.groups = {{.pages = 1 + usable}},
            .tokens_per_page = page_size,
            .max_requests = 8,
            .max_tokens_per_request = 256,
            .watermark = watermark};
  }

  static void expect_clean(cache_type& cache) {
    EXPECT_EQ(cache.audit().finding, "") << "page " << cache.audit().page;
  }

  static request_handle admitted(cache_type& cache, const tokens& text) {
    const auto admission = cache.admit(text_of(text));
    EXPECT_EQ(admission.code, errc::ok);
    return admission.request;
  }

  static std::size_t abort(cache_type& cache, request_handle request) {
    const auto left_alone = cache.abort(request);
    EXPECT_EQ(left_alone.error(), errc::ok);
    return *left_alone;
  }
};

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
  const auto child = *cache.fork(parent);
  EXPECT_EQ(cache.grow(parent, 1), errc::exhausted);
  this->abort(cache, child);
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

// --- Lifetime ---

// A transfer holds a fork.  6 usable pages, 4 of them A's.
TYPED_TEST(kv_cache, case_A_a_transfer_keeps_an_aborted_requests_pages) {
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

TYPED_TEST(kv_cache, case_A_an_aborted_requests_pages_wait_for_the_step_in_flight) {
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

TYPED_TEST(kv_cache, case_A_a_finished_requests_pages_wait_but_can_be_matched_meanwhile) {
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

TYPED_TEST(kv_cache, case_A_a_slot_is_not_reused_before_its_last_step_has_retired) {
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

TYPED_TEST(kv_cache, case_N_what_comes_late_for_a_request_does_not_reach_its_successor) {
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

TYPED_TEST(kv_cache, case_B_a_page_given_up_behind_a_requests_back) {
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

TYPED_TEST(kv_cache, case_B_a_published_page_given_up_behind_a_requests_back) {
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

TYPED_TEST(kv_cache, case_B_the_source_of_a_copy_given_up_behind_its_back_ends_one_request_alone) {
  typename TestFixture::cache_type cache(this->options(8));
  const auto parent = this->admitted(cache, tokens_of(1, 6));
  const auto first = *cache.fork(parent), second = *cache.fork(parent);
  const auto bystander = this->admitted(cache, tokens_of(2, 4));
  const auto shared = cache.table(parent)->handles().last(1);
  for (const auto request : {first, second}) ASSERT_EQ(cache.grow(request, 1), errc::ok);  // copies hold two
  for (int reference = 0; reference < 2; ++reference)
    ASSERT_EQ(cache.pool().release(shared), errc::ok);  // so this is not the parent's alone
  cache.launched(1);
  EXPECT_EQ(this->abort(cache, parent), 1u);
  for (const auto request : {first, second, bystander}) EXPECT_EQ(cache.finish(request), errc::ok);
  cache.retire(1);
  EXPECT_EQ(cache.pool().stats().free, 8u);
  this->expect_clean(cache);
}

// --- Copy on write, speculation, windows ---

TYPED_TEST(kv_cache, case_H_speculative_tokens_are_rolled_back) {
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

TYPED_TEST(kv_cache, case_H_a_fork_copies_the_shared_partial_page_before_the_next_step) {
  typename TestFixture::cache_type cache(this->options(8));
  const auto parent = this->admitted(cache, tokens_of(1, 6));
  const auto child = *cache.fork(parent);
  const auto shared = cache.table(parent)->handles()[1];
  ASSERT_EQ(cache.grow(child, 1), errc::ok);
  ASSERT_EQ(cache.copies().size(), 1u);
  EXPECT_EQ(cache.copies()[0].source, shared);
  EXPECT_EQ(cache.copies()[0].destination, cache.table(child)->handles()[1]);
  EXPECT_EQ(cache.copies()[0].tokens, 2u);

  this->abort(cache, parent);
  EXPECT_EQ(cache.pool().state(shared.id()), page_state::live);  // until the copy has run
  cache.launched(1);
  EXPECT_TRUE(cache.copies().empty());
  EXPECT_EQ(cache.pool().state(shared.id()), page_state::fenced);
  cache.retire(1);
  EXPECT_EQ(cache.pool().state(shared.id()), page_state::free);
  this->expect_clean(cache);
}

TYPED_TEST(kv_cache, case_A_the_destination_of_a_copy_to_come_is_not_granted_again_before_it) {
  typename TestFixture::cache_type cache(this->options(8));
  const auto parent = this->admitted(cache, tokens_of(1, 6));
  const auto child = *cache.fork(parent);
  ASSERT_EQ(cache.grow(child, 1), errc::ok);
  const auto destination = cache.copies()[0].destination;
  this->abort(cache, child);
  EXPECT_EQ(cache.pool().state(destination.id()), page_state::fenced);
  EXPECT_EQ(cache.copies()[0].tokens, 0u);  // or its stale handle would have the whole list refused
  cache.launched(1);
  cache.retire(1);
  EXPECT_EQ(cache.pool().state(destination.id()), page_state::free);
}

TYPED_TEST(kv_cache, case_H_a_rolled_back_copy_on_write_is_a_copy_of_nothing) {
  typename TestFixture::cache_type cache(this->options(8));
  const auto parent = this->admitted(cache, tokens_of(1, 6));
  const auto child = *cache.fork(parent);
  ASSERT_EQ(cache.grow(child, 1), errc::ok);
  ASSERT_EQ(cache.truncate(child, 5), errc::ok);
  EXPECT_EQ(cache.copies()[0].tokens, 2u);
  ASSERT_EQ(cache.truncate(child, 4), errc::ok);
  EXPECT_EQ(cache.copies()[0].tokens, 0u);
  cache.launched(1);
  cache.retire(1);
  EXPECT_EQ(cache.pool().stats().free, 6u);
  this->expect_clean(cache);
}

TYPED_TEST(kv_cache, case_H_no_copy_reads_what_another_one_writes) {
  typename TestFixture::cache_type cache(this->options(8));
  const auto first = this->admitted(cache, tokens_of(1, 7));
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
  cache.launched(1);
  for (const auto request : {first, second, third}) EXPECT_EQ(this->abort(cache, request), 0u);
  cache.retire(1);
  EXPECT_EQ(cache.pool().stats().free, 8u);
  this->expect_clean(cache);
}

TYPED_TEST(kv_cache, case_A_pages_behind_the_window_are_given_back_once_no_launched_step_reads_them) {
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
  const auto child = *cache.fork(parent);
  ASSERT_EQ(cache.grow(child, 1), errc::ok);
  EXPECT_EQ(cache.copies(0).size(), 1u);
  EXPECT_EQ(cache.copies(1).size(), 1u);
  cache.launched(1);
  this->abort(cache, parent);
  this->abort(cache, child);
  cache.retire(1);
  EXPECT_EQ(cache.pool(0).stats().free, 8u);
  EXPECT_EQ(cache.pool(1).stats().free, 8u);
}

// --- Leaks, options, events ---

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

TEST(cache_event, a_listener_hears_of_everything_that_happens_to_pages) {
  std::vector<std::pair<cache_event_kind, std::size_t>> heard;
  const auto listener = [&heard](const auto& event) { heard.emplace_back(event.kind, event.pages.size()); };
  kvpage::kv_cache<kvpage::bf16, kvpage::tagged, decltype(listener)> cache(
      {.groups = {{.pages = 1 + 4}}, .tokens_per_page = 4, .max_requests = 4, .max_tokens_per_request = 64},
      listener);
  using enum cache_event_kind;
  const auto heard_since = [&heard] { return std::exchange(heard, {}); };
  using events = std::vector<std::pair<cache_event_kind, std::size_t>>;

  const tokens text = tokens_of(1, 8);
  const auto first = cache.admit(text_of(text)).request;
  EXPECT_EQ(heard_since(), (events{{granted, 2}}));
  ASSERT_EQ(cache.finish(first, text_of(text), 8), errc::ok);
  EXPECT_EQ(heard_since(), (events{{published, 1}, {published, 1}, {released, 2}}));
  const auto second = cache.admit(text_of(tokens_of(2, 12))).request;
  EXPECT_EQ(heard_since(), (events{{evicted, 1}, {granted, 3}}));
  ASSERT_EQ(*cache.abort(second), 0u);
  EXPECT_EQ(heard_since(), (events{{aborted, 3}}));
}

struct one_word {
  void operator()(const auto&) const noexcept {}
  std::uint64_t word = 0;
};

TEST(cache_event, no_listener_takes_no_space) {
  using silent = kvpage::kv_cache<kvpage::bf16, kvpage::untagged>;
  EXPECT_TRUE(std::is_empty_v<kvpage::ignore_events>);
  EXPECT_EQ(sizeof(silent) + sizeof(one_word),
            sizeof(kvpage::kv_cache<kvpage::bf16, kvpage::untagged, one_word>));
}

}  // namespace
