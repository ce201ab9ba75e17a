// kvpage: the grantable pages of a pool, in the order in which they will be granted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "config.hpp"

namespace kvpage::inline v0 {

// Which free page is granted next: the one freed last (its data may still be in a cache), or the one
// that has been free for longest (a stale reader goes unnoticed for longer: for debugging).
enum class reuse_order : std::uint8_t { lifo, fifo };

namespace detail {

// A ring of at most `capacity` page ids, filled at the back.  4 bytes a page, allocated once.
class free_list {
 public:
  // Starts with pages 1 to `capacity`, page 1 granted first.
  free_list(std::uint32_t capacity, reuse_order order, std::pmr::memory_resource* memory)
      : slots_(capacity, memory), size_{capacity}, order_{order} {
    for (std::uint32_t i = 0; i < capacity; ++i)
      slots_[i] = order == reuse_order::lifo ? capacity - i : i + 1;
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  void push(page_id page) noexcept {
    slots_[wrapped(front_ + size_)] = page;
    ++size_;
  }

  // Takes back the newest push.
  void undo_push() noexcept { --size_; }

  // Calls use(i, page) for the next `count` pages, i counting from 0.  count <= size().
  template <class Use>
  void take(std::size_t count, Use&& use) noexcept {
    size_ -= count;
    if (order_ == reuse_order::lifo) {  // the front never moves, so nothing wraps
      const page_id* const bottom = slots_.data() + size_;
      for (std::size_t i = 0; i < count; ++i) use(i, bottom[count - 1 - i]);
    } else {
      for (std::size_t i = 0; i < count; ++i) use(i, slots_[wrapped(front_ + i)]);
      front_ = wrapped(front_ + count);
    }
  }

  // Calls visit(page) for every free page, in no particular order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t i = 0; i < size_; ++i) visit(slots_[wrapped(front_ + i)]);
  }

 private:
  // An index into the ring, from one below twice its length.
  [[nodiscard]] std::size_t wrapped(std::size_t index) const noexcept {
    return index < slots_.size() ? index : index - slots_.size();
  }

  std::pmr::vector<page_id> slots_;
  std::size_t front_ = 0;
  std::size_t size_;
  reuse_order order_;
};

}  // namespace detail
}  // namespace kvpage::inline v0
