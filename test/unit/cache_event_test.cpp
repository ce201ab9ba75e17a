// What a listener hears: of everything that happens to pages, and of nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "kv_cache_fixture.hpp"

namespace {

using kvpage::cache_event_kind;
using kvpage::errc;

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

// The pages that each kind of event has named, in the order of their ids.
class heard_pages {
 public:
  void operator()(const auto& event) {
    auto& pages = (*heard_)[event.kind];
    for (const auto& page : event.pages) pages.push_back(page.id());
    std::ranges::sort(pages);
  }
  [[nodiscard]] std::vector<kvpage::page_id> since(cache_event_kind kind) const {
    return std::exchange((*heard_)[kind], {});
  }

 private:
  using pages_by_kind = std::map<cache_event_kind, std::vector<kvpage::page_id>>;
  std::shared_ptr<pages_by_kind> heard_ = std::make_shared<pages_by_kind>();  // the cache has a copy
};

struct cache_event_pages : testing::Test {
  using cache_type = kvpage::kv_cache<kvpage::bf16, kvpage::tagged, heard_pages>;
  using ids = std::vector<kvpage::page_id>;

  kvpage::kv_cache_options options(std::size_t window = 0) {
    return {.groups = {{.pages = 1 + 6, .window = window}}, .tokens_per_page = page_size, .max_requests = 4};
  }

  heard_pages heard;
};

TEST_F(cache_event_pages, case_N_pages_that_were_no_longer_the_requests_own_are_not_given_back) {
  cache_type cache(options(), heard);
  const auto request = cache.admit(text_of(tokens_of(1, 12))).request;
  ASSERT_EQ(cache.pool().release(cache.table(request)->handles().subspan(1, 1)), errc::ok);
  ASSERT_EQ(*cache.abort(request), 1u);
  EXPECT_EQ(heard.since(cache_event_kind::aborted), (ids{1, 3}));
}

TEST_F(cache_event_pages, case_N_nor_those_lost_while_a_finished_request_waits_for_its_step) {
  cache_type cache(options(), heard);
  const auto request = cache.admit(text_of(tokens_of(1, 12))).request;
  const auto last = cache.table(request)->handles()[2];
  cache.launched(1);
  ASSERT_EQ(cache.finish(request), errc::ok);
  ASSERT_EQ(cache.pool().release({&last, 1}), errc::ok);
  cache.retire(1);
  EXPECT_EQ(heard.since(cache_event_kind::released), (ids{1, 2}));
}

TEST_F(cache_event_pages, a_request_that_shrinks_or_slides_gives_back_pages_too) {
  cache_type cache(options(4), heard);
  const auto request = cache.admit(text_of(tokens_of(1, 16))).request;
  ASSERT_EQ(cache.truncate(request, 12), errc::ok);
  EXPECT_EQ(heard.since(cache_event_kind::released), (ids{4}));
  ASSERT_EQ(cache.slide(request, 7), errc::ok);
  EXPECT_EQ(heard.since(cache_event_kind::released), (ids{1}));
  ASSERT_EQ(cache.finish(request), errc::ok);
  EXPECT_EQ(heard.since(cache_event_kind::released), (ids{2, 3}));
}

TEST_F(cache_event_pages, a_copy_on_write_gives_back_the_page_that_was_shared) {
  cache_type cache(options(), heard);
  const auto parent = cache.admit(text_of(tokens_of(1, 6))).request;
  cache.launched(1);
  const auto child = *cache.fork(parent);
  EXPECT_EQ(heard.since(cache_event_kind::granted), (ids{1, 2}));
  ASSERT_EQ(cache.grow(child, 3), errc::ok);
  EXPECT_EQ(heard.since(cache_event_kind::released), (ids{2}));
  EXPECT_EQ(heard.since(cache_event_kind::granted), (ids{3, 4}));
  ASSERT_EQ(cache.finish(child), errc::ok);  // the copy is not needed any more, nor what follows it
  EXPECT_EQ(heard.since(cache_event_kind::released), (ids{3, 4}));
  cache.retire(1);
  EXPECT_EQ(heard.since(cache_event_kind::released), (ids{1}));
}

TEST_F(cache_event_pages, a_page_that_is_written_again_is_no_longer_published) {
  cache_type cache(options(), heard);
  const tokens text = tokens_of(1, 8);
  const auto request = cache.admit(text_of(text)).request;
  ASSERT_EQ(*cache.publish(request, text_of(text), 8), 2u);
  ASSERT_EQ(cache.truncate(request, 7), errc::ok);
  ASSERT_EQ(cache.grow(request, 1), errc::ok);
  EXPECT_EQ(heard.since(cache_event_kind::withdrawn), (ids{2}));
  EXPECT_EQ(heard.since(cache_event_kind::evicted), ids{});
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
