// kvpage: what a verifier finds for a row; the same struct on host and device.
#pragma once

#include <cstdint>

#include "config.hpp"

namespace kvpage::inline v0 {

enum class row_state : std::uint32_t {
  ok,
  stale_page,  // an entry is not the page that was granted, or that page has changed hands since
  bad_page,    // an entry lies outside the pool
  short_row,   // fewer pages than the row's length needs
};

// The first thing wrong with a row, by position; all zero but for `state` where it does not apply.
struct verdict {
  row_state state = row_state::ok;
  std::uint32_t position = 0;  // entry within the row; for short_row: how many entries there are
  std::int32_t page = 0;       // the page id that the table holds there
  page_id granted_page = 0;    // the page that was granted for it
  page_tag expected_tag = 0;   // with this tag
  page_tag found_tag = 0;      // the present tag of `page`

  friend bool operator==(const verdict&, const verdict&) = default;
};

static_assert(sizeof(verdict) == 24);

// What one verification covered.  A step whose number never shows up here has not been verified.
struct verify_summary {
  step_number step = 0;
  std::uint64_t rows = 0;
  std::uint64_t entries = 0;
  std::uint64_t failed_rows = 0;

  friend bool operator==(const verify_summary&, const verify_summary&) = default;
};

}  // namespace kvpage::inline v0
