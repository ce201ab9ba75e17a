// kvpage: the grantable pages of a pool, in the order in which they will be granted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "config.hpp"
#include "fixed_array.hpp"

namespace kvpage::inline v0 {

// Which free page is granted next: the one freed last (its data may still be in a cache), or the one
// that has been free for longest (a stale reader goes unnoticed for longer: for debugging).
enum class reuse_order : std::uint8_t { lifo, fifo };

namespace detail {

// A ring of at most `capacity` page ids, filled at the back.  4 bytes a page, allocated once.  One slot more
// than pages tells a full ring from an empty one.
class free_list {
 public:
  // Starts with pages 1 to `capacity`, page 1 granted first.
  free_list(std::uint32_t capacity, reuse_order order, std::pmr::memory_resource* memory)
      : slots_(std::size_t{capacity} + 1, memory), back_{capacity}, order_{order} {
    for (std::uint32_t i = 0; i < capacity; ++i)
      slots_[i] = order == reuse_order::lifo ? capacity - i : i + 1;
  }

  [[nodiscard]] std::size_t size() const noexcept {
    return back_ >= front_ ? back_ - front_ : back_ + slots_.size() - front_;
  }

  void push(page_id page) noexcept {
    slots_[back_] = page;
    if (++back_ == slots_.size()) [[unlikely]]
      back_ = 0;
  }

  // Takes back the newest push.
  void undo_push() noexcept { back_ = (back_ == 0 ? slots_.size() : back_) - 1; }

  // Where the next room() pushes go: what is written there counts once grow() has been told of it.
  [[nodiscard]] page_id* back() noexcept { return slots_.data() + back_; }
  [[nodiscard]] std::size_t room() const noexcept { return slots_.size() - back_; }
  void grow(std::size_t count) noexcept {
    back_ += count;
    if (back_ == slots_.size()) back_ = 0;
  }

  // Calls use(i, page) for the next `count` pages, i counting from 0; false: there are fewer, and nothing
  // has happened.
  template <class Use>
  [[nodiscard]] bool take(std::size_t count, Use&& use) noexcept {
    if (order_ == reuse_order::lifo) {  // from the back; the front never moves, so nothing wraps
      if (count > back_) [[unlikely]]
        return false;
      for (std::size_t i = 0; i < count; ++i) use(i, slots_[back_ - 1 - i]);
      back_ -= count;
    } else {
      if (count > size()) [[unlikely]]
        return false;
      for (std::size_t i = 0; i < count; ++i) {
        use(i, slots_[front_]);
        if (++front_ == slots_.size()) front_ = 0;
      }
    }
    return true;
  }

  // Calls visit(page) for every free page, in no particular order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t i = front_; i != back_; i = i + 1 == slots_.size() ? 0 : i + 1) visit(slots_[i]);
  }

 private:
  fixed_array<page_id> slots_;
  std::size_t front_ = 0;
  std::size_t back_;
  reuse_order order_;
};

}  // namespace detail
}  // namespace kvpage::inline v0
