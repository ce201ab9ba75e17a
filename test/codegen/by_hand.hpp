// What an engineer who needs neither element types nor integrity policies would write instead of page_pool,
// block_table and decode_batch: page ids, no template, no tag anywhere, and the same checks.  What a policy
// does not reach (the ring of free pages, a page's use, the fences) is taken from the library.  Whoever changes a
// check in the library changes it here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <kvpage/error.hpp>
#include <kvpage/fence_list.hpp>
#include <kvpage/fixed_array.hpp>
#include <kvpage/free_list.hpp>
#include <kvpage/page_record.hpp>
#include <memory>
#include <memory_resource>
#include <span>
#include <vector>

namespace by_hand {

using kvpage::errc;
using kvpage::detail::page_use;

class page {
 public:
  page() = default;
  explicit page(std::uint32_t id) noexcept : id_{id} {}
  std::uint32_t id() const noexcept { return id_; }

 private:
  std::uint32_t id_ = 0;
};

class pool {
 public:
  errc allocate(std::span<page> out) noexcept {
    const bool granted = free_.take(out.size(), [&](std::size_t i, std::uint32_t id) {
      uses_[id] = page_use::once();
      out[i] = page{id};
    });
    if (!granted) [[unlikely]]
      return refuse_grant(out.size());
    return errc::ok;
  }

  errc retain(std::span<const page> pages) noexcept {
    const std::span<page_use> uses{uses_};
    for (std::size_t i = 0; i < pages.size(); ++i) {
      if (!add(uses, pages[i])) [[unlikely]]
        return refuse_retain(pages, i);
    }
    return errc::ok;
  }

  errc release(std::span<const page> pages) noexcept {
    const std::span<page_use> uses{uses_};
    std::uint32_t* const freed = free_.back();
    std::uint32_t* end = freed;
    const std::size_t plain = (std::min)(pages.size(), free_.room());
    std::size_t i = 0;
    while (i < plain && drop(uses, pages[i], end)) ++i;
    free_.grow(static_cast<std::size_t>(end - freed));
    if (i != pages.size()) [[unlikely]]
      return release_from(i, pages, 0);
    return errc::ok;
  }

  errc check_room(std::size_t pages) const noexcept {
    return pages <= free_.size() ? errc::ok : refuse_grant(pages);
  }
  bool is_shared(std::uint32_t id) const noexcept {
    return uses_[id].is_shared() || uses_[id].is_published();
  }
  std::uint32_t tokens_per_page() const noexcept { return tokens_per_page_; }

 private:
  static bool add(std::span<page_use> uses, page added) noexcept {
    if (added.id() >= uses.size()) [[unlikely]]
      return false;
    page_use& use = uses[added.id()];
    const page_use more = use.more();
    if (!more.is_shared()) [[unlikely]]
      return false;
    use = more;
    return true;
  }

  static bool drop(std::span<page_use> uses, page dropped, std::uint32_t*& freed) noexcept {
    if (dropped.id() >= uses.size()) [[unlikely]]
      return false;
    page_use& use = uses[dropped.id()];
    if (use == page_use::once()) [[likely]] {
      use = page_use::free();
      *freed++ = dropped.id();
      return true;
    }
    if (!use.is_shared()) [[unlikely]]
      return false;
    use = use.fewer();
    return true;
  }

  // The rare paths, for both elsewhere.
  [[gnu::noinline]] errc refuse_grant(std::size_t pages) const noexcept;
  [[gnu::noinline]] errc refuse_retain(std::span<const page> pages, std::size_t refused) noexcept;
  [[gnu::noinline]] errc release_from(std::size_t first, std::span<const page> pages,
                                      std::uint64_t step) noexcept;

  kvpage::detail::fixed_array<page_use> uses_;
  kvpage::detail::free_list free_;
  kvpage::detail::fence_list fences_;
  std::uint64_t awaited_step_;
  kvpage::detail::page_chain newly_cached_;
  std::size_t cached_;
  std::size_t fenced_;
  std::size_t retired_;
  std::uint32_t tokens_per_page_;
};

class table {
 public:
  errc append(std::size_t tokens) {
    return writes_shared_page(tokens) ? errc::shared_page : grow(tokens, pages_.size());
  }

  kvpage::result<std::int64_t> slot(std::size_t position) const {
    const std::size_t entry = position / tokens_per_page();
    if (position >= tokens_ || entry < dropped_) return errc::outside_row;
    return static_cast<std::int64_t>(std::uint64_t{pages_[entry].id()} * tokens_per_page() +
                                     position % tokens_per_page());
  }

  const pool& owner() const noexcept { return *pool_; }
  std::span<const page> handles() const noexcept { return pages_; }
  std::size_t pages() const noexcept { return pages_.size(); }
  std::size_t tokens() const noexcept { return tokens_; }
  std::size_t dropped_pages() const noexcept { return dropped_; }
  std::size_t last_page_len() const noexcept { return kvpage::last_page_len_for(tokens_, tokens_per_page()); }
  std::size_t tokens_per_page() const noexcept { return pool_->tokens_per_page(); }

 private:
  bool writes_shared_page(std::size_t tokens) const noexcept {
    if (tokens == 0 || tokens_ % tokens_per_page() == 0) return false;
    return pool_->is_shared(pages_.back().id());
  }

  errc grow(std::size_t tokens, std::size_t kept) {
    if (tokens > kvpage::max_tokens_per_row - tokens_) return errc::outside_row;
    const std::size_t after = kvpage::pages_for(tokens_ + tokens, tokens_per_page());
    if (after != kept) {
      KVPAGE_TRY(pool_->check_room(after - kept));
      pages_.resize(after);
      KVPAGE_TRY(pool_->allocate(std::span{pages_}.subspan(kept)));
    }
    tokens_ += tokens;
    return errc::ok;
  }

  pool* pool_;
  std::pmr::vector<page> pages_;
  std::size_t tokens_;
  std::size_t dropped_;
};

class batch {
 public:
  void clear() noexcept {
    rows_ = entries_ = slots_ = 0;
    pool_ = nullptr;
  }

  errc add(const table& table, std::size_t new_tokens) noexcept {
    Expects(is_of(table.owner()));
    if (!has_room(table.pages(), new_tokens)) return errc::batch_full;
    const std::size_t held = table.tokens() - table.dropped_pages() * table.tokens_per_page();
    if (new_tokens > held) return errc::outside_row;
    for (const page& page : table.handles()) {
      arrays_.indices[entries_] = static_cast<std::int32_t>(page.id());
      ++entries_;
    }
    for (std::size_t position = table.tokens() - new_tokens; position < table.tokens(); ++position)
      arrays_.slots[slots_++] = *table.slot(position);
    finish_row(table.tokens(), table.last_page_len());
    pool_ = &table.owner();
    return errc::ok;
  }

  bool is_of(const pool& pool) const noexcept { return pool_ == nullptr || pool_ == &pool; }

  errc export_padded(std::span<std::int32_t> out, std::size_t rows, std::size_t width) const noexcept {
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
      std::fill(tail, target.end(), 0);
    }
    return errc::ok;
  }

 private:
  bool has_room(std::size_t entries, std::size_t slots) const noexcept {
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

  static std::span<std::int32_t> row_of(std::span<std::int32_t> ragged, std::span<const std::int32_t> indptr,
                                        std::size_t row) noexcept {
    const auto begin = static_cast<std::size_t>(indptr[row]);
    return ragged.subspan(begin, static_cast<std::size_t>(indptr[row + 1]) - begin);
  }

  struct arrays {
    std::span<std::int32_t> indptr, indices, last_page_len, seq_lens, slot_indptr;
    std::span<std::int64_t> slots;
    std::span<page> unused;  // the library has the place for the handles here, if there are any
  };

  std::unique_ptr<arrays> own_;
  arrays arrays_;
  const pool* pool_;
  std::size_t rows_;
  std::size_t entries_;
  std::size_t slots_;
};

}  // namespace by_hand
