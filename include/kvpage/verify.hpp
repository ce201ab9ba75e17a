// kvpage: proof, before the cache is read, that every row of a batch still reads its own pages (host).
//
// What it compares: the page ids that attention is about to read, with the handles that were captured
// when the pages were granted, with the pages' present tags.  Expectations are never rebuilt from live
// state, which would always match.
#pragma once

#include <gsl/assert>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "config.hpp"
#include "decode_batch.hpp"
#include "error.hpp"
#include "integrity.hpp"
#include "verdict.hpp"

namespace kvpage::inline v0 {

namespace detail {

// Whether entry `page` is the granted page and that grant still holds.  The null page is valid as (0, 0);
// any other expectation must be a live generation.
template <class Pool>
[[nodiscard]] bool entry_holds(const Pool& pool, std::int32_t page, typename Pool::handle granted) noexcept {
  const auto id = static_cast<page_id>(page);
  if (id >= pool.size() || id != granted.id() || pool.tag(id) != granted.tag()) [[unlikely]]
    return false;
  return granted.tag() % 2 == 1 || granted.is_null();
}

// The finding for an entry that does not hold.
template <class Pool>
[[nodiscard]] verdict describe(const Pool& pool, std::size_t position, std::int32_t page,
                               typename Pool::handle granted) noexcept {
  const bool inside = static_cast<page_id>(page) < pool.size();
  return {.state = inside ? row_state::stale_page : row_state::bad_page,
          .position = static_cast<std::uint32_t>(position),
          .page = page,
          .granted_page = granted.id(),
          .expected_tag = granted.tag(),
          .found_tag = inside ? pool.tag(static_cast<page_id>(page)) : 0};
}

// How many entries before its turn a page's record is fetched: enough for memory, few enough for a cache.
inline constexpr std::size_t verify_lookahead = 32;

// `upcoming`: the batch's page ids from this row's first on; `granted` is this row's.
template <class Pool>
[[nodiscard]] verdict verify_row(const Pool& pool, std::span<const std::int32_t> upcoming,
                                 std::span<const typename Pool::handle> granted,
                                 std::int32_t seq_len) noexcept {
  const std::span<const std::int32_t> pages = upcoming.first(granted.size());
  const std::size_t fetchable = upcoming.size() - (std::min)(upcoming.size(), verify_lookahead);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (i < fetchable) pool.prefetch(static_cast<page_id>(upcoming[i + verify_lookahead]));
    if (!entry_holds(pool, pages[i], granted[i])) [[unlikely]]
      return describe(pool, i, pages[i], granted[i]);
  }
  const std::size_t needed = pages_for(static_cast<std::uint32_t>(seq_len), pool.tokens_per_page());
  if (needed > pages.size()) [[unlikely]]
    return {.state = row_state::short_row, .position = static_cast<std::uint32_t>(pages.size())};
  return {};
}

}  // namespace detail

// Writes one verdict per row; rows do not influence each other.  `step` is returned in the summary.  `pool` is
// the one that the batch's tables belong to.
//   buffer_too_small: fewer verdicts than rows, and nothing has been verified.
// O(entries), one random read each.  Untagged: does nothing and reports 0 rows.
template <class Pool>
[[nodiscard]] result<verify_summary> verify([[maybe_unused]] const decode_batch<Pool>& batch,
                                            [[maybe_unused]] const Pool& pool, step_number step,
                                            [[maybe_unused]] std::span<verdict> verdicts) noexcept {
  verify_summary summary{.step = step};
  if constexpr (Pool::policy::is_tagged) {
    Expects(batch.is_of(pool));
    if (verdicts.size() < batch.rows()) return errc::buffer_too_small;
    summary.rows = batch.rows();
    summary.entries = batch.entries();
    for (std::size_t row = 0; row < batch.rows(); ++row) {
      const auto begin = static_cast<std::size_t>(batch.indptr()[row]);
      const std::size_t count = static_cast<std::size_t>(batch.indptr()[row + 1]) - begin;
      verdicts[row] = detail::verify_row(pool, batch.indices().subspan(begin),
                                         batch.granted().subspan(begin, count), batch.seq_lens()[row]);
      summary.failed_rows += verdicts[row].state != row_state::ok;
    }
  }
  return summary;
}

}  // namespace kvpage::inline v0
