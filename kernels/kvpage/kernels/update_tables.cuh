// kvpage: the first launch of a step: applies what the host staged, and empties every export.
#pragma once

#include <kvpage/config.hpp>
#include <kvpage/cuda/device_batch.cuh>
#include <kvpage/cuda/staging_ring.cuh>

#include <cstddef>
#include <cstdint>

#include "last_block.cuh"

namespace kvpage::inline v0::kernels {

// All addresses are the device's.
template <class Handle>
struct update_args {
  cuda::detail::staging_view<Handle> staging;
  const page_tag* tag_image;  // pinned
  step_number* begun;         // pinned: the newest step whose slot has been read
  page_tag* d_tags;           // [pool_pages]
  std::int32_t* d_ids;
  Handle* d_granted;
  cuda::batch_row* d_rows;  // [max_rows]
  cuda::step_info* d_step;
  cuda::attention_inputs out;
  std::uint32_t* d_padded_pages;  // [max_rows]  how much of a padded row may not be null
  std::uint32_t* d_blocks_done;
  std::uint32_t pool_pages;
  std::uint32_t tokens_per_page;
  std::uint32_t max_rows;
  std::uint32_t max_slots;
};

namespace detail {

// The grid's threads, counted through: element i belongs to the thread that visits it.
template <class Visit>
__device__ void for_each_of_grid(std::uint32_t first, std::uint32_t end, Visit visit) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = first + std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < end; i += stride)
    visit(static_cast<std::uint32_t>(i));
}

// One warp prepares one row's exports: empty, but for what attention plans on.
template <class Handle>
__device__ void prepare_row(const update_args<Handle>& args, std::uint32_t index,
                            const cuda::batch_row& row) {
  const std::uint32_t lane = threadIdx.x % warpSize;
  const cuda::attention_inputs& out = args.out;
  if (out.d_padded != nullptr) {
    std::int32_t* const padded = out.d_padded + index * out.padded_width;
    const std::uint32_t used = args.d_padded_pages[index];
    for (std::uint32_t i = row.pages + lane; i < used; i += warpSize) padded[i] = null_page;
    __syncwarp();
    if (lane == 0) args.d_padded_pages[index] = row.pages;
  }
  if (lane == 0) {
    out.d_seq_lens[index] = 0;
    if (out.d_indptr != nullptr) {
      out.d_indptr[index + 1] = static_cast<std::int32_t>(row.pages_before + row.pages);
      out.d_last_page_len[index] =
          static_cast<std::int32_t>(last_page_len_for(row.tokens, args.tokens_per_page));
    }
  }
}

}  // namespace detail

template <class Handle>
__global__ void __launch_bounds__(cuda::block_threads) update_tables(const update_args<Handle> args) {
  const cuda::step_info before = *args.d_step;
  const auto slot = args.staging.at(before.step + 1);
  cuda::detail::staged_counts staged = slot.counts;
  const bool is_staged = staged.step == before.step + 1;
  if (!is_staged) staged = {};  // launched once too often: an empty batch, and the step does not count

  if (staged.all_tags != 0) {
    detail::for_each_of_grid(0, args.pool_pages,
                             [&](std::uint32_t i) { args.d_tags[i] = args.tag_image[i]; });
  }
  detail::for_each_of_grid(0, staged.changed_tags, [&](std::uint32_t i) {
    const cuda::tag_change change = slot.tags[i];
    args.d_tags[change.page] = change.tag;
  });
  detail::for_each_of_grid(0, staged.changed_entries, [&](std::uint32_t i) {
    const cuda::entry_change<Handle> change = slot.entries[i];
    args.d_ids[change.entry] = static_cast<std::int32_t>(change.page.id());
    args.d_granted[change.entry] = change.page;
  });

  const std::uint32_t warps = gridDim.x * (blockDim.x / warpSize);
  const std::uint32_t warp = blockIdx.x * (blockDim.x / warpSize) + threadIdx.x / warpSize;
  for (std::uint32_t index = warp; index < args.max_rows; index += warps) {
    cuda::batch_row row{.pages_before = staged.entries};
    if (index < staged.rows) {
      row = slot.rows[index];
      if (threadIdx.x % warpSize == 0) args.d_rows[index] = row;
    }
    detail::prepare_row(args, index, row);
  }
  detail::for_each_of_grid(0, args.max_slots, [&](std::uint32_t i) { args.out.d_slots[i] = skipped_slot; });
  if (args.out.d_indices != nullptr) {
    detail::for_each_of_grid(staged.entries, before.entries,
                             [&](std::uint32_t i) { args.out.d_indices[i] = null_page; });
  }

  if (!detail::is_last_of(gridDim.x, args.d_blocks_done) || threadIdx.x != 0) return;
  *args.d_step = {.step = before.step + (is_staged ? 1 : 0),
                  .is_staged = is_staged,
                  .rows = staged.rows,
                  .entries = staged.entries,
                  .chunks = staged.chunks};
  __threadfence_system();
  *static_cast<volatile step_number*>(args.begun) = before.step + (is_staged ? 1 : 0);
}

}  // namespace kvpage::inline v0::kernels
