// Published prefixes: identity (case D), the lookup gap (case C), leaks (case E), eviction.
#include <gtest/gtest.h>
#include <kvpage/prefix_index.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace {

using kvpage::errc;
using kvpage::prefix_salt;
using kvpage::token_id;
using tokens = std::vector<token_id>;

// Every content hashes alike.
struct always_7 {
  template <class Symbol>
  std::uint64_t operator()(std::uint64_t, std::span<const Symbol>) const noexcept {
    return 7;
  }
};

kvpage::prompt<token_id> text_of(const tokens& text, const prefix_salt& salt = {}) { return {text, salt}; }

// A policy and a hash.
template <class Policy, class Hash>
struct setup {
  using policy = Policy;
  using hash = Hash;
};

constexpr std::size_t page_size = 4;

template <class Setup>
class prefix_index : public testing::Test {
 protected:
  using pool_type = kvpage::page_pool<kvpage::bf16, typename Setup::policy>;
  using handle = typename pool_type::handle;
  using table = kvpage::block_table<pool_type>;
  using index_type = kvpage::prefix_index<pool_type, token_id, typename Setup::hash>;

  ~prefix_index() override { expect_clean(); }

  void expect_clean() {
    EXPECT_EQ(index.audit().finding, "") << "page " << index.audit().page;
    EXPECT_EQ(pool.audit().finding, "") << "page " << pool.audit().page;
  }

  // A table that holds `text`, all of it computed and published.
  table published(const tokens& text, const prefix_salt& salt = {}) {
    table row(pool);
    EXPECT_EQ(row.append(text.size()), errc::ok);
    publish(row, text, salt);
    return row;
  }

  // Returns how many pages are new to the index.
  std::size_t publish(const table& row, const tokens& text, const prefix_salt& salt = {}) {
    const auto count = index.publish(row, text_of(text, salt), text.size(), index.epoch());
    EXPECT_EQ(count.error(), errc::ok);
    return *count;
  }

  // How many tokens of `text` are found; takes and gives them back.
  std::size_t matched(const tokens& text, const prefix_salt& salt = {}) {
    table row(pool);
    return index.match_and_retain(text_of(text, salt), row);
  }

  // Takes all free pages.
  table exhaust() {
    table row(pool);
    EXPECT_EQ(row.append(pool.stats().free * page_size), errc::ok);
    return row;
  }

  pool_type pool{{.pages = 1 + 16, .tokens_per_page = page_size}};
  index_type index{pool};
};

using setups =
    testing::Types<setup<kvpage::untagged, kvpage::prefix_hash>, setup<kvpage::tagged, kvpage::prefix_hash>,
                   setup<kvpage::untagged, always_7>, setup<kvpage::tagged, always_7>>;
TYPED_TEST_SUITE(prefix_index, setups);

TYPED_TEST(prefix_index, a_published_prefix_is_found_and_retained) {
  auto owner = this->published({1, 2, 3, 4, 5, 6, 7, 8});
  typename TestFixture::table row(this->pool);
  EXPECT_EQ(this->index.match_and_retain(text_of({1, 2, 3, 4, 5, 6, 7, 8, 9}), row), 8u);
  EXPECT_TRUE(std::ranges::equal(row.handles(), owner.handles()));
  EXPECT_EQ(this->pool.references(row.handles()[0].id()), 2u);
  EXPECT_EQ(row.append(1), errc::ok);
}

TYPED_TEST(prefix_index, at_least_one_token_is_left_to_compute) {
  auto owner = this->published({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(this->matched({1, 2, 3, 4, 5, 6, 7, 8}), 4u);
  EXPECT_EQ(this->matched({1, 2, 3, 4}), 0u);
  EXPECT_EQ(this->matched({}), 0u);
}

TYPED_TEST(prefix_index, the_match_ends_where_texts_part) {
  auto owner = this->published({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(this->matched({1, 2, 3, 4, 5, 6, 7, 9, 0}), 4u);
  EXPECT_EQ(this->matched({0, 2, 3, 4, 5, 6, 7, 8, 0}), 0u);
}

// --- Case D: identity ---

TYPED_TEST(prefix_index, case_D_equal_hashes_of_different_tokens_do_not_match) {
  auto owner = this->published({1, 2, 3, 4});
  EXPECT_EQ(this->matched({5, 6, 7, 8, 9}), 0u);
  EXPECT_EQ(this->matched({1, 2, 3, 4, 9}), 4u);
}

TYPED_TEST(prefix_index, case_D_the_same_page_below_another_prefix_does_not_match) {
  auto first = this->published({1, 1, 1, 1, 5, 5, 5, 5});
  auto second = this->published({2, 2, 2, 2});
  EXPECT_EQ(this->matched({2, 2, 2, 2, 5, 5, 5, 5, 9}), 4u);
  EXPECT_EQ(this->matched({5, 5, 5, 5, 9}), 0u);
}

TYPED_TEST(prefix_index, case_D_adapter_X_and_tenant_X_and_media_X_do_not_match_each_other) {
  const tokens text{1, 2, 3, 4}, longer{1, 2, 3, 4, 5};
  const prefix_salt salts[] = {{}, {.tenant = "X"}, {.adapter = "X"}, {.media = "X"}};
  for (const auto& with : salts) {
    auto owner = this->published(text, with);
    for (const auto& other : salts) EXPECT_EQ(this->matched(longer, other), other == with ? 4u : 0u);
    ASSERT_EQ(owner.release(), errc::ok);
    this->index.clear();
  }
}

TYPED_TEST(prefix_index, case_D_salt_fields_are_not_joined) {
  auto owner = this->published({1, 2, 3, 4}, {.tenant = "ab", .adapter = "c"});
  EXPECT_EQ(this->matched({1, 2, 3, 4, 5}, {.tenant = "a", .adapter = "bc"}), 0u);
  EXPECT_EQ(this->matched({1, 2, 3, 4, 5}, {.tenant = "abc"}), 0u);
  EXPECT_EQ(this->matched({1, 2, 3, 4, 5}, {.tenant = std::string("ab\0", 3), .adapter = "c"}), 0u);
  EXPECT_EQ(this->matched({1, 2, 3, 4, 5}, {.tenant = std::string("ab"), .adapter = "c"}), 4u);
}

TYPED_TEST(prefix_index, case_D_a_salt_is_forgotten_with_its_last_page_and_its_number_reused) {
  const tokens text{1, 2, 3, 4};
  for (int round = 0; round < 3; ++round) {
    const std::string tenant = "tenant " + std::to_string(round);
    { auto owner = this->published(text, {.tenant = tenant}); }
    EXPECT_EQ(this->matched({1, 2, 3, 4, 5}, {.tenant = tenant}), 4u);
    EXPECT_EQ(this->index.evict(16), 1u);
    EXPECT_EQ(this->matched({1, 2, 3, 4, 5}, {.tenant = tenant}), 0u);
  }
}

TYPED_TEST(prefix_index, case_D_only_computed_full_pages_are_published) {
  const tokens text{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  typename TestFixture::table row(this->pool);
  ASSERT_EQ(row.append(text.size()), errc::ok);
  EXPECT_EQ(*this->index.publish(row, text_of(text), 7, this->index.epoch()), 1u);
  EXPECT_EQ(this->matched({1, 2, 3, 4, 5, 6, 7, 8, 0}), 4u);
  EXPECT_EQ(*this->index.publish(row, text_of(text), 10, this->index.epoch()), 1u);
  EXPECT_EQ(this->index.pages(), 2u);
  EXPECT_EQ(this->index.publish(row, text_of(text), 11, this->index.epoch()).error(), errc::outside_row);
}

TYPED_TEST(prefix_index, case_D_an_epoch_ends_everything_published_before) {
  const tokens text{1, 2, 3, 4, 5, 6, 7, 8};
  const auto begun = this->index.epoch();
  auto live = this->published(text);
  { auto cached = this->published({9, 9, 9, 9}); }
  this->index.advance_epoch();
  EXPECT_EQ(this->matched({1, 2, 3, 4, 5, 6, 7, 8, 9}), 0u);
  EXPECT_EQ(this->matched({9, 9, 9, 9, 9}), 0u);
  EXPECT_EQ(this->pool.stats().cached, 0u);
  EXPECT_EQ(this->pool.stats().live, 2u);  // its owner keeps it

  // A request begun with the old weights does not publish under the new ones.
  EXPECT_EQ(this->index.publish(live, text_of(text), 8, begun).error(), errc::stale_epoch);
  ASSERT_EQ(live.release(), errc::ok);
  EXPECT_EQ(this->pool.stats().free, 16u);
}

TYPED_TEST(prefix_index, case_D_equal_content_computed_twice_is_published_once) {
  auto first = this->published({1, 2, 3, 4});
  const tokens text{1, 2, 3, 4, 5, 6, 7, 8};
  typename TestFixture::table second(this->pool);
  ASSERT_EQ(second.append(8), errc::ok);
  EXPECT_EQ(this->publish(second, text), 1u);
  typename TestFixture::table found(this->pool);
  EXPECT_EQ(this->index.match_and_retain(text_of({1, 2, 3, 4, 5, 6, 7, 8, 9}), found), 8u);
  EXPECT_EQ(found.handles()[0], first.handles()[0]);
  EXPECT_EQ(found.handles()[1], second.handles()[1]);
}

TYPED_TEST(prefix_index, case_D_a_published_page_is_never_published_as_something_else) {
  auto row = this->published({1, 2, 3, 4});
  EXPECT_EQ(this->publish(row, {5, 6, 7, 8}), 0u);
  EXPECT_EQ(this->matched({5, 6, 7, 8, 9}), 0u);
  EXPECT_EQ(this->matched({1, 2, 3, 4, 5}), 4u);
}

TYPED_TEST(prefix_index, case_D_rows_do_not_write_into_published_pages) {
  auto row = this->published({1, 2, 3, 4, 5, 6, 7, 8});
  ASSERT_EQ(row.truncate(6), errc::ok);
  EXPECT_EQ(row.append(1), errc::shared_page);
}

// What is published once need not be looked at again, but is not taken for another text either.
TYPED_TEST(prefix_index, case_D_publishing_goes_on_below_what_the_table_has_published) {
  const tokens text{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, other{1, 2, 3, 4, 0, 0, 0, 0, 9, 10, 11, 12};
  typename TestFixture::table row(this->pool);
  ASSERT_EQ(row.append(text.size()), errc::ok);
  EXPECT_EQ(*this->index.publish(row, text_of(text), 8, this->index.epoch()), 2u);
  EXPECT_EQ(*this->index.publish(row, text_of(other), 12, this->index.epoch()), 0u);
  EXPECT_EQ(*this->index.publish(row, text_of(text), 12, this->index.epoch()), 1u);
  EXPECT_EQ(*this->index.publish(row, text_of(text), 12, this->index.epoch()), 0u);
  EXPECT_EQ(this->matched({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}), 12u);
  EXPECT_EQ(this->index.audit().finding, "");
}

// --- A page is written to again ---

TYPED_TEST(prefix_index, case_D_a_page_to_be_written_again_is_withdrawn_and_its_salt_forgotten) {
  auto owner = this->published({1, 2, 3, 4}, {.tenant = "a"});
  ASSERT_TRUE(this->index.withdraw(owner.handles()[0]));
  EXPECT_FALSE(this->pool.is_published(owner.handles()[0].id()));
  EXPECT_EQ(this->matched({1, 2, 3, 4, 5}, {.tenant = "a"}), 0u);
  EXPECT_EQ(this->index.audit().finding, "");
  EXPECT_FALSE(this->index.withdraw(owner.handles()[0]));
}

TYPED_TEST(prefix_index, case_D_a_page_that_is_shared_cached_or_has_pages_below_it_is_not_withdrawn) {
  auto owner = this->published({1, 2, 3, 4, 5, 6, 7, 8});
  const std::vector pages(owner.handles().begin(), owner.handles().end());
  EXPECT_FALSE(this->index.withdraw(pages[0]));
  ASSERT_EQ(this->pool.retain({&pages[1], 1}), errc::ok);
  EXPECT_FALSE(this->index.withdraw(pages[1]));
  ASSERT_EQ(this->pool.release({&pages[1], 1}), errc::ok);
  ASSERT_EQ(owner.release(), errc::ok);
  EXPECT_FALSE(this->index.withdraw(pages[1]));
  EXPECT_EQ(this->index.evictable(), 2u);
}

// One page's own duplicate holds it below another's: what is withdrawn no longer blocks that.
TYPED_TEST(prefix_index, case_E_a_cached_page_is_evictable_once_what_is_below_it_is_withdrawn) {
  const tokens text{1, 2, 3, 4, 5, 6, 7, 8};
  auto first = this->published({1, 2, 3, 4});
  auto second = this->published(text);  // its second page hangs from the first one's
  ASSERT_EQ(first.release(), errc::ok);
  EXPECT_EQ(this->index.evictable(), 0u);
  ASSERT_TRUE(this->index.withdraw(second.handles()[1]));
  EXPECT_EQ(this->index.evictable(), 1u);
  EXPECT_EQ(this->index.audit().finding, "");
  EXPECT_EQ(this->index.evict(1), 1u);
}

// --- Case C: nothing takes a page between lookup and use ---

TYPED_TEST(prefix_index, case_C_an_evicted_page_is_not_found_and_an_old_handle_is_stale) {
  auto held = this->exhaust();
  ASSERT_EQ(held.truncate(15 * page_size), errc::ok);
  typename TestFixture::handle old;
  {
    auto cached = this->published({1, 2, 3, 4});
    old = cached.handles()[0];
  }
  EXPECT_EQ(this->pool.stats().cached, 1u);
  EXPECT_EQ(this->pool.stats().free, 0u);

  typename TestFixture::table row(this->pool);
  EXPECT_EQ(row.append(1), errc::exhausted);  // a pool does not evict by itself
  EXPECT_EQ(this->index.evict(1), 1u);
  ASSERT_EQ(row.append(1), errc::ok);
  EXPECT_EQ(row.handles()[0].id(), old.id());
  if constexpr (TypeParam::policy::is_tagged) {
    EXPECT_EQ(this->pool.retain({&old, 1}), errc::stale_handle);
    EXPECT_EQ(this->pool.references(old.id()), 1u);
  }
  EXPECT_EQ(this->matched({1, 2, 3, 4, 5}), 0u);
}

TYPED_TEST(prefix_index, case_C_matched_pages_cannot_be_evicted) {
  { auto cached = this->published({1, 2, 3, 4, 5, 6, 7, 8}); }
  EXPECT_EQ(this->index.evictable(), 2u);
  typename TestFixture::table pin(this->pool);
  ASSERT_EQ(this->index.match_and_retain(text_of({1, 2, 3, 4, 9}), pin), 4u);
  EXPECT_EQ(this->index.evictable(), 1u);
  EXPECT_EQ(this->index.evict(16), 1u);
  EXPECT_EQ(this->matched({1, 2, 3, 4, 9}), 4u);
}

TYPED_TEST(prefix_index, case_C_a_change_between_find_and_take_is_a_programming_error) {
  { auto cached = this->published({1, 2, 3, 4}); }
  const tokens text{1, 2, 3, 4, 5};
  const auto found = this->index.find(text_of(text));
  ASSERT_EQ(found.pages.size(), 1u);
  EXPECT_EQ(found.evictable, 1u);
  this->index.evict(1);
  typename TestFixture::table row(this->pool);
  EXPECT_DEATH((void)this->index.take(found, row), "");
}

TYPED_TEST(prefix_index, case_D_what_an_earlier_look_found_is_not_taken_after_a_later_one) {
  { auto mine = this->published({1, 1, 1, 1}, {.tenant = "mine"}); }
  { auto yours = this->published({2, 2, 2, 2}, {.tenant = "yours"}); }
  const tokens text{1, 1, 1, 1, 5}, other{2, 2, 2, 2, 5};
  const auto found = this->index.find(text_of(text, {.tenant = "mine"}));
  EXPECT_EQ(this->index.find(text_of(other, {.tenant = "yours"})).pages.size(), 1u);
  typename TestFixture::table row(this->pool);
  EXPECT_DEATH((void)this->index.take(found, row), "");
}

TYPED_TEST(prefix_index, case_C_a_look_changes_neither_counts_nor_order) {
  { auto older = this->published({1, 1, 1, 1}); }
  { auto newer = this->published({2, 2, 2, 2}); }
  const tokens text{1, 1, 1, 1, 5};
  EXPECT_EQ(this->index.find(text_of(text)).pages.size(), 1u);
  EXPECT_EQ(this->pool.stats().cached, 2u);
  EXPECT_EQ(this->index.evict(1), 1u);
  EXPECT_EQ(this->matched({1, 1, 1, 1, 5}), 0u);
  EXPECT_EQ(this->matched({2, 2, 2, 2, 5}), 4u);
}

// --- Case A: fences ---

TYPED_TEST(prefix_index, case_A_a_fenced_page_is_found_again_once_its_step_has_retired) {
  auto row = this->published({1, 2, 3, 4});
  ASSERT_EQ(row.release(7), errc::ok);
  EXPECT_EQ(this->matched({1, 2, 3, 4, 5}), 0u);
  EXPECT_EQ(this->index.evict(1), 0u);
  this->pool.retire(7);
  EXPECT_EQ(this->matched({1, 2, 3, 4, 5}), 4u);
}

TYPED_TEST(prefix_index, case_A_clearing_while_a_page_is_fenced_frees_it_at_the_fence) {
  auto row = this->published({1, 2, 3, 4});
  ASSERT_EQ(row.release(7), errc::ok);
  this->index.clear();
  EXPECT_EQ(this->pool.stats().fenced, 1u);
  this->pool.retire(7);
  EXPECT_EQ(this->pool.stats().free, 16u);
}

// --- Case E: leaks ---

TYPED_TEST(prefix_index, case_E_rounds_of_publishing_leak_nothing) {
  for (token_id round = 0; round < 3; ++round) {
    this->index.evict(4 - std::min<std::size_t>(4, this->pool.stats().free));
    tokens text;
    for (token_id i = 0; i < 16; ++i) text.push_back(100 * round + i);
    { auto row = this->published(text); }
    EXPECT_EQ(this->pool.stats().live, 0u);
    EXPECT_EQ(this->pool.stats().free + this->pool.stats().cached, 16u);
    this->expect_clean();
  }
  this->index.clear();
  EXPECT_EQ(this->pool.stats().free, 16u);
}

// --- Eviction ---

TYPED_TEST(prefix_index, eviction_takes_the_least_recently_released_first) {
  { auto a = this->published({1, 1, 1, 1}); }
  { auto b = this->published({2, 2, 2, 2}); }
  { auto c = this->published({3, 3, 3, 3}); }
  EXPECT_EQ(this->matched({1, 1, 1, 1, 0}), 4u);  // and released: now the newest
  EXPECT_EQ(this->index.evict(1), 1u);
  EXPECT_EQ(this->matched({2, 2, 2, 2, 0}), 0u);
  EXPECT_EQ(this->matched({3, 3, 3, 3, 0}), 4u);
  EXPECT_EQ(this->matched({1, 1, 1, 1, 0}), 4u);
}

TYPED_TEST(prefix_index, eviction_takes_leaves_first) {
  { auto row = this->published({1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}); }
  for (std::size_t left = 3; left-- > 0;) {
    EXPECT_EQ(this->index.evict(1), 1u);
    EXPECT_EQ(this->index.pages(), left);
    EXPECT_EQ(this->index.audit().finding, "");
    EXPECT_EQ(this->matched({1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4}), left * 4);
  }
}

TYPED_TEST(prefix_index, eviction_takes_branches_before_their_trunk) {
  auto b = this->published({1, 1, 1, 1, 3, 3, 3, 3});
  {
    typename TestFixture::table a(this->pool);
    ASSERT_EQ(this->index.match_and_retain(text_of({1, 1, 1, 1, 2, 2, 2, 2}), a), 4u);
    ASSERT_EQ(a.append(4), errc::ok);
    this->publish(a, {1, 1, 1, 1, 2, 2, 2, 2});
  }
  ASSERT_EQ(b.release(), errc::ok);
  EXPECT_EQ(this->index.evict(1), 1u);
  EXPECT_EQ(this->matched({1, 1, 1, 1, 2, 2, 2, 2, 0}), 4u);
  EXPECT_EQ(this->matched({1, 1, 1, 1, 3, 3, 3, 3, 0}), 8u);
  EXPECT_EQ(this->index.evict(1), 1u);
  EXPECT_EQ(this->matched({1, 1, 1, 1, 3, 3, 3, 3, 0}), 4u);
  EXPECT_EQ(this->index.evict(5), 1u);
  EXPECT_EQ(this->pool.stats().free, 16u);
}

// The parent of a live page can be cached: when its content was computed twice.
TYPED_TEST(prefix_index, a_cached_page_above_a_live_one_is_not_evicted) {
  auto first = this->published({1, 1, 1, 1});
  auto second = this->published({1, 1, 1, 1, 2, 2, 2, 2});
  ASSERT_EQ(first.release(), errc::ok);
  EXPECT_EQ(this->pool.stats().cached, 1u);
  EXPECT_EQ(this->index.evictable(), 0u);
  EXPECT_EQ(this->index.evict(1), 0u);
  this->expect_clean();
  ASSERT_EQ(second.release(), errc::ok);
  EXPECT_EQ(this->index.evictable(), 2u);
  EXPECT_EQ(this->index.evict(2), 2u);
  EXPECT_EQ(this->pool.stats().free, 16u);
}

TYPED_TEST(prefix_index, evict_names_what_it_took) {
  std::vector<typename TestFixture::handle> released, evicted;
  {
    auto row = this->published({1, 1, 1, 1, 2, 2, 2, 2});
    released.assign(row.handles().begin(), row.handles().end());
  }
  this->index.evict(2, [&](auto page) { evicted.push_back(page); });
  EXPECT_EQ(evicted, (std::vector{released[1], released[0]}));
}

TYPED_TEST(prefix_index, clear_forgets_everything_and_leaves_references_alone) {
  auto live = this->published({1, 1, 1, 1});
  { auto cached = this->published({2, 2, 2, 2}); }
  this->index.clear();
  EXPECT_EQ(this->index.pages(), 0u);
  EXPECT_EQ(this->pool.stats().live, 1u);
  EXPECT_EQ(this->pool.stats().free, 15u);
  EXPECT_EQ(this->publish(live, {1, 1, 1, 1}), 1u);  // the same epoch: publishable again
}

TYPED_TEST(prefix_index, pages_that_a_window_left_behind_are_not_published) {
  typename TestFixture::table row(this->pool);
  ASSERT_EQ(row.append(12), errc::ok);
  ASSERT_EQ(row.drop_front(1), errc::ok);
  EXPECT_EQ(this->publish(row, {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}), 0u);
  EXPECT_EQ(this->matched({2, 2, 2, 2, 3}), 0u);
}

// --- Keys instead of tokens ---

TYPED_TEST(prefix_index, page_keys_stand_for_pages) {
  using key = kvpage::page_key;
  typename TestFixture::pool_type keyed({.pages = 1 + 16, .tokens_per_page = page_size});
  kvpage::prefix_index<typename TestFixture::pool_type, key, typename TypeParam::hash> by_key(keyed);
  const std::vector<key> keys{{0, 1}, {0, 2}, {9, 2}};
  {
    typename TestFixture::table row(keyed);
    ASSERT_EQ(row.append(14), errc::ok);
    EXPECT_EQ(*by_key.publish(row, {keys, 14}, 14, by_key.epoch()), 3u);
  }
  const auto matched = [&](const std::vector<key>& wanted, std::size_t count) {
    typename TestFixture::table row(keyed);
    return by_key.match_and_retain({wanted, count}, row);
  };
  EXPECT_EQ(matched(keys, 14), 12u);
  EXPECT_EQ(matched(keys, 12), 8u);  // one token is left to compute
  EXPECT_EQ(matched({{0, 1}, {9, 2}}, 14), 4u);
  EXPECT_EQ(matched({{1, 1}}, 14), 0u);
  EXPECT_EQ(matched({}, 14), 0u);
}

TEST(prefix_hash, depends_on_every_token_and_on_what_came_before) {
  const kvpage::prefix_hash hash;
  const tokens text{1, 2, 3, 4, 5, 6, 7};
  const auto of = [&](std::uint64_t parent, const tokens& page) {
    return hash(parent, std::span<const token_id>(page));
  };
  const auto reference = of(0, text);
  EXPECT_NE(of(1, text), reference);
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto other = text;
    ++other[i];
    EXPECT_NE(of(0, other), reference) << i;
  }
  EXPECT_NE(of(0, {1, 2, 3, 4, 5, 6}), reference);
  EXPECT_NE(of(0, {1, 2, 3, 4, 5, 6, 7, 0}), reference);
  EXPECT_NE(kvpage::prefix_hash{1}(0, std::span<const token_id>(text)), reference);
}

}  // namespace
