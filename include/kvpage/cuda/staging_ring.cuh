// kvpage: what the host has to tell the device before a step, in a ring of pinned slots.
//
// Step n is staged in slot n % slots.  The device reads the slot in place, through the bus, and finds it by
// counting steps itself: nothing about a launch depends on the step, so that a captured graph serves every
// step.  (A copy node would have its source and size fixed at capture.)  When its update has read the slot,
// the device says so in `begun`, and only then does the host write to it again.  The slot's step number is
// written last: an update that runs while the host stages finds either all of the step or none of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "../config.hpp"
#include "device_batch.cuh"
#include "memory.cuh"

namespace kvpage::inline v0::cuda {

// A page's tag has changed.
struct tag_change {
  page_id page;
  page_tag tag;
};

// An entry of a resident row has changed.
template <class Handle>
struct alignas(16) entry_change {
  std::uint64_t entry;
  Handle page;
};

namespace detail {

struct staged_counts {
  std::uint32_t rows = 0;
  std::uint32_t entries = 0;
  std::uint32_t new_tokens = 0;
  std::uint32_t chunks = 0;
  std::uint32_t changed_tags = 0;
  std::uint32_t changed_entries = 0;
  std::uint32_t all_tags = 0;  // not 0: take every tag from the image instead
};

struct staging_limits {
  std::uint32_t slots;
  std::uint32_t rows;
  std::uint32_t changed_tags;
  std::uint32_t changed_entries;
};

// The ring's memory, at its address on the host or on the device.
template <class Handle>
struct staging_view {
  struct slot {
    step_number& step;  // written last: the step that the rest of the slot is about
    staged_counts& counts;
    batch_row* rows;
    tag_change* tags;
    entry_change<Handle>* entries;
  };

  std::byte* ring;
  staging_limits limits;

  [[nodiscard]] KVPAGE_HOST_DEVICE static constexpr std::size_t slot_bytes(
      const staging_limits& limits) noexcept {
    return header_bytes + limits.rows * sizeof(batch_row) +
           limits.changed_entries * sizeof(entry_change<Handle>) + rounded_tags(limits) * sizeof(tag_change);
  }

  [[nodiscard]] KVPAGE_HOST_DEVICE slot at(step_number step) const noexcept {
    std::byte* const header = ring + step % limits.slots * slot_bytes(limits);
    std::byte* const rows = header + header_bytes;
    std::byte* const entries = rows + limits.rows * sizeof(batch_row);
    std::byte* const tags = entries + limits.changed_entries * sizeof(entry_change<Handle>);
    return {*reinterpret_cast<step_number*>(header),
            *reinterpret_cast<staged_counts*>(header + sizeof(step_number)),
            reinterpret_cast<batch_row*>(rows), reinterpret_cast<tag_change*>(tags),
            reinterpret_cast<entry_change<Handle>*>(entries)};
  }

 private:
  static constexpr std::size_t header_bytes = 64;
  static_assert(sizeof(step_number) + sizeof(staged_counts) <= header_bytes);

  // Keeps every slot aligned to 16 bytes.
  KVPAGE_HOST_DEVICE static constexpr std::size_t rounded_tags(const staging_limits& limits) noexcept {
    return (std::size_t{limits.changed_tags} + 1) / 2 * 2;
  }
};

// A counter in pinned memory that one side writes and the other reads while kernels run: whoever reads a number
// sees what was written before it.
[[nodiscard]] inline step_number read_counter(step_number& pinned) noexcept {
  return std::atomic_ref(pinned).load(std::memory_order_acquire);
}
inline void write_counter(step_number& pinned, step_number value) noexcept {
  std::atomic_ref(pinned).store(value, std::memory_order_release);
}

}  // namespace detail
}  // namespace kvpage::inline v0::cuda
