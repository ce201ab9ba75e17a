#include "kvpage/concurrent_page_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "../support/counting_memory.hpp"
#include "kvpage/page_pool.hpp"

namespace {

using kvpage::errc;
using kvpage::page_id;
using tagged2 = kvpage::basic_tagged<std::uint8_t, 2>;  // two grants, then a page retires

template <class P>
using pool_of = kvpage::concurrent_page_pool<kvpage::bf16, P>;
template <class P>
using handle_of = typename pool_of<P>::handle;

template <class P>
class concurrent_page_pool : public ::testing::Test {};
using policies = ::testing::Types<kvpage::untagged, kvpage::tagged, tagged2>;
TYPED_TEST_SUITE(concurrent_page_pool, policies);

// --- One thread: what page_pool says, too. ---

TYPED_TEST(concurrent_page_pool, refuses_what_page_pool_refuses_and_changes_as_little) {
  using handle = handle_of<TypeParam>;
  constexpr std::uint64_t pages = 130;
  for (const std::uint32_t shards : {1U, 4U, 64U}) {
    pool_of<TypeParam> pool{{.pages = pages, .shards = shards}};
    kvpage::page_pool<kvpage::bf16, TypeParam> model{{.pages = pages}};
    std::mt19937 random{shards};
    std::vector<handle> ours;    // handles of the same grants, live or not
    std::vector<handle> theirs;  // in the model
    for (int round = 0; round < 3000; ++round) {
      std::vector<handle> call;
      std::vector<handle> model_call;
      for (std::size_t i = random() % 4; i != 0 && !ours.empty(); --i) {
        const std::size_t pick = ours.size() - 1 - random() % (std::min)(ours.size(), std::size_t{40});
        call.push_back(ours[pick]);
        model_call.push_back(theirs[pick]);
      }
      errc code = errc::ok;
      errc expected = errc::ok;
      switch (random() % 3) {
        case 0: {
          call.assign(random() % 20, handle{});
          model_call = call;
          code = pool.allocate(call);
          expected = model.allocate(model_call);
          if (code != errc::ok) break;
          ours.insert(ours.end(), call.begin(), call.end());
          theirs.insert(theirs.end(), model_call.begin(), model_call.end());
          break;
        }
        case 1:
          code = pool.retain(call);
          expected = model.retain(model_call);
          break;
        default: code = pool.release(call); expected = model.release(model_call);
      }
      // Page numbers differ, so others are reused: untagged pools then mistake other handles for live ones,
      // and with 2-bit tags other pages retire.
      if constexpr (std::same_as<TypeParam, kvpage::tagged>) {
        ASSERT_EQ(code == errc::ok, expected == errc::ok) << "round " << round;
        ASSERT_EQ(pool.stats(), model.stats()) << "round " << round;
      }
      ASSERT_EQ(pool.audit().finding, "") << "round " << round;
    }
  }
}

TYPED_TEST(concurrent_page_pool, case_B_double_release_is_refused_and_changes_nothing) {
  using handle = handle_of<TypeParam>;
  pool_of<TypeParam> pool{{.pages = 5}};
  std::array<handle, 1> page;
  ASSERT_EQ(pool.allocate(page), errc::ok);
  EXPECT_EQ(pool.release(std::array{page[0], page[0]}), errc::double_release);
  EXPECT_EQ(pool.stats().free, 3U);
  EXPECT_EQ(pool.check(page[0]), errc::ok);
  EXPECT_EQ(pool.release(page), errc::ok);
  EXPECT_EQ(pool.stats().free, 4U);
  EXPECT_EQ(pool.release(page), errc::double_release);
  EXPECT_EQ(pool.release(std::array{handle{}}), errc::null_handle);
  EXPECT_TRUE(pool.audit().clean());
}

TYPED_TEST(concurrent_page_pool, case_K_pages_of_all_shards_are_granted_before_exhausted) {
  using handle = handle_of<TypeParam>;
  pool_of<TypeParam> pool{{.pages = 1001, .shards = 16}};
  std::vector<handle> most(995);
  ASSERT_EQ(pool.allocate(most), errc::ok);
  std::vector<handle> six(6);
  EXPECT_EQ(pool.allocate(six), errc::exhausted);
  EXPECT_EQ(pool.stats().free, 5U);
  EXPECT_EQ(pool.allocate(std::span{six}.first(5)), errc::ok);
  std::vector<handle> more(1001);
  EXPECT_EQ(pool.allocate(more), errc::never_fits);
  EXPECT_EQ(pool.release(most), errc::ok);
  EXPECT_EQ(pool.release(std::span{six}.first(5)), errc::ok);
  EXPECT_EQ(pool.stats().live, 0U);
  EXPECT_TRUE(pool.audit().clean());
}

TEST(concurrent_page_pool_memory, is_the_pools_and_little_more) {
  kvpage_test::counting_resource memory;
  kvpage::concurrent_page_pool<kvpage::bf16, kvpage::tagged> pool{{.pages = 65536, .memory = &memory}};
  EXPECT_LE(memory.bytes_held(), 12 * 65536U + 4 * 64 + 4 * 64);
}

TEST(concurrent_page_pool_options, say_what_is_wrong_with_them) {
  using pool = kvpage::concurrent_page_pool<kvpage::bf16, kvpage::tagged>;
  EXPECT_THROW((pool{{.pages = 1}}), std::invalid_argument);
  EXPECT_THROW((pool{{.pages = 8, .shards = 0}}), std::invalid_argument);
  EXPECT_THROW((pool{{.pages = 8, .shards = 65}}), std::invalid_argument);
}

// --- Several threads. ---

// Who holds each page, kept beside the pool.
class owners {
 public:
  explicit owners(std::size_t pages) : held_(pages) {}
  void take(page_id page) { EXPECT_FALSE(held_[page].exchange(true)) << "page " << page << " held twice"; }
  void give(page_id page) {
    EXPECT_TRUE(held_[page].exchange(false)) << "page " << page << " held by nobody";
  }

 private:
  std::vector<std::atomic<bool>> held_;
};

template <class Work>
void in_threads(std::size_t count, Work work) {
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < count; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
}

// 2-bit tags are left out: their pages retire.
template <class P>
class concurrent_page_pool_threads : public concurrent_page_pool<P> {};
using lasting_policies = ::testing::Types<kvpage::untagged, kvpage::tagged>;
TYPED_TEST_SUITE(concurrent_page_pool_threads, lasting_policies);

TYPED_TEST(concurrent_page_pool_threads, case_L_no_page_is_ever_held_twice) {
  using handle = handle_of<TypeParam>;
  pool_of<TypeParam> pool{{.pages = 9}};
  owners owner{9};
  in_threads(2, [&](std::size_t thread) {
    std::mt19937 random{static_cast<std::uint32_t>(thread)};
    for (int i = 0; i < 10'000; ++i) {
      std::vector<handle> pages(1 + random() % 4);  // two threads: always fits
      ASSERT_EQ(pool.allocate(pages), errc::ok);
      for (const handle& page : pages) owner.take(page.id());
      for (const handle& page : pages) owner.give(page.id());
      ASSERT_EQ(pool.release(pages), errc::ok);
    }
  });
  EXPECT_EQ(pool.stats().free, 8U);
  EXPECT_TRUE(pool.audit().clean());
}

TYPED_TEST(concurrent_page_pool_threads, case_L_exhausted_is_all_or_nothing_under_contention) {
  using handle = handle_of<TypeParam>;
  pool_of<TypeParam> pool{{.pages = 257, .shards = 8}};
  owners owner{257};
  in_threads(4, [&](std::size_t thread) {
    std::mt19937 random{static_cast<std::uint32_t>(thread)};
    std::vector<std::vector<handle>> held;
    for (int i = 0; i < 3'000; ++i) {
      if (std::vector<handle> pages(random() % 60); pool.allocate(pages) == errc::ok) {
        for (const handle& page : pages) owner.take(page.id());
        held.push_back(pages);
      } else {
        for (const handle& page : pages) ASSERT_EQ(page, handle{});
      }
      if (held.empty() || random() % 2 == 0) continue;
      std::swap(held.back(), held[random() % held.size()]);
      for (const handle& page : held.back()) owner.give(page.id());
      ASSERT_EQ(pool.release(held.back()), errc::ok);
      held.pop_back();
    }
    for (const auto& pages : held) {
      for (const handle& page : pages) owner.give(page.id());
      ASSERT_EQ(pool.release(pages), errc::ok);
    }
  });
  EXPECT_EQ(pool.stats().free, 256U);
  EXPECT_TRUE(pool.audit().clean());
}

// A page released by two threads at once: exactly one of them is told ok.  (Untagged, the other may hit the
// next grant.)
TEST(concurrent_page_pool_tagged, case_B_one_of_two_releases_wins) {
  pool_of<kvpage::tagged> pool{{.pages = 17}};
  for (int round = 0; round < 300; ++round) {
    std::vector<handle_of<kvpage::tagged>> pages(16);
    ASSERT_EQ(pool.allocate(pages), errc::ok);
    std::atomic<int> released{0};
    in_threads(2, [&](std::size_t thread) {
      for (std::size_t i = 0; i < pages.size(); ++i) {
        const auto page = pages[thread == 0 ? i : pages.size() - 1 - i];
        released += pool.release({&page, 1}) == errc::ok;
      }
    });
    ASSERT_EQ(released, 16);
    ASSERT_EQ(pool.stats().free, 16U);
  }
  EXPECT_TRUE(pool.audit().clean());
}

// Transfer threads hold references of their own while the scheduler lets go of the pages.
TYPED_TEST(concurrent_page_pool_threads, case_A_pages_outlive_the_request_while_a_transfer_holds_them) {
  using handle = handle_of<TypeParam>;
  pool_of<TypeParam> pool{{.pages = 65}};
  for (int round = 0; round < 300; ++round) {
    std::vector<handle> pages(48);
    ASSERT_EQ(pool.allocate(pages), errc::ok);
    ASSERT_EQ(pool.retain(pages), errc::ok);
    std::vector<handle> other(17);
    in_threads(2, [&](std::size_t thread) {
      const errc code = thread == 0 ? pool.allocate(other) : pool.release(pages);
      EXPECT_EQ(code, thread == 0 ? errc::exhausted : errc::ok);
    });
    EXPECT_EQ(pool.stats().free, 16U);
    ASSERT_EQ(pool.release(pages), errc::ok);
    EXPECT_EQ(pool.stats().free, 64U);
  }
  EXPECT_TRUE(pool.audit().clean());
}

}  // namespace
