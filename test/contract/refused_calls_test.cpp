// A call that a pool refuses has changed nothing: not a reference, a tag or a counter, nor the order in
// which pages will be cached, settled or granted.
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "../support/configurations.hpp"
#include "../support/probed_pool.hpp"
#include "kvpage/page_pool.hpp"

namespace {

using kvpage::errc;
using kvpage::page_id;
using kvpage::page_state;
using kvpage_test::probed_pool;

// Pages in every state, and what may and may not be done with them.
template <class Pool>
struct scene {
  using handle = typename Pool::handle;
  static constexpr std::size_t usable_pages = 14;

  struct refused_page {
    std::string what;
    handle page;
    errc expected;
  };

  std::vector<handle> good;  // may be given up as they stand, in this order, to the last reference
  std::vector<refused_page> refused;

  // All live pages are in their first generation or all in their second: with 2-bit tags, their last.
  scene(probed_pool<Pool>& pool, bool second_generation) {
    auto now = pool.grant(usable_pages);
    const auto first = now;
    if (second_generation) {
      EXPECT_EQ(pool->release(first), errc::ok);
      now = pool.grant(usable_pages);
    }
    EXPECT_EQ(pool->retain(std::vector{now[1], now[3], now[12], now[13]}), errc::ok);
    for (const std::size_t published : {2U, 3U, 8U, 11U, 13U})
      EXPECT_EQ(pool->publish(now[published]), errc::ok);
    EXPECT_EQ(pool->release_after(std::vector{now[12], now[13]}, 3), errc::ok);
    pool->retire(3);  // over, but the two pages still carry the note that a step was waited for
    good = {now[0], now[1], now[1], now[2], now[3], now[3], now[4], now[12], now[13]};
    const handle live = now[5];
    const handle free = now[7];
    const handle cached = now[8];
    const handle fenced = now[9];
    const handle fenced_and_published = now[11];
    EXPECT_EQ(pool->release(std::vector{free, cached}), errc::ok);
    EXPECT_EQ(pool->release_after(std::vector{fenced, now[10], fenced_and_published}, 5), errc::ok);

    refused = {{"null", handle{}, errc::null_handle},
               {"free", free, errc::double_release},
               {"cached", cached, errc::double_release},
               {"fenced", fenced, errc::double_release},
               {"fenced and published", fenced_and_published, errc::double_release}};
    for (const page_id id : {15U, 16U, 0x7fff'ffffU, 0x8000'0000U, 0xffff'ffffU})
      refused.push_back({"outside: " + std::to_string(id), with_tag(id, 1), errc::outside_pool});
    if constexpr (Pool::policy::is_tagged) {
      refused.push_back({"null with a live tag", handle{0, 1}, errc::null_handle});
      refused.push_back(
          {"free, its even tag", handle{free.id(), pool->tag(free.id())}, errc::double_release});
      refused.push_back(
          {"fenced, its even tag", handle{fenced.id(), pool->tag(fenced.id())}, errc::double_release});
      refused.push_back({"live, one tag on", handle{live.id(), live.tag() + 1}, errc::stale_handle});
      refused.push_back({"live, two tags on", handle{live.id(), live.tag() + 2}, errc::stale_handle});
      refused.push_back({"live, one tag back", handle{live.id(), live.tag() - 1}, errc::double_release});
      for (const handle& page : first) {
        if (page.id() == live.id() && page != live) refused.push_back({"stale", page, errc::stale_handle});
      }
    }
  }

 private:
  static handle with_tag(page_id id, [[maybe_unused]] kvpage::page_tag tag) {
    if constexpr (Pool::policy::is_tagged) {
      return {id, tag};
    } else {
      return handle{id};
    }
  }
};

template <class Pool>
using span_call = std::function<errc(Pool&, std::span<const typename Pool::handle>)>;

// Good pages around one bad page, at every position, for every bad page.
template <class Pool>
void expect_refused(kvpage::reuse_order reuse, const span_call<Pool>& call, bool gives_up) {
  for (const bool second_generation : {false, true}) {
    const auto try_with = [&](const std::string& what, errc expected, const auto& pages) {
      SCOPED_TRACE(what + (second_generation ? ", second generation" : ""));
      kvpage_test::expect_nothing_changed<Pool>(
          scene<Pool>::usable_pages, reuse, expected,
          [&](auto& pool) {
            (void)scene<Pool>{pool, second_generation};
          },
          [&](auto& pool) { return call(*pool, pages); });
    };
    probed_pool<Pool> rehearsal{scene<Pool>::usable_pages, reuse};
    const scene<Pool> all{rehearsal, second_generation};  // handles are the same in every equal pool
    for (const auto& bad : all.refused) {
      for (std::size_t position = 0; position <= all.good.size(); ++position) {
        auto pages = all.good;
        pages.insert(pages.begin() + static_cast<std::ptrdiff_t>(position), bad.page);
        try_with(bad.what + " at position " + std::to_string(position), bad.expected, pages);
      }
    }
    if (!gives_up) continue;
    for (const auto& page : all.good) {
      auto pages = all.good;
      pages.push_back(page);
      try_with("page " + std::to_string(page.id()) + " once too often", errc::double_release, pages);
    }
  }
}

template <class Pool>
void expect_single_page_calls_refused(kvpage::reuse_order reuse) {
  probed_pool<Pool> rehearsal{scene<Pool>::usable_pages, reuse};
  const scene<Pool> all{rehearsal, true};
  for (const auto& bad : all.refused) {
    SCOPED_TRACE(bad.what);
    const auto expect_refused = [&](errc (Pool::*call)(typename Pool::handle) noexcept) {
      kvpage_test::expect_nothing_changed<Pool>(
          scene<Pool>::usable_pages, reuse, bad.expected,
          [](auto& pool) {
            (void)scene<Pool>{pool, true};
          },
          [&](auto& pool) { return ((*pool).*call)(bad.page); });
    };
    expect_refused(&Pool::publish);
    if (bad.what != "cached") expect_refused(&Pool::revive);
    if (rehearsal->check(bad.page) != errc::ok) expect_refused(&Pool::withdraw);
  }
}

template <class Configuration>
struct refused_calls : ::testing::Test {};

TYPED_TEST_SUITE(refused_calls, kvpage_test::every_configuration, kvpage_test::configuration_names);

TYPED_TEST(refused_calls, case_B_release) {
  using pool = typename TypeParam::pool;
  expect_refused<pool>(TypeParam::reuse, &pool::release, true);
}

TYPED_TEST(refused_calls, case_B_release_after) {
  using pool = typename TypeParam::pool;
  for (const kvpage::step_number step : {0U, 3U, 5U, 9U})
    expect_refused<pool>(
        TypeParam::reuse, [step](auto& p, auto pages) { return p.release_after(pages, step); }, true);
}

TYPED_TEST(refused_calls, case_B_retain) {
  using pool = typename TypeParam::pool;
  expect_refused<pool>(TypeParam::reuse, &pool::retain, false);
}

TYPED_TEST(refused_calls, case_B_publish_revive_withdraw) {
  expect_single_page_calls_refused<typename TypeParam::pool>(TypeParam::reuse);
}

TYPED_TEST(refused_calls, case_K_allocate) {
  using pool = typename TypeParam::pool;
  for (const std::size_t wanted : {3U, 5U, 6U, 100U}) {
    SCOPED_TRACE(wanted);
    kvpage_test::expect_nothing_changed<pool>(
        5, TypeParam::reuse, wanted <= 5 ? errc::exhausted : errc::never_fits,
        [](auto& p) { (void)p.grant(3); },
        [&](auto& p) {
          std::vector<typename pool::handle> pages(wanted);
          return p->allocate(pages);
        });
  }
}

// The scene itself: every state at once, and the accounts add up.
TYPED_TEST(refused_calls, case_E_the_accounts_add_up_with_pages_in_every_state) {
  using pool_type = typename TypeParam::pool;
  for (const bool second_generation : {false, true}) {
    probed_pool<pool_type> pool{scene<pool_type>::usable_pages, TypeParam::reuse};
    const scene<pool_type> all{pool, second_generation};
    const kvpage::pool_stats stats = pool->stats();
    EXPECT_EQ(stats.live, 9U);
    EXPECT_EQ(stats.cached, 1U);
    EXPECT_EQ(stats.fenced, 3U);
    EXPECT_EQ(stats.free + stats.retired, 1U);
    EXPECT_TRUE(pool->audit().clean()) << pool->audit().finding;
    EXPECT_EQ(pool->audit().cannot_know.empty(), pool_type::policy::is_tagged);
  }
}

}  // namespace
