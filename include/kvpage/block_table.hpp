// kvpage: one request's pages, in the order of its tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "config.hpp"
#include "error.hpp"
#include "page_copy.hpp"
#include "page_pool.hpp"
#include "table_version.hpp"

namespace kvpage::inline v0 {

// Owns one reference to each of its pages; move-only.  Entry k holds tokens k x S to k x S + S - 1, where
// S is the pool's tokens_per_page.  The handles are those of the grants: they are what a verifier
// compares against.  The pool must outlive the table.
//
// Functions that give up pages take a fence: the newest launched step that may still touch them (0: none;
// see page_pool::release_after).  On any error the table is unchanged.
template <class Pool>
class block_table {
 public:
  using pool_type = Pool;
  using handle = typename Pool::handle;

  // Growth up to `reserved_pages` pages allocates no host memory.
  explicit block_table(Pool& pool, std::size_t reserved_pages = 0,
                       std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : pool_{&pool}, pages_(memory) {
    pages_.reserve(reserved_pages);
  }

  block_table(block_table&& other) noexcept
      : pool_{other.pool_},
        pages_{std::move(other.pages_)},
        tokens_{std::exchange(other.tokens_, 0)},
        dropped_{std::exchange(other.dropped_, 0)},
        history_{std::move(other.history_)} {
    other.pages_.clear();
  }
  block_table& operator=(block_table&& other) noexcept {
    if (this != &other) {  // the memory resource moves too, which assigning the vector could not do
      std::destroy_at(this);
      std::construct_at(this, std::move(other));
    }
    return *this;
  }
  block_table(const block_table&) = delete;
  block_table& operator=(const block_table&) = delete;

  // As abandon(): without a fence.
  ~block_table() { abandon(); }

  // Makes room for `tokens` more tokens, granting pages where the last one is full.
  //   exhausted, never_fits (see page_pool::allocate); outside_row: more than max_tokens_per_row;
  //   shared_page: the last page is partly filled, and a fork or the prefix index shares it.
  // O(1) a granted page.
  [[nodiscard]] errc append(std::size_t tokens) {
    return writes_shared_page(tokens) ? errc::shared_page : grow(tokens, pages_.size());
  }

  // The same, with copy on write: a shared last page is replaced by a fresh one, and `copy` says what to
  // copy there, in stream order before the new tokens are written (0 tokens: nothing).  The table's
  // reference to copy.source passes to the caller, who gives it back with release_after(copy.source, the
  // step that the copy runs in).  Also stale_handle, double_release: the shared page is not the table's own.
  [[nodiscard]] errc append(std::size_t tokens, page_copy<handle>& copy) {
    copy = {};
    if (!writes_shared_page(tokens)) return grow(tokens, pages_.size());
    KVPAGE_TRY(pool_->check_referenced(pages_.back()));
    const std::size_t last = pages_.size() - 1;
    const page_copy<handle> owed{pages_[last], {}, static_cast<std::uint32_t>(last_page_len())};
    KVPAGE_TRY(grow(tokens, last));
    history_.rewritten_from(last);
    copy = {owed.source, pages_[last], owed.tokens};
    return errc::ok;
  }

  // Whether append(tokens, copy) would ask for a copy: the tokens begin in a page that others may be reading.
  // O(1).
  [[nodiscard]] bool writes_shared_page(std::size_t tokens) const noexcept {
    if (tokens == 0 || tokens_ % tokens_per_page() == 0) return false;
    return pool_->is_shared(pages_.back().id());
  }

  // How many pages append(tokens, copy) would be granted.  O(1).
  [[nodiscard]] std::size_t pages_to_append(std::size_t tokens) const noexcept {
    return pages_for(tokens_ + tokens, tokens_per_page()) - pages_.size() + writes_shared_page(tokens);
  }

  // Makes `child`, an empty table of the same pool, share all of this table's pages.  Full pages stay
  // shared; a partly filled last one until either table appends.
  //   as page_pool::retain.
  // O(pages()).
  [[nodiscard]] errc fork(block_table& child) const {
    Expects(child.pool_ == pool_ && child.pages_.empty());
    child.pages_.reserve(pages_.size());
    KVPAGE_TRY(pool_->retain(handles().subspan(dropped_)));
    child.pages_.assign(pages_.begin(), pages_.end());
    child.tokens_ = tokens_;
    child.dropped_ = dropped_;
    return errc::ok;
  }

  // Appends full pages to which the caller holds references; these pass to the table.  The table must end
  // at a page boundary.
  void adopt(std::span<const handle> pages) {
    Expects(tokens_ == pages_.size() * tokens_per_page());
    pages_.insert(pages_.end(), pages.begin(), pages.end());
    tokens_ += pages.size() * tokens_per_page();
  }

  // Keeps the first `tokens` tokens, as after rejected speculation; pages left without a token are released.
  //   outside_row: longer than the row, or into its dropped front; otherwise as page_pool::release.
  // O(1) a released page.
  [[nodiscard]] errc truncate(std::size_t tokens, step_number fence = 0) {
    if (tokens > tokens_ || tokens < dropped_ * tokens_per_page()) return errc::outside_row;
    const std::size_t kept = pages_for(tokens, tokens_per_page());
    KVPAGE_TRY(pool_->release_after(handles().subspan(kept), fence));
    if (kept != pages_.size()) history_.rewritten_from(kept);
    pages_.resize(kept);
    tokens_ = tokens;
    return errc::ok;
  }

  // Gives up the `pages` leading pages still held, as a sliding window leaves them behind; their entries
  // become the null page's and keep their place.
  //   outside_row: more than the full pages that are left; otherwise as page_pool::release.
  // O(1) a page.
  [[nodiscard]] errc drop_front(std::size_t pages, step_number fence = 0) {
    if (pages > tokens_ / tokens_per_page() - dropped_) return errc::outside_row;
    const std::span dropped = std::span{pages_}.subspan(dropped_, pages);
    KVPAGE_TRY(pool_->release_after(dropped, fence));
    for (handle& page : dropped) page = handle{};
    dropped_ += pages;
    return errc::ok;
  }

  // Releases every page and empties the table.  Errors as page_pool::release.  O(pages()).
  [[nodiscard]] errc release(step_number fence = 0) {
    KVPAGE_TRY(pool_->release_after(handles().subspan(dropped_), fence));
    clear();
    return errc::ok;
  }

  // Empties the table whatever it holds: releases the pages that are still its own and leaves alone those
  // that no longer are (under `tagged`; untagged, another request's reference may be hit).  Returns how
  // many were left alone: 0, unless somebody released this table's pages behind its back.  Calls
  // on_released(pages) with those released, a run of neighbours at a time.  O(pages()).
  template <class OnReleased>
  std::size_t abandon(step_number fence, OnReleased&& on_released) noexcept {
    std::size_t left_alone = 0;
    std::size_t end = pages_.size();  // of the run that is being released
    for (std::size_t i = pages_.size();
         i-- > dropped_;) {  // prefixes are evicted in this order: from the end
      if (pool_->release_after({&pages_[i], 1}, fence) == errc::ok) continue;
      ++left_alone;
      on_released(handles().subspan(i + 1, end - i - 1));
      end = i;
    }
    on_released(handles().subspan(dropped_, end - dropped_));
    clear();
    return left_alone;
  }
  std::size_t abandon(step_number fence = 0) noexcept {
    return abandon(fence, [](std::span<const handle>) {});
  }

  // Where the token at `position` lies.  outside_row: at or past tokens(), or in the dropped front.  O(1).
  [[nodiscard]] result<slot_index> slot(std::size_t position) const {
    const std::size_t entry = position / tokens_per_page();
    if (position >= tokens_ || entry < dropped_) return errc::outside_row;
    return static_cast<slot_index>(std::uint64_t{pages_[entry].id()} * tokens_per_page() +
                                   position % tokens_per_page());
  }

  [[nodiscard]] Pool& pool() noexcept { return *pool_; }
  [[nodiscard]] const Pool& pool() const noexcept { return *pool_; }
  [[nodiscard]] std::size_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::size_t pages() const noexcept { return pages_.size(); }  // the dropped front included
  [[nodiscard]] std::size_t dropped_pages() const noexcept { return dropped_; }
  [[nodiscard]] std::size_t last_page_len() const noexcept {
    return last_page_len_for(tokens_, tokens_per_page());
  }
  [[nodiscard]] std::size_t tokens_per_page() const noexcept { return pool_->tokens_per_page(); }

  // pages() handles; the dropped front's are null.
  [[nodiscard]] std::span<const handle> handles() const noexcept { return pages_; }

  [[nodiscard]] const table_version& version() const noexcept requires tagged_policy<typename Pool::policy> {
    return history_.version();
  }

 private:
  // Keeps the first `kept` entries and grants those after them that `tokens` more tokens need.
  [[nodiscard]] errc grow(std::size_t tokens, std::size_t kept) {
    if (tokens > max_tokens_per_row - tokens_) return errc::outside_row;
    const std::size_t after = pages_for(tokens_ + tokens, tokens_per_page());
    if (after != kept) {
      KVPAGE_TRY(pool_->check_room(after - kept));  // before a row that never fits takes host memory
      pages_.resize(after);
      KVPAGE_TRY(pool_->allocate(std::span{pages_}.subspan(kept)));
    }
    tokens_ += tokens;
    return errc::ok;
  }

  void clear() noexcept {
    history_.rewritten_from(0);
    pages_.clear();
    tokens_ = 0;
    dropped_ = 0;
  }

  Pool* pool_;
  std::pmr::vector<handle> pages_;
  std::size_t tokens_ = 0;
  std::size_t dropped_ = 0;
  [[no_unique_address]] detail::table_history<typename Pool::policy> history_;  // told of every overwrite
};

}  // namespace kvpage::inline v0
