// kvpage-replay: the truth about who reads what, kept apart from the library that it judges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <kvpage/config.hpp>
#include <kvpage/page_group.hpp>
#include <vector>

namespace replay {

// What the rows of a step must find where they read: row r, in entry i, contents[first[r] + i].
struct expected_reads {
  std::vector<std::uint64_t> contents;
  std::vector<std::uint32_t> first{0};  // of each row; the last one ends the last row

  void clear() {
    contents.clear();
    first.resize(1);
  }
  void end_row() { first.push_back(static_cast<std::uint32_t>(contents.size())); }
};

// What stands for attention in one step, on the host or on the device.  Instead of K and V, a written page
// holds what it was computed from, as page_content() tells it.  Each row writes its new token, then reads as
// many pages as its length takes, by the exported tables alone.  A read that finds anything but what it must
// is a foreign read.
struct attention_step {
  // The exported tables, as verification left them.
  const std::int32_t* seq_lens;
  const kvpage::slot_index* slots;  // one new token a row
  const std::int32_t* indptr;
  const std::int32_t* indices;
  std::uint32_t rows;
  std::uint32_t tokens_per_page;
  std::size_t window;  // tokens that a token attends to; 0: all before it

  const std::uint64_t* expected;        // expected_reads::contents
  const std::uint32_t* first_expected;  // expected_reads::first

  std::uint64_t* cache;  // [pages]  what each page holds; 0: unwritten
  std::uint64_t pages;   // the null page included

  // Where row `row` writes its new token; null if it writes nowhere.
  [[nodiscard]] KVPAGE_HOST_DEVICE std::uint64_t* written_page(std::uint32_t row) const {
    const kvpage::slot_index slot = slots[row];
    return slot == kvpage::skipped_slot ? nullptr : cache + slot / tokens_per_page;
  }
  [[nodiscard]] KVPAGE_HOST_DEVICE std::uint64_t written_content(std::uint32_t row) const {
    return expected[first_expected[row + 1] - 1];
  }

  // It reads the entries from this one up to entries_end().
  [[nodiscard]] KVPAGE_HOST_DEVICE std::size_t first_entry(std::uint32_t row) const {
    const auto length = static_cast<std::size_t>(seq_lens[row]);
    return length == 0 ? 0 : kvpage::pages_behind_window(length - 1, window, tokens_per_page);
  }
  [[nodiscard]] KVPAGE_HOST_DEVICE std::size_t entries_end(std::uint32_t row) const {
    return kvpage::pages_for(static_cast<std::size_t>(seq_lens[row]), tokens_per_page);
  }

  [[nodiscard]] KVPAGE_HOST_DEVICE bool is_foreign(std::uint32_t row, std::size_t entry) const {
    const std::size_t place = static_cast<std::size_t>(indptr[row]) + entry;
    const std::size_t must_find = first_expected[row] + entry;
    if (place >= static_cast<std::size_t>(indptr[rows]) || must_find >= first_expected[row + 1]) return true;
    const auto page = static_cast<std::uint32_t>(indices[place]);
    return page >= pages || cache[page] != expected[must_find];
  }
};

// Runs it on the host.  Returns the foreign reads.
inline std::uint64_t attend(const attention_step& step) {
  for (std::uint32_t row = 0; row < step.rows; ++row) {
    if (std::uint64_t* const page = step.written_page(row)) *page = step.written_content(row);
  }
  std::uint64_t foreign = 0;
  for (std::uint32_t row = 0; row < step.rows; ++row) {
    for (std::size_t entry = step.first_entry(row); entry < step.entries_end(row); ++entry)
      foreign += step.is_foreign(row, entry);
  }
  return foreign;
}

}  // namespace replay
