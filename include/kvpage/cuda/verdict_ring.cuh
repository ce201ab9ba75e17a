// kvpage: what the device found, step by step, in pinned memory.
#pragma once

#include <gsl/assert>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "../config.hpp"
#include "../verdict.hpp"
#include "staging_ring.cuh"

namespace kvpage::inline v0::cuda {

struct failed_row {
  std::uint32_t row;  // by its place in the batch: the order of device_tables::add and add_padding
  verdict finding;
};

enum class poll_state : std::uint8_t {
  pending,   // the device has not got that far
  verified,  // summary and failed rows are there
  missed,    // the step has begun and gone by without a verification
  expired,   // step + max_age() has begun: what was found may have been written over
};

struct step_verdict {
  poll_state state = poll_state::pending;
  verify_summary summary;
  std::span<const failed_row> failed;  // the rows that did not pass, in no particular order
};

namespace detail {

// The ring's memory, at its address on the host or on the device.
struct verdict_view {
  struct slot {
    verify_summary& summary;
    step_number& verified;  // written last: the step that the rest of the slot is about
    failed_row* failed;
  };

  std::byte* ring;
  std::uint32_t slots;
  std::uint32_t max_rows;

  [[nodiscard]] KVPAGE_HOST_DEVICE static constexpr std::size_t slot_bytes(std::uint32_t max_rows) noexcept {
    return header_bytes + (std::size_t{max_rows} * sizeof(failed_row) + 63) / 64 * 64;
  }

  [[nodiscard]] KVPAGE_HOST_DEVICE slot at(step_number step) const noexcept {
    std::byte* const header = ring + step % slots * slot_bytes(max_rows);
    return {*reinterpret_cast<verify_summary*>(header),
            *reinterpret_cast<step_number*>(header + sizeof(verify_summary)),
            reinterpret_cast<failed_row*>(header + header_bytes)};
  }

 private:
  static constexpr std::size_t header_bytes = 64;
  static_assert(sizeof(verify_summary) + sizeof(step_number) <= header_bytes);
};

}  // namespace detail

// The host's side of it.
class verdict_ring {
 public:
  // `begun`, in pinned memory, counts the steps whose update has run.
  verdict_ring(const detail::verdict_view& ring, step_number& begun) : ring_{ring}, begun_{&begun} {}

  // What is known of `step`, at least 1.  Never blocks.  The failed rows stay valid until step + max_age() is staged.
  [[nodiscard]] step_verdict poll(step_number step) const noexcept {
    Expects(step != 0);
    const step_number begun = detail::read_counter(*begun_);  // first: a verdict cannot arrive in between
    const detail::verdict_view::slot slot = ring_.at(step);
    step_verdict found{begun > step ? poll_state::missed : poll_state::pending, {}, {}};
    if (detail::read_counter(slot.verified) == step)
      found = {poll_state::verified, slot.summary, {slot.failed, slot.summary.failed_rows}};

    // Only a step that has begun writes to the slot, so that one look afterwards tells whether what was read is whole.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (detail::read_counter(*begun_) >= step + max_age()) return {poll_state::expired, {}, {}};
    return found;
  }

  [[nodiscard]] std::uint32_t max_age() const noexcept { return ring_.slots; }

 private:
  detail::verdict_view ring_;
  step_number* begun_;
};

}  // namespace kvpage::inline v0::cuda
