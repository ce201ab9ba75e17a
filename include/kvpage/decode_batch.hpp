// kvpage: the rows of one decode step, in the forms that attention kernels read.
#pragma once

#include <gsl/assert>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "block_table.hpp"
#include "config.hpp"
#include "error.hpp"

namespace kvpage::inline v0 {

// The most that one batch can hold.
struct batch_limits {
  std::size_t rows;
  std::size_t entries;  // pages over all rows, at most 2^31 - 1
  std::size_t slots;    // new tokens over all rows
};

// The arrays that a batch fills, in the caller's memory.  The first `rows` of everything a row has, the
// first indptr[rows] of everything a page has, and the first slot_indptr[rows] slots are in use.
template <class Handle>
struct batch_arrays {
  std::span<std::int32_t> indptr;         // [rows + 1]  row r's pages are indptr[r] .. indptr[r + 1] - 1
  std::span<std::int32_t> indices;        // [entries]   page ids
  std::span<std::int32_t> last_page_len;  // [rows]      tokens in each row's last page
  std::span<std::int32_t> seq_lens;       // [rows]      tokens of each row
  std::span<std::int32_t> slot_indptr;    // [rows + 1]  row r's new tokens
  std::span<slot_index> slots;            // [slots]     where to write them; -1: nowhere
  std::span<Handle> granted;              // [entries]   the handles of the grants: what a verifier expects;
                                          //             untagged: unused, may be empty
};

// One source, three forms: CSR (FlashInfer: indptr, indices, last_page_len), slot mapping, and by
// export_padded() padded rows (vLLM, TensorRT-LLM).  Contents are int32, slots int64.  Allocates in its
// constructor only.  All its rows are tables of one pool: page ids of two pools mean different pages.
template <class Pool>
class decode_batch {
 public:
  using pool_type = Pool;
  using handle = typename Pool::handle;
  using arrays = batch_arrays<handle>;
  static constexpr bool is_tagged = Pool::policy::is_tagged;

  // In memory of its own.  Throws std::invalid_argument for limits out of range, std::bad_alloc.
  explicit decode_batch(const batch_limits& limits) {
    require_in_range(limits);
    own_ = std::make_unique<own_arrays>(limits);
    adopt(own_->view());
  }

  // In the caller's memory, which must outlive the batch.  Throws std::invalid_argument if one array is
  // shorter than its partners need.
  explicit decode_batch(const arrays& memory) { adopt(memory); }
  decode_batch(const decode_batch&) = delete;
  decode_batch& operator=(const decode_batch&) = delete;

  void clear() noexcept {
    rows_ = entries_ = slots_ = 0;
    pool_ = nullptr;
  }

  // Adds the request as the next row, with its newest `new_tokens` tokens to be written in this step.
  //   batch_full; outside_row: fewer than new_tokens tokens held.
  // O(pages() + new_tokens).
  [[nodiscard]] errc add(const block_table<Pool>& table, std::size_t new_tokens = 1) noexcept {
    Expects(is_of(table.pool()));
    if (!has_room(table.pages(), new_tokens)) return errc::batch_full;
    const std::size_t held = table.tokens() - table.dropped_pages() * table.tokens_per_page();
    if (new_tokens > held) return errc::outside_row;
    for (const handle& page : table.handles()) {
      arrays_.indices[entries_] = static_cast<std::int32_t>(page.id());
      if constexpr (is_tagged) arrays_.granted[entries_] = page;
      ++entries_;
    }
    for (std::size_t position = table.tokens() - new_tokens; position < table.tokens(); ++position)
      arrays_.slots[slots_++] = *table.slot(position);
    finish_row(table.tokens(), table.last_page_len());
    pool_ = &table.pool();
    return errc::ok;
  }

  // Adds a row that reads nothing and writes its `new_tokens` tokens nowhere.  batch_full.
  [[nodiscard]] errc add_padding(std::size_t new_tokens = 1) noexcept {
    if (!has_room(0, new_tokens)) return errc::batch_full;
    std::ranges::fill(arrays_.slots.subspan(slots_, new_tokens), skipped_slot);
    slots_ += new_tokens;
    finish_row(0, 0);
    return errc::ok;
  }

  // Makes a row harmless in every form: null page ids, length 0, slots -1.  indptr and last_page_len stay,
  // because attention libraries plan on them.  row < rows().
  void cut_off(std::size_t row) noexcept {
    Expects(row < rows_);
    std::ranges::fill(row_of(arrays_.indices, arrays_.indptr, row), static_cast<std::int32_t>(null_page));
    std::ranges::fill(row_of(arrays_.slots, arrays_.slot_indptr, row), skipped_slot);
    arrays_.seq_lens[row] = 0;
  }

  // Writes `rows` rows of `width` page ids each to `out` ([rows x width], row-major).  Everything past a
  // row's pages, and every row past rows(), becomes the null page.
  //   batch_full: rows < rows(); row_too_long: a row has more than `width` pages; buffer_too_small.
  // O(rows x width).
  [[nodiscard]] errc export_padded(std::span<std::int32_t> out, std::size_t rows,
                                   std::size_t width) const noexcept {
    if (rows < rows_) return errc::batch_full;
    if (rows != 0 && out.size() / rows < width) return errc::buffer_too_small;
    for (std::size_t row = 0; row < rows_; ++row) {
      if (row_of(arrays_.indices, arrays_.indptr, row).size() > width) return errc::row_too_long;
    }
    for (std::size_t row = 0; row < rows; ++row) {
      const std::span target = out.subspan(row * width, width);
      const std::span source =
          row < rows_ ? row_of(arrays_.indices, arrays_.indptr, row) : std::span<std::int32_t>{};
      const auto tail = std::copy(source.begin(), source.end(), target.begin());
      std::fill(tail, target.end(), static_cast<std::int32_t>(null_page));
    }
    return errc::ok;
  }

  // Whether every table in the batch is one of this pool's.
  [[nodiscard]] bool is_of(const Pool& pool) const noexcept { return pool_ == nullptr || pool_ == &pool; }

  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::size_t entries() const noexcept { return entries_; }

  [[nodiscard]] std::span<const std::int32_t> indptr() const noexcept {
    return arrays_.indptr.first(rows_ + 1);
  }
  [[nodiscard]] std::span<const std::int32_t> indices() const noexcept {
    return arrays_.indices.first(entries_);
  }
  [[nodiscard]] std::span<const std::int32_t> last_page_len() const noexcept {
    return arrays_.last_page_len.first(rows_);
  }
  [[nodiscard]] std::span<const std::int32_t> seq_lens() const noexcept {
    return arrays_.seq_lens.first(rows_);
  }
  [[nodiscard]] std::span<const std::int32_t> slot_indptr() const noexcept {
    return arrays_.slot_indptr.first(rows_ + 1);
  }
  [[nodiscard]] std::span<const slot_index> slots() const noexcept { return arrays_.slots.first(slots_); }
  [[nodiscard]] std::span<const handle> granted() const noexcept requires is_tagged {
    return arrays_.granted.first(entries_);
  }

 private:
  struct own_arrays {
    explicit own_arrays(const batch_limits& limits)
        : indptr(limits.rows + 1),
          indices(limits.entries),
          last_page_len(limits.rows),
          seq_lens(limits.rows),
          slot_indptr(limits.rows + 1),
          slots(limits.slots),
          granted(is_tagged ? limits.entries : 0) {}

    [[nodiscard]] arrays view() {
      return {indptr, indices, last_page_len, seq_lens, slot_indptr, slots, granted};
    }

    std::vector<std::int32_t> indptr, indices, last_page_len, seq_lens, slot_indptr;
    std::vector<slot_index> slots;
    std::vector<handle> granted;
  };

  static constexpr std::size_t most = max_tokens_per_row;  // what an int32 indptr can count

  static void require_in_range(const batch_limits& limits) {
    detail::require_between("decode_batch: rows", limits.rows, 1, most - 1);
    detail::require_between("decode_batch: entries", limits.entries, 0, most);
    detail::require_between("decode_batch: slots", limits.slots, 0, most);
  }

  void adopt(const arrays& memory) {
    const std::size_t rows = memory.seq_lens.size();
    const std::size_t entries = memory.indices.size();
    require_in_range({.rows = rows, .entries = entries, .slots = memory.slots.size()});
    detail::require_between("decode_batch: indptr elements", memory.indptr.size(), rows + 1, most);
    detail::require_between("decode_batch: slot_indptr elements", memory.slot_indptr.size(), rows + 1, most);
    detail::require_between("decode_batch: last_page_len elements", memory.last_page_len.size(), rows, most);
    detail::require_between("decode_batch: granted elements", memory.granted.size(), is_tagged ? entries : 0,
                            most);
    arrays_ = memory;
    arrays_.indptr[0] = arrays_.slot_indptr[0] = 0;
  }

  [[nodiscard]] bool has_room(std::size_t entries, std::size_t slots) const noexcept {
    return rows_ < arrays_.seq_lens.size() && entries <= arrays_.indices.size() - entries_ &&
           slots <= arrays_.slots.size() - slots_;
  }

  void finish_row(std::size_t tokens, std::size_t last_page_len) noexcept {
    arrays_.seq_lens[rows_] = static_cast<std::int32_t>(tokens);
    arrays_.last_page_len[rows_] = static_cast<std::int32_t>(last_page_len);
    ++rows_;
    arrays_.indptr[rows_] = static_cast<std::int32_t>(entries_);
    arrays_.slot_indptr[rows_] = static_cast<std::int32_t>(slots_);
  }

  // Row `row`'s part of a ragged array.
  template <class T>
  [[nodiscard]] static std::span<T> row_of(std::span<T> ragged, std::span<const std::int32_t> indptr,
                                           std::size_t row) noexcept {
    const auto begin = static_cast<std::size_t>(indptr[row]);
    return ragged.subspan(begin, static_cast<std::size_t>(indptr[row + 1]) - begin);
  }

  std::unique_ptr<own_arrays> own_;
  arrays arrays_;
  const Pool* pool_ = nullptr;  // of the rows, once there is one
  std::size_t rows_ = 0;
  std::size_t entries_ = 0;
  std::size_t slots_ = 0;
};

}  // namespace kvpage::inline v0
