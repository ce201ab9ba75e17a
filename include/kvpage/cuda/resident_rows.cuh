// kvpage: what the rows on the device hold, and which of their entries have yet to travel there.
#pragma once

#include <gsl/assert>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../block_table.hpp"
#include "../config.hpp"
#include "../error.hpp"
#include "../table_version.hpp"
#include "staging_ring.cuh"

namespace kvpage::inline v0::cuda {

// The host's half of the device's rows: a shadow of every entry.  Entries past a row's pages are null.
template <class Pool>
class resident_rows {
 public:
  using handle = typename Pool::handle;

  struct row_info {
    table_version version;
    std::uint32_t pages = 0;
    std::uint32_t tokens = 0;
    std::uint32_t dropped_pages = 0;
  };

  resident_rows(std::uint32_t rows, std::uint32_t pages_per_row, std::uint32_t max_changes)
      : rows_(rows),
        shadow_(std::size_t{rows} * pages_per_row),
        is_changed_(shadow_.size()),
        pages_per_row_{pages_per_row} {
    changed_.reserve(max_changes);
  }

  // Makes `row` hold the table's pages, whatever it held before.
  //   row_too_long; batch_full: more than max_changes entries would wait to travel.
  // O(changed entries); O(pages) if the table was rewritten more than once since it was last assigned here.
  [[nodiscard]] errc assign(std::uint32_t row, const block_table<Pool>& table) noexcept {
    if (table.pages() > pages_per_row_) return errc::row_too_long;
    return replace(
        row, table.handles(),
        {table.version(), static_cast<std::uint32_t>(table.pages()),
         static_cast<std::uint32_t>(table.tokens()), static_cast<std::uint32_t>(table.dropped_pages())});
  }

  // Makes `row` hold nothing.  batch_full as above.
  [[nodiscard]] errc clear(std::uint32_t row) noexcept { return replace(row, {}, {}); }

  [[nodiscard]] const row_info& operator[](std::uint32_t row) const noexcept { return rows_[row]; }
  [[nodiscard]] std::size_t first_entry(std::uint32_t row) const noexcept {
    return std::size_t{row} * pages_per_row_;
  }

  // Writes the entries that changed since the last call to `out`, each once, and returns how many.
  [[nodiscard]] std::uint32_t stage_changes(entry_change<handle>* out) noexcept {
    for (const std::size_t entry : changed_) {
      *out++ = {entry, shadow_[entry]};
      is_changed_[entry] = false;
    }
    const auto count = static_cast<std::uint32_t>(changed_.size());
    changed_.clear();
    return count;
  }

 private:
  struct range {
    std::size_t begin, end;
  };

  // Outside of [kept, ...) and of the front dropped meanwhile, the row's entries are still the table's.
  [[nodiscard]] static std::size_t unchanged_prefix(const row_info& held, const row_info& next) noexcept {
    if (held.version.table != next.version.table) return 0;
    if (held.version.revision == next.version.revision) return held.pages;
    if (held.version.revision + 1 == next.version.revision)
      return (std::min)(std::size_t{held.pages}, next.version.first_rewritten);
    return 0;
  }

  [[nodiscard]] errc replace(std::uint32_t row, std::span<const handle> pages,
                             const row_info& next) noexcept {
    Expects(row < rows_.size());
    row_info& held = rows_[row];
    const std::size_t kept = unchanged_prefix(held, next);
    const range dropped{(std::min)(std::size_t{held.dropped_pages}, kept),
                        (std::min)(std::size_t{next.dropped_pages}, kept)};
    const range rest{kept, (std::max)(std::size_t{held.pages}, pages.size())};

    handle* const shadow = shadow_.data() + first_entry(row);
    const auto wanted = [&](std::size_t i) { return i < pages.size() ? pages[i] : handle{}; };
    std::size_t added = 0;
    for (const range part : {dropped, rest}) {
      for (std::size_t i = part.begin; i < part.end; ++i)
        added += shadow[i] != wanted(i) && !is_changed_[first_entry(row) + i];
    }
    if (added > changed_.capacity() - changed_.size()) return errc::batch_full;

    for (const range part : {dropped, rest}) {
      for (std::size_t i = part.begin; i < part.end; ++i) {
        if (shadow[i] == wanted(i)) continue;
        shadow[i] = wanted(i);
        if (!is_changed_[first_entry(row) + i]) changed_.push_back(first_entry(row) + i);
        is_changed_[first_entry(row) + i] = true;
      }
    }
    held = next;
    return errc::ok;
  }

  std::vector<row_info> rows_;
  std::vector<handle> shadow_;
  std::vector<bool> is_changed_;      // the entries in changed_
  std::vector<std::size_t> changed_;  // never beyond its capacity: max_changes
  std::uint32_t pages_per_row_;
};

}  // namespace kvpage::inline v0::cuda
