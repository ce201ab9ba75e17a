// kvpage: which requests there are, and when the place of one that ended may be given to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <vector>

#include "config.hpp"
#include "error.hpp"

namespace kvpage::inline v0 {

// Names one request of a kv_cache.  Numbers are never given twice, so the handle of a request that has
// ended never becomes valid again, and what comes late for it does not reach its successor.
struct request_handle {
  std::uint32_t slot = 0;    // below kv_cache_options::max_requests: the row in tables kept per request
  std::uint64_t number = 0;  // counts the requests from 1

  friend bool operator==(const request_handle&, const request_handle&) = default;
};

namespace detail {

// A fixed number of slots.  A slot is free, taken by a request, or settling: its request has ended, but a
// step in flight may still use what belongs to the slot.  Steps must be given in ascending order.
class request_slots {
 public:
  request_slots(std::uint32_t count, std::pmr::memory_resource* memory) : slots_(count, memory) {
    for (std::uint32_t i = count; i-- > 0;) push_free(i);
  }

  // A free slot for a new request, if there is one.
  [[nodiscard]] std::optional<request_handle> take() noexcept {
    if (first_free_ == none) return std::nullopt;
    const std::uint32_t slot = first_free_;
    first_free_ = slots_[slot].next;
    slots_[slot].number = ++newest_;
    slots_[slot].is_taken = true;
    return request_handle{slot, newest_};
  }

  [[nodiscard]] bool is_current(request_handle request) const noexcept {
    return request.slot < slots_.size() && slots_[request.slot].is_taken &&
           slots_[request.slot].number == request.number;
  }

  // The request in `slot` is over; the slot is free once `step` has retired.
  void end(std::uint32_t slot, step_number step) noexcept {
    slots_[slot].is_taken = false;
    slots_[slot].settles_at = step;
    slots_[slot].next = none;
    (last_settling_ == none ? first_settling_ : slots_[last_settling_].next) = slot;
    last_settling_ = slot;
  }

  // Frees the slots that waited for steps up to `step`; calls settle(request) before each.
  template <class Settle>
  void retire(step_number step, Settle&& settle) noexcept {
    while (first_settling_ != none && slots_[first_settling_].settles_at <= step) {
      const std::uint32_t slot = first_settling_;
      first_settling_ = slots_[slot].next;
      if (first_settling_ == none) last_settling_ = none;
      settle(request_handle{slot, slots_[slot].number});
      push_free(slot);
    }
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  struct slot_state {
    std::uint64_t number = 0;  // of the newest request that had it
    bool is_taken = false;     // and still has
    step_number settles_at = 0;
    std::uint32_t next = none;  // among the free or the settling
  };

  void push_free(std::uint32_t slot) noexcept {
    slots_[slot].next = first_free_;
    first_free_ = slot;
  }

  std::pmr::vector<slot_state> slots_;
  std::uint32_t first_free_ = none;
  std::uint32_t first_settling_ = none;
  std::uint32_t last_settling_ = none;
  std::uint64_t newest_ = 0;
};

}  // namespace detail
}  // namespace kvpage::inline v0
