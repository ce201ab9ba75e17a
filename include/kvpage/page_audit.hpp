// kvpage: the accounts of a pool, and the proof that they are right.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "config.hpp"
#include "fence_list.hpp"
#include "free_list.hpp"
#include "page_record.hpp"

namespace kvpage::inline v0 {

// Pages by state; the five states add up to `capacity`.
struct pool_stats {
  std::size_t capacity = 0;  // usable pages: all but the null page
  std::size_t free = 0;
  std::size_t live = 0;
  std::size_t cached = 0;
  std::size_t fenced = 0;
  std::size_t retired = 0;

  friend bool operator==(const pool_stats&, const pool_stats&) = default;
};

// What an audit found.  `finding` is empty when every page is in exactly one state and the counts agree;
// otherwise it says what is wrong with `page`, the first page that breaks the rule.
struct pool_audit {
  page_id page = null_page;
  std::string_view finding = {};
  std::string_view cannot_know = {};  // what this policy leaves no evidence of; empty under a tagged policy

  [[nodiscard]] bool clean() const noexcept { return finding.empty(); }
};

namespace detail {

// What a pool's audit checks, a page or a chain at a time; keeps the first finding.
template <integrity_policy P>
class page_auditor {
 public:
  explicit page_auditor(std::span<const page_record<P>> records)
      : records_{records}, listed_(records.size()) {
    if constexpr (!P::is_tagged)
      audit_.cannot_know =
          "untagged: a page freed through another request's stale handle, or still read by a "
          "stale block table, looks like any other page";
  }

  // A page that the free list or a chain names: there, in that state, and in no other list.
  void expect_listed(page_id page, page_state state) {
    if (page == null_page || page >= records_.size())
      return found(page, "listed, but not a page of the pool");
    if (records_[page].use.state() != state) return found(page, "listed in another state than its own");
    if (listed_[page]) return found(page, "listed twice");
    listed_[page] = true;
  }

  void expect_chain(const page_chain& chain, page_state state) {
    page_id page = chain.first;
    for (std::size_t left = chain.count; left != 0 && audit_.clean(); --left) {
      expect_listed(page, state);
      if (audit_.clean()) page = records_[page].use.next();
    }
  }

  // Every record by itself, then all of them against the counters.
  void expect_records(const pool_stats& stats) {
    pool_stats counted{.capacity = records_.size() - 1};
    for (page_id page = 1; page < records_.size(); ++page) {
      const page_use use = records_[page].use;
      switch (use.state()) {
        case page_state::free: ++counted.free; break;
        case page_state::live: ++counted.live; break;
        case page_state::cached: ++counted.cached; break;
        case page_state::fenced: ++counted.fenced; break;
        case page_state::retired: ++counted.retired; break;
      }
      const bool must_be_listed = use.state() == page_state::free || use.state() == page_state::fenced;
      if (must_be_listed && !listed_[page]) found(page, "free or fenced, but in no list: leaked");
      if (use.state() == page_state::cached && !use.is_published()) found(page, "cached, but not published");
      if (use.state() == page_state::free && use.is_published()) found(page, "free, but published");
      if constexpr (P::is_tagged) {
        const page_tag tag = records_[page].tag;
        const bool granted = use.state() == page_state::live || use.is_published();
        if (granted != (tag % 2 == 1)) found(page, "its tag does not agree with its state");
        if (use.state() == page_state::retired && tag != 0) found(page, "retired with generations left");
      }
    }
    if (records_[null_page].use != page_use::retired()) found(null_page, "the null page has been granted");
    if constexpr (P::is_tagged) {
      if (records_[null_page].tag != 0) found(null_page, "the null page's tag has changed");
    }
    if (counted != stats) found(null_page, "the counters do not agree with the pages");
  }

  [[nodiscard]] const pool_audit& audit() const { return audit_; }

 private:
  void found(page_id page, std::string_view finding) {
    if (!audit_.clean()) return;
    audit_.page = page;
    audit_.finding = finding;
  }

  std::span<const page_record<P>> records_;
  std::vector<bool> listed_;
  pool_audit audit_;
};

}  // namespace detail
}  // namespace kvpage::inline v0
