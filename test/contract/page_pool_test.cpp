// What every pool owes, whatever its element type, policy and reuse order.
#include "kvpage/page_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <span>
#include <vector>

#include "../support/configurations.hpp"
#include "../support/probed_pool.hpp"

namespace {

using kvpage::errc;
using kvpage::page_id;
using kvpage::page_state;
using kvpage::pool_stats;
using kvpage_test::probed_pool;

template <class Configuration>
struct page_pool_contract : ::testing::Test {
  using pool_type = typename Configuration::pool;
  using policy = typename Configuration::policy;
  using handle = typename pool_type::handle;
  static constexpr bool is_tagged = policy::is_tagged;

  [[nodiscard]] static probed_pool<pool_type> make_pool(std::size_t usable_pages) {
    return probed_pool<pool_type>{usable_pages, Configuration::reuse};
  }
};

TYPED_TEST_SUITE(page_pool_contract, kvpage_test::every_configuration, kvpage_test::configuration_names);

// --- Grants ---

TYPED_TEST(page_pool_contract, case_B_grants_are_distinct_pages_of_the_pool) {
  auto pool = this->make_pool(8);
  std::set<page_id> granted;
  for (const auto page : pool.grant(8)) {
    EXPECT_GE(page.id(), 1U);
    EXPECT_LE(page.id(), 8U);
    EXPECT_TRUE(granted.insert(page.id()).second) << "page " << page.id() << " twice";
    EXPECT_EQ(pool->references(page.id()), 1U);
    EXPECT_EQ(pool->check(page), errc::ok);
  }
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 8, .live = 8}));
}

TYPED_TEST(page_pool_contract, case_K_a_grant_is_all_or_nothing) {
  auto pool = this->make_pool(7);
  const auto a = pool.grant(5);
  std::vector<typename TestFixture::handle> b(4);
  const auto untouched = b;
  EXPECT_EQ(pool->allocate(b), errc::exhausted);
  EXPECT_EQ(b, untouched);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 7, .free = 2, .live = 5}));
  EXPECT_EQ(pool->release(a), errc::ok);
  EXPECT_EQ(pool->allocate(b), errc::ok);
}

TYPED_TEST(page_pool_contract, case_K_exhausted_is_not_never_fits) {
  auto pool = this->make_pool(7);
  std::vector<typename TestFixture::handle> pages(8);
  EXPECT_EQ(pool->allocate(pages), errc::never_fits);
  const auto all = pool.grant(7);
  EXPECT_EQ(pool->allocate(pages), errc::never_fits);
  EXPECT_EQ(pool->allocate(std::span{pages}.first(7)), errc::exhausted);
  EXPECT_EQ(pool->allocate(std::span{pages}.first(1)), errc::exhausted);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 7, .live = 7}));
}

TYPED_TEST(page_pool_contract, empty_spans_do_nothing) {
  auto pool = this->make_pool(2);
  const auto all = pool.grant(2);
  const kvpage_test::pool_snapshot before{pool};
  EXPECT_EQ(pool->allocate({}), errc::ok);
  EXPECT_EQ(pool->retain({}), errc::ok);
  EXPECT_EQ(pool->release({}), errc::ok);
  EXPECT_EQ(pool->release_after({}, 7), errc::ok);
  EXPECT_EQ(kvpage_test::pool_snapshot{pool}, before);
}

TYPED_TEST(page_pool_contract, reuse_is_last_in_first_out_or_first_in_first_out) {
  auto pool = this->make_pool(4);
  const auto all = pool.grant(4);
  for (const std::size_t freed : {2U, 0U, 3U, 1U}) EXPECT_EQ(pool->release({&all[freed], 1}), errc::ok);
  std::vector<page_id> order;
  for (const auto page : pool.grant(4)) order.push_back(page.id());
  if (TypeParam::reuse == kvpage::reuse_order::lifo) {
    EXPECT_EQ(order, (std::vector{all[1].id(), all[3].id(), all[0].id(), all[2].id()}));
  } else {
    EXPECT_EQ(order, (std::vector{all[2].id(), all[0].id(), all[3].id(), all[1].id()}));
  }
}

// --- References ---

TYPED_TEST(page_pool_contract, a_page_is_given_up_with_its_last_reference) {
  auto pool = this->make_pool(2);
  const auto page = pool.grant(1)[0];
  const std::vector thrice(3, page);
  EXPECT_EQ(pool->retain(thrice), errc::ok);
  EXPECT_EQ(pool->references(page.id()), 4U);
  EXPECT_EQ(pool->release(thrice), errc::ok);
  EXPECT_EQ(pool->references(page.id()), 1U);
  EXPECT_EQ(pool->check(page), errc::ok);
  EXPECT_EQ(pool->release({&page, 1}), errc::ok);
  EXPECT_EQ(pool->references(page.id()), 0U);
  EXPECT_EQ(pool->check(page), errc::double_release);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 2, .free = 2}));
}

TYPED_TEST(page_pool_contract, case_A_a_transfer_holds_the_pages_of_an_aborted_request) {
  auto pool = this->make_pool(6);
  const auto a = pool.grant(4);
  EXPECT_EQ(pool->retain(a), errc::ok);   // the transfer
  EXPECT_EQ(pool->release(a), errc::ok);  // the abort
  EXPECT_EQ(pool->stats().free, 2U);
  std::vector<typename TestFixture::handle> b(4);
  EXPECT_EQ(pool->allocate(b), errc::exhausted);
  EXPECT_EQ(pool->release(a), errc::ok);
  EXPECT_EQ(pool->stats().free, 6U);
  EXPECT_EQ(pool->release(a), errc::double_release);  // the transfer ends again
  EXPECT_EQ(pool->allocate(b), errc::ok);
  if constexpr (TestFixture::is_tagged) {
    for (const auto page : a) EXPECT_NE(pool->check(page), errc::ok);
    const kvpage_test::pool_snapshot before{pool};
    EXPECT_NE(pool->release(a), errc::ok);
    EXPECT_EQ(kvpage_test::pool_snapshot{pool}, before);
  }
}

TYPED_TEST(page_pool_contract, case_B_the_same_page_more_often_than_it_is_referenced) {
  auto pool = this->make_pool(4);
  const auto page = pool.grant(1)[0];
  EXPECT_EQ(pool->release(std::vector(2, page)), errc::double_release);
  EXPECT_EQ(pool->stats().free, 3U);
  EXPECT_EQ(pool->retain({&page, 1}), errc::ok);
  EXPECT_EQ(pool->release(std::vector(3, page)), errc::double_release);
  EXPECT_EQ(pool->references(page.id()), 2U);
  EXPECT_EQ(pool->release(std::vector(100, page)), errc::double_release);  // longer than the pool
  EXPECT_EQ(pool->references(page.id()), 2U);
  EXPECT_EQ(pool->release(std::vector(2, page)), errc::ok);
  EXPECT_EQ(pool->stats().free, 4U);
  std::set<page_id> distinct;
  for (const auto granted : pool.grant(4)) distinct.insert(granted.id());
  EXPECT_EQ(distinct.size(), 4U);
  std::vector<typename TestFixture::handle> fifth(1);
  EXPECT_EQ(pool->allocate(fifth), errc::exhausted);
}

TYPED_TEST(page_pool_contract, retain_stops_at_the_most_references_a_page_can_have) {
  constexpr auto most = kvpage::detail::page_use::max_references;
  auto pool = this->make_pool(3);
  const auto pages = pool.grant(2);
  auto& use = pool.records()[pages[1].id()].use;
  use = use.referenced(most - 1);  // as after most - 2 calls of retain
  EXPECT_EQ(pool->retain(pages), errc::ok);
  EXPECT_EQ(pool->references(pages[1].id()), most);
  const kvpage_test::pool_snapshot before{pool};
  EXPECT_EQ(pool->retain(pages), errc::reference_overflow);
  EXPECT_EQ(pool->retain(std::vector{pages[0], pages[0], pages[1]}), errc::reference_overflow);
  EXPECT_EQ(kvpage_test::pool_snapshot{pool}, before);
  EXPECT_EQ(pool->state(pages[1].id()), page_state::live);
  EXPECT_EQ(pool->release(pages), errc::ok);
  EXPECT_EQ(pool->references(pages[1].id()), most - 1);
}

// --- Fences ---

TYPED_TEST(page_pool_contract, case_A_a_fenced_page_waits_for_its_step) {
  auto pool = this->make_pool(3);
  const auto pages = pool.grant(2);
  EXPECT_EQ(pool->release_after(pages, 5), errc::ok);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 3, .free = 1, .fenced = 2}));
  for (const auto page : pages) EXPECT_EQ(pool->check(page), errc::double_release);
  std::vector<typename TestFixture::handle> two(2);
  EXPECT_EQ(pool->allocate(two), errc::exhausted);
  pool->retire(4);
  EXPECT_EQ(pool->stats().fenced, 2U);
  pool->retire(5);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 3, .free = 3}));
  EXPECT_TRUE(pool->audit().clean());
}

TYPED_TEST(page_pool_contract, case_A_a_fence_in_the_past_is_none) {
  auto pool = this->make_pool(4);
  const auto pages = pool.grant(4);
  pool->retire(7);
  EXPECT_EQ(pool->release_after(std::span{pages}.first(1), 7), errc::ok);
  EXPECT_EQ(pool->release_after(std::span{pages}.subspan(1, 1), 0), errc::ok);
  pool->retire(3);  // going backwards is ignored
  EXPECT_EQ(pool->release_after(std::span{pages}.subspan(2, 1), 5), errc::ok);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 4, .free = 3, .live = 1}));
  EXPECT_EQ(pool->release_after(std::span{pages}.subspan(3, 1), 8), errc::ok);
  pool->retire(7);
  pool->retire(0);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 4, .free = 3, .fenced = 1}));
  pool->retire(~kvpage::step_number{0});
  EXPECT_EQ(pool->stats().free, 4U);
}

TYPED_TEST(page_pool_contract, case_A_more_fences_than_there_is_room_for_wait_longer_never_shorter) {
  constexpr std::size_t steps = 2 * kvpage::detail::fence_list::max_fences + 3;
  for (const std::size_t stride : {std::size_t{1}, steps - 1, std::size_t{29}}) {  // up, down, all over
    auto pool = this->make_pool(2 * steps);
    std::vector<kvpage::step_number> fence(2 * steps + 1);
    for (std::size_t i = 0; i < 2 * steps; ++i) {
      const auto page = pool.grant(1)[0];
      fence[page.id()] = i * stride % steps + 1;
      EXPECT_EQ(pool->release_after({&page, 1}, fence[page.id()]), errc::ok);
      ASSERT_TRUE(pool->audit().clean()) << pool->audit().finding;
    }
    EXPECT_EQ(pool->stats().fenced, 2 * steps);
    for (kvpage::step_number step = 1; step <= steps; ++step) {
      pool->retire(step);
      for (page_id page = 1; page <= 2 * steps; ++page) {
        if (fence[page] <= step) continue;
        ASSERT_EQ(pool->state(page), page_state::fenced) << "page " << page << " at step " << step;
      }
      ASSERT_TRUE(pool->audit().clean()) << pool->audit().finding;
    }
    EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 2 * steps, .free = 2 * steps}));
  }
}

TYPED_TEST(page_pool_contract, case_A_whoever_lets_go_last_the_latest_fence_holds) {
  auto pool = this->make_pool(4);
  const auto pages = pool.grant(3);
  EXPECT_EQ(pool->retain(pages), errc::ok);
  EXPECT_EQ(pool->release_after(pages, 5), errc::ok);  // a step that reads them is in flight
  EXPECT_EQ(pool->stats().live, 3U);
  EXPECT_EQ(pool->release(std::span{pages}.first(1)), errc::ok);  // the other holder was not part of it
  EXPECT_EQ(pool->release_after(std::span{pages}.subspan(1, 1), 3), errc::ok);
  EXPECT_EQ(pool->release_after(std::span{pages}.subspan(2, 1), 8), errc::ok);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 4, .free = 1, .fenced = 3}));
  pool->retire(4);
  EXPECT_EQ(pool->stats().fenced, 3U);
  pool->retire(5);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 4, .free = 3, .fenced = 1}));
  pool->retire(8);
  EXPECT_EQ(pool->stats().free, 4U);
  EXPECT_TRUE(pool->audit().clean());
}

TYPED_TEST(page_pool_contract, case_A_a_fence_that_has_retired_holds_nothing_back) {
  auto pool = this->make_pool(2);
  const auto page = pool.grant(1)[0];
  EXPECT_EQ(pool->retain({&page, 1}), errc::ok);
  EXPECT_EQ(pool->release_after({&page, 1}, 5), errc::ok);
  pool->retire(5);
  EXPECT_EQ(pool->release({&page, 1}), errc::ok);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 2, .free = 2}));
}

TYPED_TEST(page_pool_contract, case_A_a_published_page_is_cached_only_after_the_latest_fence) {
  auto pool = this->make_pool(2);
  const auto page = pool.grant_published();
  EXPECT_EQ(pool->retain({&page, 1}), errc::ok);
  EXPECT_EQ(pool->release_after({&page, 1}, 5), errc::ok);
  EXPECT_EQ(pool->release({&page, 1}), errc::ok);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 2, .free = 1, .fenced = 1}));
  EXPECT_EQ(pool->check(page), errc::ok);
  pool->retire(5);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 2, .free = 1, .cached = 1}));
  EXPECT_TRUE(pool->audit().clean());
}

// --- Published pages ---

TYPED_TEST(page_pool_contract, a_published_page_is_cached_with_its_last_reference_and_can_be_revived) {
  auto pool = this->make_pool(2);
  const auto page = pool.grant_published();
  EXPECT_EQ(pool->retain({&page, 1}), errc::ok);
  EXPECT_EQ(pool->release({&page, 1}), errc::ok);
  EXPECT_EQ(pool->state(page.id()), page_state::live);
  EXPECT_EQ(pool->release({&page, 1}), errc::ok);
  EXPECT_EQ(pool->state(page.id()), page_state::cached);
  EXPECT_EQ(pool->check(page), errc::ok);
  EXPECT_EQ(pool->retain({&page, 1}), errc::double_release);
  EXPECT_EQ(pool->release({&page, 1}), errc::double_release);
  EXPECT_EQ(pool->release_after({&page, 1}, 9), errc::double_release);
  EXPECT_EQ(pool->publish(page), errc::double_release);

  std::vector<page_id> drained;
  pool->drain_newly_cached([&](page_id id) { drained.push_back(id); });
  EXPECT_EQ(drained, std::vector{page.id()});
  EXPECT_EQ(pool->revive(page), errc::ok);
  EXPECT_EQ(pool->revive(page), errc::double_release);
  EXPECT_EQ(pool->references(page.id()), 1U);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 2, .free = 1, .live = 1}));
  EXPECT_EQ(pool->withdraw(page), errc::ok);
  EXPECT_EQ(pool->release({&page, 1}), errc::ok);
  EXPECT_EQ(pool->state(page.id()), page_state::free);
  EXPECT_TRUE(pool->audit().clean());
}

TYPED_TEST(page_pool_contract, case_C_an_evicted_page_answers_no_old_handle) {
  auto pool = this->make_pool(3);
  const auto held = pool.grant(2);
  const auto page = pool.grant_published();
  EXPECT_EQ(pool->release({&page, 1}), errc::ok);
  std::vector<typename TestFixture::handle> b(1);
  EXPECT_EQ(pool->allocate(b), errc::exhausted);
  pool->drain_newly_cached([](page_id) {});
  EXPECT_EQ(pool->withdraw(page), errc::ok);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 3, .free = 1, .live = 2}));
  EXPECT_EQ(pool->check(page), errc::double_release);
  EXPECT_EQ(pool->allocate(b), errc::ok);
  EXPECT_EQ(b[0].id(), page.id());
  if constexpr (TestFixture::is_tagged) {
    EXPECT_EQ(pool->retain({&page, 1}), errc::stale_handle);
    EXPECT_EQ(pool->references(page.id()), 1U);
    EXPECT_EQ(pool->revive(page), errc::stale_handle);
    EXPECT_EQ(pool->withdraw(page), errc::stale_handle);
  }
}

TYPED_TEST(page_pool_contract, a_fenced_published_page_is_cached_when_its_step_retires) {
  auto pool = this->make_pool(3);
  const auto a = pool.grant_published();
  const auto b = pool.grant_published();
  EXPECT_EQ(pool->release_after(std::vector{a, b}, 4), errc::ok);
  EXPECT_EQ(pool->revive(a), errc::double_release);  // not cached yet
  EXPECT_EQ(pool->withdraw(a), errc::ok);            // evicted while fenced: still out of circulation
  EXPECT_EQ(pool->check(a), errc::double_release);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 3, .free = 1, .fenced = 2}));
  EXPECT_TRUE(pool->audit().clean()) << pool->audit().finding;
  pool->retire(4);
  EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 3, .free = 2, .cached = 1}));
  std::vector<page_id> drained;
  pool->drain_newly_cached([&](page_id id) { drained.push_back(id); });
  EXPECT_EQ(drained, std::vector{b.id()});
  EXPECT_TRUE(pool->audit().clean()) << pool->audit().finding;
}

TYPED_TEST(page_pool_contract, newly_cached_pages_are_drained_once_in_the_order_they_became_cached) {
  auto pool = this->make_pool(6);
  std::vector<typename TestFixture::handle> pages;
  for (int i = 0; i < 6; ++i) pages.push_back(pool.grant_published());
  EXPECT_EQ(pool->release_after(std::vector{pages[5], pages[1]}, 2), errc::ok);
  EXPECT_EQ(pool->release(std::vector{pages[3], pages[0]}), errc::ok);
  EXPECT_EQ(pool->release({&pages[4], 1}), errc::ok);
  pool->retire(2);
  EXPECT_EQ(pool->release({&pages[2], 1}), errc::ok);
  std::vector<page_id> drained;
  const auto drain = [&](page_id id) { drained.push_back(id); };
  pool->drain_newly_cached(drain);
  std::vector<page_id> expected;
  for (const std::size_t i : {3U, 0U, 4U, 5U, 1U, 2U}) expected.push_back(pages[i].id());
  EXPECT_EQ(drained, expected);
  pool->drain_newly_cached(drain);
  EXPECT_EQ(drained.size(), 6U);
  EXPECT_EQ(pool->stats().cached, 6U);
}

// --- Generations ---

TYPED_TEST(page_pool_contract, case_N_a_handle_is_good_from_its_grant_to_the_last_release_and_never_again) {
  if constexpr (TestFixture::is_tagged) {
    auto pool = this->make_pool(1);
    std::vector<typename TestFixture::handle> kept;
    for (int grant = 0; grant < 2; ++grant) {
      const auto page = pool.grant(1)[0];
      EXPECT_EQ(page.tag() % 2, 1U);
      EXPECT_EQ(page.tag(), pool->tag(page.id()));
      EXPECT_EQ(pool->check(page), errc::ok);
      for (const auto old : kept) {
        EXPECT_EQ(pool->check(old), errc::stale_handle);
        EXPECT_EQ(pool->release({&old, 1}), errc::stale_handle);
        EXPECT_EQ(pool->release_after({&old, 1}, 3), errc::stale_handle);
        EXPECT_EQ(pool->retain({&old, 1}), errc::stale_handle);
        EXPECT_EQ(pool->publish(old), errc::stale_handle);
      }
      EXPECT_EQ(pool->references(page.id()), 1U);
      EXPECT_EQ(pool->release({&page, 1}), errc::ok);
      EXPECT_EQ(pool->tag(page.id()) % 2, 0U);  // stale before it is reused
      EXPECT_NE(pool->check(page), errc::ok);
      kept.push_back(page);
    }
  }
}

// Ways to give up a page with one reference; over when `step` has retired.
template <class Pool>
std::vector<void (*)(Pool&, typename Pool::handle, kvpage::step_number)> ways_to_give_up() {
  using handle = typename Pool::handle;
  using kvpage::step_number;
  return {
      [](Pool& pool, handle page, step_number) {
        EXPECT_EQ(pool.release({&page, 1}), errc::ok);
      },
      [](Pool& pool, handle page, step_number step) {
        EXPECT_EQ(pool.release_after({&page, 1}, step), errc::ok);
      },
      [](Pool& pool, handle page, step_number) {
        EXPECT_EQ(pool.publish(page), errc::ok);
        EXPECT_EQ(pool.release({&page, 1}), errc::ok);
        pool.drain_newly_cached([](page_id) {});
        EXPECT_EQ(pool.withdraw(page), errc::ok);
      },
      [](Pool& pool, handle page, step_number step) {
        EXPECT_EQ(pool.publish(page), errc::ok);
        EXPECT_EQ(pool.release_after({&page, 1}, step), errc::ok);
        EXPECT_EQ(pool.withdraw(page), errc::ok);
      },
  };
}

TYPED_TEST(page_pool_contract, case_N_a_page_out_of_generations_retires_on_every_path) {
  if constexpr (TestFixture::is_tagged) {
    if constexpr (TypeParam::policy::last_live_tag <= 255) {
      constexpr std::size_t generations = (TypeParam::policy::last_live_tag + 1) / 2;
      for (const auto give_up : ways_to_give_up<typename TestFixture::pool_type>()) {
        auto pool = this->make_pool(2);
        const auto other = pool.grant(1)[0];
        std::vector<typename TestFixture::handle> kept;
        for (std::size_t generation = 1; generation <= generations; ++generation) {
          EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 2, .free = 1, .live = 1}));
          kept.push_back(pool.grant(1)[0]);
          give_up(*pool, kept.back(), generation);
          EXPECT_TRUE(pool->audit().clean()) << pool->audit().finding;
          pool->retire(generation);
        }
        EXPECT_EQ(pool->stats(), (pool_stats{.capacity = 2, .live = 1, .retired = 1}));
        EXPECT_TRUE(pool->audit().clean()) << pool->audit().finding;
        for (const auto old : kept) {
          EXPECT_NE(pool->check(old), errc::ok);
          EXPECT_NE(pool->retain({&old, 1}), errc::ok);
          EXPECT_NE(pool->release({&old, 1}), errc::ok);
          EXPECT_NE(pool->revive(old), errc::ok);
          EXPECT_NE(pool->withdraw(old), errc::ok);
          EXPECT_NE(pool->publish(old), errc::ok);
        }
        std::vector<typename TestFixture::handle> two(2);
        EXPECT_EQ(pool->allocate(two), errc::never_fits);  // the pool has shrunk
        EXPECT_EQ(pool->allocate(std::span{two}.first(1)), errc::exhausted);
        EXPECT_EQ(pool->release({&other, 1}), errc::ok);
        EXPECT_EQ(pool->allocate(std::span{two}.first(1)), errc::ok);
        EXPECT_EQ(two[0].id(), other.id());
      }
    }
  }
}

// --- Accounts ---

TYPED_TEST(page_pool_contract, case_E_nothing_leaks_over_rounds_of_publishing_and_evicting) {
  auto pool = this->make_pool(8);
  std::vector<typename TestFixture::handle> cached;  // oldest first
  for (int round = 0; round < 3; ++round) {
    std::vector<typename TestFixture::handle> four(4);
    while (pool->allocate(four) == errc::exhausted) {
      pool->drain_newly_cached([](page_id) {});
      ASSERT_FALSE(cached.empty());
      ASSERT_EQ(pool->withdraw(cached.front()), errc::ok);
      cached.erase(cached.begin());
    }
    for (const auto page : four) EXPECT_EQ(pool->publish(page), errc::ok);
    EXPECT_EQ(pool->release(four), errc::ok);
    cached.insert(cached.end(), four.begin(), four.end());
    EXPECT_EQ(pool->stats().live, 0U);
    EXPECT_EQ(pool->stats().free + pool->stats().cached, 8U);
    EXPECT_TRUE(pool->audit().clean()) << pool->audit().finding;
  }
}

TYPED_TEST(page_pool_contract, metadata_is_8_bytes_a_page_untagged_and_12_tagged) {
  constexpr std::size_t pages = 1000;
  auto pool = this->make_pool(pages - 1);
  constexpr std::size_t a_page = TestFixture::is_tagged ? 12 : 8;
  EXPECT_LE(pool.memory().bytes_held(), pages * a_page);
  EXPECT_GE(pool.memory().bytes_held(), (pages - 1) * a_page);
}

}  // namespace
