// kvpage: the pages that one kind of attention layer keeps of every request.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "block_table.hpp"
#include "config.hpp"
#include "copy_list.hpp"
#include "error.hpp"
#include "page_pool.hpp"

namespace kvpage::inline v0 {

// A group's share of memory, and how far back its layers look.
struct page_group_options {
  std::uint64_t pages;     // the null page included
  std::size_t window = 0;  // tokens that a token attends to, itself included; 0: all before it
};

// Leading pages that no token from position `settled` on attends to.
[[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::size_t pages_behind_window(
    std::size_t settled, std::size_t window, std::size_t tokens_per_page) noexcept {
  return window == 0 || settled < window ? 0 : (settled - window + 1) / tokens_per_page;
}

namespace detail {

// One group: a pool, a block table for each request slot, and the copies that the next step must begin with.
template <class Pool>
struct page_group {
  using handle = typename Pool::handle;

  page_group(std::uint32_t group_number, const pool_options& options, std::size_t attention_window,
             std::uint32_t slots, std::size_t max_tokens)
      : number{group_number},
        window{attention_window},
        pool(options),
        tables(options.memory),
        copies(slots, options.memory) {
    tables.reserve(slots);
    const std::size_t max_pages = pages_for(max_tokens, pool.tokens_per_page());
    for (std::uint32_t i = 0; i < slots; ++i) tables.emplace_back(pool, max_pages, options.memory);
  }

  // Entries that sliding on to `settled` settled tokens takes from the front of a table.
  [[nodiscard]] std::size_t pages_to_drop(const block_table<Pool>& table,
                                          std::size_t settled) const noexcept {
    const std::size_t behind = pages_behind_window(settled, window, pool.tokens_per_page());
    return behind - (std::min)(behind, table.dropped_pages());
  }

  // Whether `count` entries of a table from `first` on are still its own: then giving them up cannot fail.
  [[nodiscard]] errc check(const block_table<Pool>& table, std::size_t first,
                           std::size_t count) const noexcept {
    for (const handle& page : table.handles().subspan(first, count)) KVPAGE_TRY(pool.check_referenced(page));
    return errc::ok;
  }

  [[nodiscard]] errc check_all(std::uint32_t slot) const noexcept {
    const std::size_t first = tables[slot].dropped_pages();
    return check(tables[slot], first, tables[slot].pages() - first);
  }

  std::uint32_t number;
  std::size_t window;
  Pool pool;
  std::pmr::vector<block_table<Pool>> tables;
  copy_list<Pool> copies;
};

}  // namespace detail
}  // namespace kvpage::inline v0
