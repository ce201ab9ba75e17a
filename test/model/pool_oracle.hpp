// What a pool should say of its pages, from nothing but counts.
#pragma once

#include <kvpage/page_pool.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "operation.hpp"

namespace kvpage_model {

template <class Pool>
class pool_oracle {
 public:
  using handle = typename Pool::handle;
  using policy = typename Pool::policy;
  using errc = kvpage::errc;
  using state = kvpage::page_state;

  struct page {
    std::uint32_t references = 0;
    std::uint32_t grants = 0;
    bool is_granted = false;  // the newest grant has not ended
    bool is_published = false;
    kvpage::step_number waits_for = 0;  // the newest step that a holder of this grant has named
  };

  explicit pool_oracle(Pool& pool) : pool_{pool}, pages_(pool.size()) {}

  [[nodiscard]] const page& operator[](kvpage::page_id id) const { return pages_[id]; }
  [[nodiscard]] kvpage::step_number retired() const { return retired_; }

  [[nodiscard]] errc expected_grant(std::size_t pages) const {
    const auto stats = pool_.stats();  // compare() has checked it
    if (pages <= stats.free) return errc::ok;
    return pages > stats.capacity - stats.retired ? errc::never_fits : errc::exhausted;
  }

  void granted(std::span<const handle> pages) {
    for (const handle& fresh : pages) {
      require(fresh.id() != 0 && fresh.id() < pages_.size(), "granted a page that does not exist");
      page& p = pages_[fresh.id()];
      require(!p.is_granted, "granted a page that is in use");
      require(p.waits_for <= retired_, "granted a page that a step may still touch");
      require(p.grants < max_grants, "granted a page beyond its last generation");
      p = {.references = 1, .grants = p.grants + 1, .is_granted = true};
      if constexpr (policy::is_tagged) require(fresh.tag() == 2 * p.grants - 1, "granted with a wrong tag");
    }
  }

  // What page_pool::check_referenced should say.
  [[nodiscard]] errc expected(handle h) const {
    const errc generation = expected_generation(h);
    if (generation != errc::ok) return generation;
    return pages_[h.id()].references != 0 ? errc::ok : errc::double_release;
  }

  [[nodiscard]] errc retain(std::span<const handle> taken) {
    return all_or_none(taken, [](page& p) { ++p.references; });
  }

  [[nodiscard]] errc release(std::span<const handle> given, kvpage::step_number step) {
    const errc code = all_or_none(given, [&](page& p) {
      if (step > retired_) p.waits_for = (std::max)(p.waits_for, step);
      if (--p.references == 0 && !p.is_published) p.is_granted = false;
    });
    if (code == errc::ok) newest_wait_ = (std::max)(newest_wait_, step);
    return code;
  }

  void retire(kvpage::step_number step) { retired_ = (std::max)(retired_, step); }

  [[nodiscard]] errc publish(handle h) {
    const handle one[] = {h};
    return all_or_none(one, [](page& p) { p.is_published = true; });
  }

  [[nodiscard]] errc withdraw(handle h) {
    const errc generation = expected_generation(h);
    if (generation != errc::ok) return generation;
    page& p = pages_[h.id()];
    if (p.references == 0 && !p.is_published) return errc::double_release;
    p.is_published = false;
    p.is_granted = p.references != 0;
    return errc::ok;
  }

  [[nodiscard]] errc revive(handle h) {
    const errc generation = expected_generation(h);
    if (generation != errc::ok) return generation;
    if (pool_.state(h.id()) != state::cached) return errc::double_release;
    return take_cached(h);
  }

  // The index has revived a page.
  [[nodiscard]] errc take_cached(handle h) {
    page& p = pages_[h.id()];
    if (!p.is_published || p.references != 0 || p.waits_for > retired_) return errc::double_release;
    p.references = 1;
    return errc::ok;
  }

  [[nodiscard]] bool is_last_grant(kvpage::page_id id) const { return pages_[id].grants == max_grants; }

  // The pool's accounts and every page of it.
  void compare() const {
    kvpage::pool_stats seen{.capacity = pool_.capacity()};
    for (kvpage::page_id id = 1; id < pages_.size(); ++id) {
      const page& p = pages_[id];
      require(pool_.references(id) == p.references, "references differ");
      require(pool_.is_published(id) == p.is_published, "publication differs");
      if constexpr (policy::is_tagged)
        require(pool_.tag(id) == (p.grants == max_grants && !p.is_granted ? 0 : 2 * p.grants - p.is_granted),
                "tags differ");
      const state found = pool_.state(id);
      require(is_possible(p, found), "states differ");
      seen.free += found == state::free;
      seen.live += found == state::live;
      seen.cached += found == state::cached;
      seen.fenced += found == state::fenced;
      seen.retired += found == state::retired;
    }
    require(pool_.stats() == seen, "stats differ from the states of the pages");
  }

 private:
  static constexpr std::uint32_t max_grants = [] {
    if constexpr (policy::is_tagged)
      return policy::last_live_tag / 2 + 1;
    else
      return ~std::uint32_t{0};
  }();

  [[nodiscard]] errc expected_generation(handle h) const {
    if (h.id() == 0) return errc::null_handle;
    if (h.id() >= pages_.size()) return errc::outside_pool;
    if constexpr (policy::is_tagged) {
      const page& p = pages_[h.id()];
      if (h.tag() != 2 * p.grants - 1) return errc::stale_handle;
      if (!p.is_granted) return errc::double_release;
    }
    return errc::ok;
  }

  template <class Change>
  [[nodiscard]] errc all_or_none(std::span<const handle> handles, Change change) {
    before_ = pages_;
    for (const handle& h : handles) {
      if (const errc code = expected(h); code != errc::ok) {
        pages_ = before_;
        return code;
      }
      change(pages_[h.id()]);
    }
    return errc::ok;
  }

  [[nodiscard]] bool is_possible(const page& p, state found) const {
    if (p.references != 0) return found == state::live;
    if (p.waits_for > retired_) return found == state::fenced;
    // A pool may let a page wait for the newest step that any page waits for.
    if (found == state::fenced) return newest_wait_ > retired_ && p.grants != 0;
    if (p.is_published) return found == state::cached;
    return found == (p.grants == max_grants ? state::retired : state::free);
  }

  const Pool& pool_;
  std::vector<page> pages_, before_;
  kvpage::step_number retired_ = 0;
  kvpage::step_number newest_wait_ = 0;
};

}  // namespace kvpage_model
