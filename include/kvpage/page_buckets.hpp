// kvpage: pages by hash.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "config.hpp"

namespace kvpage::inline v0::detail {

// Open addressing with linear probing: a page is looked for, added and taken out within a cache line or two,
// without touching what else is known of pages that hash alike.  11 to 22 bytes a page, allocated once.
class page_buckets {
 public:
  // For pages below `pages`.
  page_buckets(std::size_t pages, std::pmr::memory_resource* memory)
      : entries_(std::bit_ceil(pages + pages / 3), memory) {}

  // The page among those of this hash for which is_wanted(page) holds; null_page if there is none.
  template <class IsWanted>
  [[nodiscard]] page_id find(std::uint32_t hash, IsWanted&& is_wanted) const noexcept {
    for (std::size_t at = home(hash); entries_[at].page != null_page; at = after(at)) {
      if (entries_[at].hash == hash && is_wanted(entries_[at].page)) return entries_[at].page;
    }
    return null_page;
  }

  // A page that is not in the table.
  void insert(std::uint32_t hash, page_id page) noexcept {
    std::size_t at = home(hash);
    while (entries_[at].page != null_page) at = after(at);
    entries_[at] = {hash, page};
  }

  // A page that is.  Later entries of the run close the gap, as far as they may: none moves before its home.
  void erase(std::uint32_t hash, page_id page) noexcept {
    std::size_t gap = home(hash);
    while (entries_[gap].page != page) gap = after(gap);
    for (std::size_t at = after(gap); entries_[at].page != null_page; at = after(at)) {
      if (distance(home(entries_[at].hash), at) < distance(gap, at)) continue;
      entries_[gap] = entries_[at];
      gap = at;
    }
    entries_[gap] = {};
  }

  void clear() noexcept { entries_.assign(entries_.size(), {}); }

  void prefetch(std::uint32_t hash) const noexcept { __builtin_prefetch(&entries_[home(hash)]); }

 private:
  struct entry {
    std::uint32_t hash = 0;
    page_id page = null_page;  // there is none
  };

  [[nodiscard]] std::size_t home(std::uint32_t hash) const noexcept { return hash & (entries_.size() - 1); }
  [[nodiscard]] std::size_t after(std::size_t at) const noexcept { return (at + 1) & (entries_.size() - 1); }
  [[nodiscard]] std::size_t distance(std::size_t from, std::size_t to) const noexcept {
    return (to - from) & (entries_.size() - 1);
  }

  std::pmr::vector<entry> entries_;
};

}  // namespace kvpage::inline v0::detail
