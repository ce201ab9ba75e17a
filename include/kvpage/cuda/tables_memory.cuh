// kvpage: what device_tables keeps in memory, and where.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../config.hpp"
#include "../error.hpp"
#include "device_batch.cuh"
#include "memory.cuh"
#include "staging_ring.cuh"

namespace kvpage::inline v0::cuda {

struct table_options {
  std::uint32_t max_rows;             // rows on the device; also the most that one batch has
  std::uint32_t max_pages_per_row;    // also the width of the padded table
  std::uint32_t max_slots;            // new tokens in one batch
  std::uint32_t max_changed_entries;  // that travel in one step; at least max_pages_per_row
  std::uint32_t max_changed_tags;     // beyond this many, all tags travel
  std::uint32_t staging_slots = 4;    // steps staged ahead of the device
  bool csr = true;                    // export indptr, indices, last_page_len
  bool padded = true;                 // export the padded table
};

namespace detail {

// Throws std::invalid_argument.
inline const table_options& checked(const table_options& options) {
  using kvpage::detail::require_between;
  constexpr std::uint32_t most = 0x7fff'ffff;
  require_between("device_tables: max_rows", options.max_rows, 1u, most);
  require_between("device_tables: max_pages_per_row", options.max_pages_per_row, 1u, most);
  require_between("device_tables: max_rows x max_pages_per_row",
                  std::uint64_t{options.max_rows} * options.max_pages_per_row, 1u, std::uint64_t{1} << 40);
  require_between("device_tables: max_slots", options.max_slots, 0u, most);
  require_between("device_tables: max_changed_entries", options.max_changed_entries,
                  options.max_pages_per_row, most);
  require_between("device_tables: max_changed_tags", options.max_changed_tags, 0u, most);
  require_between("device_tables: staging_slots", options.staging_slots, 1u, 1u << 16);
  return options;
}

template <class Handle>
struct tables_memory {
  // On the device.
  page_tag* d_tags;
  std::int32_t* d_ids;
  Handle* d_granted;
  batch_row* d_rows;
  step_info* d_step;
  std::uint32_t* d_padded_pages = nullptr;
  std::uint32_t* d_decision;
  std::uint32_t* d_blocks_done;
  attention_inputs out;
  // Pinned.
  std::byte* staging;
  page_tag* tag_image;
  step_number* begun;

  [[nodiscard]] static staging_limits staging_limits_of(const table_options& options) noexcept {
    return {options.staging_slots, options.max_rows, options.max_changed_tags, options.max_changed_entries};
  }

  [[nodiscard]] static tables_memory lay_out(std::size_t pool_pages, const table_options& options,
                                             const memory_blocks& blocks,
                                             memory_sizes* sizes = nullptr) noexcept {
    const std::size_t rows = options.max_rows;
    const std::size_t entries = rows * options.max_pages_per_row;
    tables_memory memory;
    carver device(blocks.d_device);
    memory.d_tags = device.take<page_tag>(pool_pages);
    memory.d_ids = device.take<std::int32_t>(entries);
    memory.d_granted = device.take<Handle>(entries);
    memory.d_rows = device.take<batch_row>(rows);
    memory.d_step = device.take<step_info>(1);
    memory.d_decision = device.take<std::uint32_t>(1);
    memory.d_blocks_done = device.take<std::uint32_t>(1);
    memory.out.d_seq_lens = device.take<std::int32_t>(rows);
    memory.out.d_slots = device.take<slot_index>(options.max_slots);
    if (options.csr) {
      memory.out.d_indptr = device.take<std::int32_t>(rows + 1);
      memory.out.d_indices = device.take<std::int32_t>(entries);
      memory.out.d_last_page_len = device.take<std::int32_t>(rows);
    }
    if (options.padded) {
      memory.out.d_padded = device.take<std::int32_t>(entries);
      memory.out.padded_width = options.max_pages_per_row;
      memory.d_padded_pages = device.take<std::uint32_t>(rows);
    }
    carver pinned(blocks.pinned);
    memory.staging = pinned.take<std::byte>(options.staging_slots *
                                            staging_view<Handle>::slot_bytes(staging_limits_of(options)));
    memory.tag_image = pinned.take<page_tag>(pool_pages);
    memory.begun = pinned.take<step_number>(1);
    if (sizes != nullptr) *sizes = {device.bytes(), pinned.bytes()};
    return memory;
  }

  [[nodiscard]] static memory_sizes sizes(std::size_t pool_pages, const table_options& options) noexcept {
    memory_sizes sizes;
    static_cast<void>(lay_out(pool_pages, options, {}, &sizes));
    return sizes;
  }
};

}  // namespace detail
}  // namespace kvpage::inline v0::cuda
