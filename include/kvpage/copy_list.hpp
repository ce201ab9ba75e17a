// kvpage: the copies that copy on write asks of the step to come.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <span>
#include <vector>

#include "config.hpp"
#include "error.hpp"
#include "page_copy.hpp"

namespace kvpage::inline v0::detail {

// Holds one reference to the source of each.  They run side by side, so none reads what another one writes;
// and each is wanted: a copy leaves the list when nobody holds its destination any more, so that nothing has
// to wait for a step that may never come.  `newest` is the newest step launched, the last that can have
// read a page given up here.
template <class Pool>
class copy_list {
 public:
  using handle = typename Pool::handle;

  copy_list(std::size_t reserved, std::pmr::memory_resource* memory) : copies_(memory) {
    copies_.reserve(reserved);
  }

  [[nodiscard]] std::span<const page_copy<handle>> view() const noexcept { return copies_; }

  // What is yet to be copied to the copy's source is taken from where that comes from.
  void add(Pool& pool, page_copy<handle> copy, step_number newest) {
    for (const page_copy<handle>& earlier : copies_) {
      if (earlier.destination != copy.source || pool.retain({&earlier.source, 1}) != errc::ok) continue;
      give_up_source(pool, copy, newest);
      copy.source = earlier.source;
      copy.tokens = (std::min)(copy.tokens, earlier.tokens);
    }
    copies_.push_back(copy);
  }

  // O(copies).
  void drop_needless(Pool& pool, step_number newest) noexcept {
    std::erase_if(copies_, [&](const page_copy<handle>& copy) {
      if (pool.check_referenced(copy.destination) == errc::ok) return false;
      give_up_source(pool, copy, newest);
      return true;
    });
  }

  // How many of a table's pages come before the first that is yet to be copied to.  O(1) without copies.
  [[nodiscard]] std::size_t pages_before_copy(std::span<const handle> pages) const noexcept {
    if (copies_.empty()) return pages.size();
    const auto is_destination = [this](handle page) {
      return std::ranges::any_of(copies_, [=](const auto& copy) { return copy.destination == page; });
    };
    return static_cast<std::size_t>(std::ranges::find_if(pages, is_destination) - pages.begin());
  }

  // `step` has been launched, and begins with all of them.
  void launched(Pool& pool, step_number step) noexcept {
    for (const page_copy<handle>& copy : copies_) give_up_source(pool, copy, step);
    copies_.clear();
  }

 private:
  // Refused only where somebody has released the page behind the copy's back: then it is left alone.
  static void give_up_source(Pool& pool, const page_copy<handle>& copy, step_number step) noexcept {
    static_cast<void>(pool.release_after({&copy.source, 1}, step));
  }

  std::pmr::vector<page_copy<handle>> copies_;
};

}  // namespace kvpage::inline v0::detail
