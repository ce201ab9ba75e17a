// Prefixes that are published, matched and evicted.  The oracle is a map from every text that ends a
// published page to that page.
#pragma once

#include <kvpage/prefix_index.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "pool_oracle.hpp"

namespace kvpage_model {

// Every content collides with every other: nothing but the speed may show it.
struct always_7 {
  template <class Symbol>
  std::uint64_t operator()(std::uint64_t /*parent*/, std::span<const Symbol> /*page*/) const noexcept {
    return 7;
  }
};

template <class Policy, class Hash>
class index_subject {
  using pool_type = kvpage::page_pool<kvpage::bf16, Policy>;
  using table_type = kvpage::block_table<pool_type>;
  using handle = typename pool_type::handle;
  using errc = kvpage::errc;
  using tokens = std::vector<kvpage::token_id>;
  static constexpr std::size_t page_size = 2, rows = 4;

  struct row {
    explicit row(pool_type& pool) : table(pool) {}
    table_type table;
    tokens text;
    bool other_tenant = false;
    kvpage::prefix_epoch epoch = 0;
  };

 public:
  void apply(const operation& o) {
    row& r = rows_[o.a % rows];
    const kvpage::step_number fence = o.c % 2 == 0 ? 0 : newest_ + o.c % 3;
    switch (o.kind % 10) {
      case 0:
      case 1:
      case 2: begin(r, o); break;
      case 3:
      case 4: publish(r, o.b); break;
      case 5:
      case 6: end(r, fence); break;
      case 7: evict(o.b % 4U); break;
      case 8:
        newest_ += o.b % 2;
        pool_.retire(newest_);
        oracle_.retire(newest_);
        break;
      default:
        if (o.b % 16U == 0) forget(o.c % 2 == 0);
    }
  }

  void compare() {
    oracle_.compare();
    require(index_.pages() == published_.size(), "the number of published pages differs");
    require(index_.evictable() == evictable(), "the number of evictable pages differs");
    if (++operations_ % 16 == 0) audit();
  }
  void audit() {
    require(pool_.audit().clean(), "the pool's audit has a finding");
    require(index_.audit().clean(), "the index' audit has a finding");
  }

 private:
  using key = std::pair<bool, tokens>;  // tenant, text up to the end of the page

  static key key_of(const row& r, std::size_t page) {
    const auto end = r.text.begin() + static_cast<std::ptrdiff_t>((page + 1) * page_size);
    return {r.other_tenant, tokens(r.text.begin(), end)};
  }
  static kvpage::prompt<> prompt_of(const row& r) {
    return {r.text, kvpage::prefix_salt{.tenant = r.other_tenant ? "other" : "one"}};
  }

  // 1 to 10 tokens out of two.
  void begin(row& r, const operation& o) {
    if (r.table.pages() != 0) return;
    r.text.clear();
    for (std::size_t i = 0; i < 1 + o.b % 10U; ++i) r.text.push_back((o.c >> i % 8) % 2);
    r.other_tenant = o.kind >= 192;
    r.epoch = index_.epoch();

    std::vector<handle> expected;
    for (std::size_t i = 0; (i + 1) * page_size < r.text.size(); ++i) {
      const auto found = published_.find(key_of(r, i));
      if (found == published_.end() || pool_.state(found->second.id()) == kvpage::page_state::fenced) break;
      expected.push_back(found->second);
    }
    const std::size_t matched = index_.match_and_retain(prompt_of(r), r.table);
    require(matched == expected.size() * page_size, "matched another length");
    for (std::size_t i = 0; i < expected.size(); ++i) {
      require(r.table.handles()[i] == expected[i], "matched another page");
      take(expected[i]);
    }
    const std::size_t left = r.text.size() - matched;
    const std::size_t wanted = r.table.pages_to_append(left);
    const errc granted = oracle_.expected_grant(wanted);
    require(r.table.append(left) == granted, "append");
    if (granted == errc::ok)
      oracle_.granted(r.table.handles().last(wanted));
    else
      end(r, 0);
  }

  void take(handle page) {
    const handle one[] = {page};
    const bool is_cached = oracle_[page.id()].references == 0;
    require((is_cached ? oracle_.take_cached(page) : oracle_.retain(one)) == errc::ok, "took a page in vain");
  }

  void publish(row& r, std::size_t computed) {
    computed %= r.text.size() + 2;
    errc expected = errc::ok;
    if (r.epoch != index_.epoch())
      expected = errc::stale_epoch;
    else if (computed > r.table.tokens())
      expected = errc::outside_row;
    std::vector<handle> fresh;
    for (std::size_t i = 0; expected == errc::ok && i < computed / page_size; ++i) {
      const handle own = r.table.handles()[i];
      if (published_.contains(key_of(r, i))) continue;
      if (oracle_[own.id()].is_published || oracle_.is_last_grant(own.id())) break;
      published_.emplace(key_of(r, i), own);
      require(oracle_.publish(own) == errc::ok, "published a page that is not the row's");
      fresh.push_back(own);
    }
    std::vector<handle> told;
    const auto found =
        index_.publish(r.table, prompt_of(r), computed, r.epoch, [&](handle page) { told.push_back(page); });
    require(found.error() == expected, "publish");
    require(told == fresh && (!found || *found == fresh.size()), "published other pages");
  }

  void end(row& r, kvpage::step_number fence) {
    require(oracle_.release(r.table.handles(), fence) == errc::ok, "a row gave up what it did not have");
    require(r.table.release(fence) == errc::ok, "release");
    r.text.clear();
  }

  void evict(std::size_t most) {
    const std::size_t expected = (std::min)(most, evictable());
    const std::size_t evicted = index_.evict(most, [&](handle page) { evicted_one(page); });
    require(evicted == expected, "evicted another number of pages");
  }

  // Nobody's page, and the end of every published text that goes through it.
  void evicted_one(handle page) {
    const auto victim = std::ranges::find(published_, page, &std::pair<const key, handle>::second);
    require(victim != published_.end(), "evicted what is not published");
    require(pool_.references(page.id()) == 0, "evicted a page that somebody holds");
    const auto next = std::next(victim);  // texts sort before those that they begin
    require(next == published_.end() || !begins(victim->first, next->first), "evicted before its successor");
    published_.erase(victim);
    require(oracle_.withdraw(page) == errc::ok, "evicted a page of nobody's");
  }

  void forget(bool weights_changed) {
    for (const auto& [text, page] : published_)
      require(oracle_.withdraw(page) == errc::ok, "a published page was lost");
    published_.clear();
    if (weights_changed)
      index_.advance_epoch();
    else
      index_.clear();
  }

  static bool begins(const key& front, const key& whole) {
    return front.first == whole.first && front.second.size() <= whole.second.size() &&
           std::equal(front.second.begin(), front.second.end(), whole.second.begin());
  }

  // Cached pages that are followed by cached pages only.
  std::size_t evictable() const {
    std::size_t count = 0;
    key kept;  // the text of the last page seen, from the back, that has to stay
    bool any_kept = false;
    for (auto it = published_.rbegin(); it != published_.rend(); ++it) {
      const bool stays = pool_.state(it->second.id()) != kvpage::page_state::cached;
      if (stays || (any_kept && begins(it->first, kept))) {
        kept = it->first;
        any_kept = true;
      } else {
        ++count;
      }
    }
    return count;
  }

  pool_type pool_{kvpage::pool_options{.pages = 15, .tokens_per_page = page_size}};
  pool_oracle<pool_type> oracle_{pool_};
  kvpage::prefix_index<pool_type, kvpage::token_id, Hash> index_{pool_};
  std::vector<row> rows_ = [this] {
    std::vector<row> all;
    for (std::size_t i = 0; i < rows; ++i) all.emplace_back(pool_);
    return all;
  }();
  std::map<key, handle> published_;
  kvpage::step_number newest_ = 1;
  std::size_t operations_ = 0;
};

}  // namespace kvpage_model
