// kvpage: which pages' tags have changed, for whoever keeps a copy of them elsewhere (a device).
#pragma once

#include <cstddef>
#include <memory_resource>
#include <span>
#include <vector>

#include "config.hpp"
#include "integrity.hpp"

namespace kvpage::inline v0 {

namespace detail {
template <integrity_policy P>
class journal_list;
}

// Collects the ids of pages whose tag may have changed since the last clear(), once attached to a pool
// (page_pool::attach_journal).  Keeps ids, not tags: whoever reads it asks the pool for the present ones.
// A new journal counts as overflowed, since its reader has no copy yet.
class tag_journal {
 public:
  // Remembers up to `capacity` ids; 4 bytes each, allocated once.
  explicit tag_journal(std::size_t capacity,
                       std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : pages_(memory) {
    pages_.reserve(capacity);
  }
  tag_journal(const tag_journal&) = delete;
  tag_journal& operator=(const tag_journal&) = delete;

  // Any tag may have changed: pages() is not the whole truth.
  [[nodiscard]] bool overflowed() const noexcept { return overflowed_; }

  // In no particular order, perhaps repeated, perhaps with tags that are what they were.
  [[nodiscard]] std::span<const page_id> pages() const noexcept { return pages_; }

  // The reader's copy is not to be trusted: as after an overflow.
  void invalidate() noexcept { overflowed_ = true; }

  // Everything recorded has been dealt with.
  void clear() noexcept {
    pages_.clear();
    overflowed_ = false;
  }

 private:
  template <integrity_policy P>
  friend class detail::journal_list;

  template <class Handle>
  void record(std::span<const Handle> pages) noexcept {
    overflowed_ = overflowed_ || pages.size() > pages_.capacity() - pages_.size();
    if (overflowed_) return;
    for (const Handle& page : pages) pages_.push_back(page.id());
  }

  std::pmr::vector<page_id> pages_;
  bool overflowed_ = true;
  tag_journal* next_ = nullptr;
};

namespace detail {

// The journals attached to one pool; under `untagged` there is nothing to record.
template <integrity_policy P>
class journal_list {
 public:
  void attach(tag_journal& journal) noexcept {
    journal.next_ = first_;
    first_ = &journal;
  }

  void detach(tag_journal& journal) noexcept {
    tag_journal** link = &first_;
    while (*link != nullptr && *link != &journal) link = &(*link)->next_;
    if (*link != nullptr) *link = journal.next_;
  }

  template <class Handle>
  void record(std::span<const Handle> pages) noexcept {
    if (first_ != nullptr) [[unlikely]]
      record_in_all(pages);
  }

 private:
  template <class Handle>
  [[gnu::noinline]] void record_in_all(
      std::span<const Handle> pages) noexcept {  // the pool's loops stay small
    for (tag_journal* journal = first_; journal != nullptr; journal = journal->next_) journal->record(pages);
  }

  tag_journal* first_ = nullptr;
};

template <>
class journal_list<untagged> {
 public:
  template <class Handle>
  void record(std::span<const Handle>) noexcept {}
};

}  // namespace detail
}  // namespace kvpage::inline v0
