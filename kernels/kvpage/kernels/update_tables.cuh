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
  std::uint32_t* d_decision;      // 0 between launches
  std::uint32_t* d_blocks_done;
  std::uint32_t pool_pages;
  std::uint32_t tokens_per_page;
  std::uint32_t max_rows;
  std::uint32_t max_slots;
};

namespace detail {

// The grid's threads, counted through: element i < count belongs to the thread that visits it.
template <class Visit>
__device__ void for_each_of_grid(std::uint32_t count, Visit visit) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    visit(static_cast<std::uint32_t>(i));
}

// Whether the launch takes `step`.  The host may stage it while the launch runs, so that blocks could find
// different answers: the first one to ask decides for all.
__device__ inline bool takes_step(const step_number& staged, step_number step, std::uint32_t* d_decision) {
  enum : std::uint32_t { undecided, taken, not_taken };
  __shared__ bool takes;
  if (threadIdx.x == 0) {
    const bool is_staged = *static_cast<const volatile step_number*>(&staged) == step;
    __threadfence_system();  // the rest of the slot is read after its number, also by blocks that only heard of it
    const std::uint32_t own = is_staged ? taken : not_taken;
    const std::uint32_t first = atomicCAS(d_decision, undecided, own);
    __threadfence();
    takes = (first == undecided ? own : first) == taken;
  }
  __syncthreads();
  return takes;
}

// Leaves no id of the earlier step, which a step that nobody verifies would show.
template <class Handle>
__device__ void clear_ids(const update_args<Handle>& args, std::uint32_t entries_before) {
  const cuda::attention_inputs& out = args.out;
  if (out.d_indices != nullptr)
    for_each_of_grid(entries_before, [&](std::uint32_t i) { out.d_indices[i] = null_page; });
  if (out.d_padded == nullptr) return;

  // A warp takes a piece of a row, so that a long row keeps more than one busy.
  constexpr std::uint64_t piece = 1024;
  const std::uint64_t pieces = (out.padded_width + piece - 1) / piece;
  const std::uint32_t warps = gridDim.x * (blockDim.x / warpSize);
  const std::uint32_t warp = blockIdx.x * (blockDim.x / warpSize) + threadIdx.x / warpSize;
  for (std::uint64_t i = warp; i < args.max_rows * pieces; i += warps) {
    const std::uint64_t row = i / pieces;
    const std::uint64_t begin = i % pieces * piece;
    const std::uint64_t used = args.d_padded_pages[row];
    const std::uint64_t end = used < begin + piece ? used : begin + piece;
    for (std::uint64_t k = begin + threadIdx.x % warpSize; k < end; k += warpSize)
      out.d_padded[row * out.padded_width + k] = null_page;
  }
}

}  // namespace detail

template <class Handle>
__global__ void __launch_bounds__(cuda::block_threads) update_tables(const update_args<Handle> args) {
  const cuda::step_info before = *args.d_step;
  const cuda::attention_inputs& out = args.out;
  const auto slot = args.staging.at(before.step + 1);
  const bool is_staged = detail::takes_step(slot.step, before.step + 1, args.d_decision);
  cuda::detail::staged_counts staged;  // launched once too often: an empty batch, and the step does not count
  if (is_staged) staged = slot.counts;

  if (staged.all_tags != 0) {
    detail::for_each_of_grid(args.pool_pages, [&](std::uint32_t i) { args.d_tags[i] = args.tag_image[i]; });
  }
  detail::for_each_of_grid(staged.changed_tags, [&](std::uint32_t i) {
    const cuda::tag_change change = slot.tags[i];
    args.d_tags[change.page] = change.tag;
  });
  detail::for_each_of_grid(staged.changed_entries, [&](std::uint32_t i) {
    const cuda::entry_change<Handle> change = slot.entries[i];
    args.d_ids[change.entry] = static_cast<std::int32_t>(change.page.id());
    args.d_granted[change.entry] = change.page;
  });

  // Every export is emptied, but for what attention plans on.
  detail::for_each_of_grid(args.max_rows, [&](std::uint32_t i) {
    cuda::batch_row row{.pages_before = staged.entries};
    if (i < staged.rows) row = args.d_rows[i] = slot.rows[i];
    out.d_seq_lens[i] = 0;
    if (out.d_indptr == nullptr) return;
    out.d_indptr[i + 1] = static_cast<std::int32_t>(row.pages_before + row.pages);
    out.d_last_page_len[i] = static_cast<std::int32_t>(last_page_len_for(row.tokens, args.tokens_per_page));
  });
  detail::for_each_of_grid(args.max_slots, [&](std::uint32_t i) { out.d_slots[i] = skipped_slot; });
  detail::clear_ids(args, before.entries);

  if (!detail::is_last_of(gridDim.x, args.d_blocks_done)) return;
  if (out.d_padded != nullptr) {
    for (std::uint32_t i = threadIdx.x; i < args.max_rows; i += blockDim.x)
      args.d_padded_pages[i] = i < staged.rows ? args.d_rows[i].pages : 0;
  }
  if (threadIdx.x != 0) return;
  *args.d_decision = 0;
  *args.d_step = {.step = before.step + (is_staged ? 1 : 0),
                  .is_staged = is_staged,
                  .rows = staged.rows,
                  .entries = staged.entries,
                  .chunks = staged.chunks};
  __threadfence_system();
  *static_cast<volatile step_number*>(args.begun) = before.step + (is_staged ? 1 : 0);
}

}  // namespace kvpage::inline v0::kernels
