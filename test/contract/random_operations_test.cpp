// A pool and its tables against a model that knows only sets and counts: a short walk for every policy and
// order.  The long ones are in test/model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "../support/configurations.hpp"
#include "../support/probed_pool.hpp"
#include "kvpage/block_table.hpp"
#include "kvpage/decode_batch.hpp"
#include "kvpage/verify.hpp"

namespace {

using kvpage::errc;
using kvpage::page_id;
using kvpage::step_number;

template <class Configuration>
struct random_operations : ::testing::Test {};

TYPED_TEST_SUITE(random_operations, kvpage_test::every_configuration, kvpage_test::configuration_names);

// Four rows grow, shrink, slide, hand pages to transfers and end, with steps in flight.
template <class Configuration>
class walk {
  using pool_type = typename Configuration::pool;
  using table_type = kvpage::block_table<pool_type>;
  using handle = typename pool_type::handle;
  static constexpr std::size_t usable = 40, S = 4, rows = 4;

 public:
  void step() {
    table_type& row = tables_[random_() % rows];
    const std::size_t tokens = random_() % 14;
    const step_number fence = random_() % 2 == 0 ? 0 : newest_ + random_() % 3;
    const std::vector before(row.handles().begin(), row.handles().end());
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2: append(row, tokens); break;
      case 3: {
        const bool in_row = tokens <= row.tokens() && tokens >= row.dropped_pages() * S;
        ASSERT_EQ(row.truncate(tokens, fence), in_row ? errc::ok : errc::outside_row);
        if (in_row) gave_up(std::span{before}.subspan(row.pages()), fence);
        break;
      }
      case 4: {
        const std::size_t dropped = row.dropped_pages();
        const bool in_row = tokens <= row.tokens() / S - dropped;
        ASSERT_EQ(row.drop_front(tokens, fence), in_row ? errc::ok : errc::outside_row);
        if (in_row) gave_up(std::span{before}.subspan(dropped, tokens), fence);
        break;
      }
      case 5: {
        const std::size_t dropped = row.dropped_pages();
        ASSERT_EQ(row.release(fence), errc::ok);
        gave_up(std::span{before}.subspan(dropped), fence);
        break;
      }
      case 6: transfer(before, fence); break;
      default:
        newest_ += random_() % 2;
        if (random_() % 2 == 0) retire(newest_);
    }
    check();
  }

 private:
  struct page {
    std::size_t references = 0;
    step_number waits_for = 0;  // the newest step that any holder of this grant has named
    std::size_t grants = 0;
  };

  void append(table_type& row, std::size_t tokens) {
    const std::size_t before = row.pages();
    const std::size_t wanted = kvpage::pages_for(row.tokens() + tokens, S) - before;
    const std::size_t free = pool_->stats().free;
    // A page that a transfer still holds is shared: its partly filled end cannot be written to.
    const bool shared =
        tokens != 0 && row.tokens() % S != 0 && model_[row.handles().back().id()].references > 1;
    const errc code = row.append(tokens);
    if (shared) {
      ASSERT_EQ(code, errc::shared_page);
      return;
    }
    if (wanted > free) {
      ASSERT_TRUE(code == errc::exhausted || code == errc::never_fits);
      return;
    }
    ASSERT_EQ(code, errc::ok);
    for (const handle& granted : row.handles().subspan(before)) {
      page& fresh = model_[granted.id()];
      ASSERT_EQ(fresh.references, 0U) << "page " << granted.id() << " granted while held";
      ASSERT_LE(fresh.waits_for, retired_) << "page " << granted.id() << " granted while a step may read it";
      fresh = {.references = 1, .waits_for = 0, .grants = fresh.grants + 1};
    }
  }

  // A transfer takes a reference to a row's pages, or an older one ends.
  void transfer(const std::vector<handle>& pages, step_number fence) {
    if (transfers_.size() < 3) {
      std::vector<handle> held;
      std::ranges::copy_if(pages, std::back_inserter(held), [](const handle& p) { return !p.is_null(); });
      ASSERT_EQ(pool_->retain(held), errc::ok);
      for (const handle& taken : held) ++model_[taken.id()].references;
      transfers_.push_back(held);
    } else {
      ASSERT_EQ(pool_->release_after(transfers_.front(), fence), errc::ok);
      gave_up(transfers_.front(), fence);
      transfers_.erase(transfers_.begin());
    }
  }

  void gave_up(std::span<const handle> pages, step_number fence) {
    for (const handle& released : pages) {
      page& old = model_[released.id()];
      --old.references;
      if (fence > retired_) old.waits_for = (std::max)(old.waits_for, fence);
    }
  }

  void retire(step_number step) {
    pool_->retire(step);
    retired_ = (std::max)(retired_, step);
  }

  void check() {
    const kvpage::pool_stats stats = pool_->stats();
    std::size_t live = 0;
    for (page_id id = 1; id <= usable; ++id) {
      const page& expected = model_[id];
      ASSERT_EQ(pool_->references(id), expected.references);
      live += expected.references != 0;
      if (expected.references == 0 && expected.waits_for > retired_) {
        ASSERT_EQ(pool_->state(id), kvpage::page_state::fenced) << "page " << id;
      }
    }
    ASSERT_EQ(stats.live, live);
    ASSERT_EQ(stats.free + stats.live + stats.cached + stats.fenced + stats.retired, stats.capacity);
    ASSERT_TRUE(pool_->audit().clean()) << pool_->audit().finding;
    batch_.clear();
    for (const table_type& row : tables_) ASSERT_EQ(batch_.add(row, 0), errc::ok);
    const auto summary = kvpage::verify(batch_, *pool_, newest_, std::span{verdicts_});
    ASSERT_TRUE(summary);
    ASSERT_EQ(summary.value().failed_rows, 0U);
  }

  std::mt19937 random_{7};
  kvpage_test::probed_pool<pool_type> pool_{usable, Configuration::reuse, S};
  std::vector<table_type> tables_ = [this] {
    std::vector<table_type> tables;
    for (std::size_t row = 0; row < rows; ++row) tables.emplace_back(*pool_);
    return tables;
  }();
  kvpage::decode_batch<pool_type> batch_{kvpage::batch_limits{.rows = rows, .entries = 4096, .slots = 0}};
  std::vector<kvpage::verdict> verdicts_ = std::vector<kvpage::verdict>(rows);
  std::vector<std::vector<handle>> transfers_;
  std::map<page_id, page> model_;
  step_number newest_ = 1;
  step_number retired_ = 0;
};

TYPED_TEST(random_operations, agree_with_the_model) {
  walk<TypeParam> rows;
  for (int i = 0; i < 3000 && !this->HasFatalFailure(); ++i) {
    SCOPED_TRACE(i);
    rows.step();
  }
}

}  // namespace
