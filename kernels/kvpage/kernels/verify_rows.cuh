// kvpage: the second launch of a step: checks every page of every row, and exports the rows that pass.
//
// A block takes chunks of a row's pages.  What it has checked it writes to the exported forms, from the
// very registers that it checked.  The last block to finish with a row knows the row's verdict; if the row
// failed, it overwrites the row's exports.  The sources (ids, granted, rows) are only read, so a block that
// starts late never sees what another one has cut.
#pragma once

#include <kvpage/config.hpp>
#include <kvpage/cuda/device_batch.cuh>
#include <kvpage/cuda/verdict_ring.cuh>
#include <kvpage/verdict.hpp>

#include <cstddef>
#include <cstdint>

#include "last_block.cuh"

namespace kvpage::inline v0::kernels {

// Where the blocks of a launch meet; all zero between launches.
struct row_meeting {
  std::uint32_t chunks_done;
  std::uint32_t first_bad;  // ~ of the lowest bad position, so that atomicMax finds it; 0: none
};

struct verify_scratch {
  row_meeting* d_rows;  // [max_rows]
  std::uint32_t* d_failed_rows;
  std::uint32_t* d_blocks_done;
};

// Blocks that the compiler is to make room for, so that enough loads are under way to hide the tags' random reads:
// 6 x 256 threads leave each 40 registers.  Turing's multiprocessors hold 1024 threads.  The host sizes the grid by 6.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr int verify_blocks_per_multiprocessor = 4;
#else
inline constexpr int verify_blocks_per_multiprocessor = 6;
#endif

template <class Handle>
struct verify_args {
  cuda::device_batch<Handle> batch;
  verify_scratch scratch{};
  cuda::detail::verdict_view verdicts{};  // pinned
  cuda::cut_off cut{};
};

namespace detail {

inline constexpr std::uint32_t no_position = 0xffff'ffff;
inline constexpr std::uint32_t no_row = 0xffff'ffff;

// One entry, as the table, the grant and the tags have it.
template <class Handle>
struct entry {
  std::int32_t page = null_page;  // default: the null page's valid pair
  Handle granted;
  page_tag tag = 0;  // 0 outside the pool

  // The same rule as the host's: verify.hpp, entry_holds().
  __device__ bool holds(std::uint32_t pool_pages) const {
    const auto id = static_cast<page_id>(page);
    const bool expectable = granted.tag() % 2 == 1 || granted.is_null();
    return id < pool_pages && id == granted.id() && expectable && tag == granted.tag();
  }
};

template <class Handle>
__device__ page_tag present_tag(const cuda::device_batch<Handle>& batch, std::int32_t page) {
  const auto id = static_cast<page_id>(page);
  return id < batch.pool_pages ? batch.d_tags[id] : 0;
}

// How many of a row's pages the padded table, if there is one, has room for.
__device__ inline std::uint32_t padded_pages(const cuda::attention_inputs& out, const cuda::batch_row& row) {
  if (out.d_padded == nullptr || row.pages <= out.padded_width) return row.pages;
  return static_cast<std::uint32_t>(out.padded_width);
}

// Checks chunk `chunk` of a row, exports its pages, and returns the first bad position that this thread saw.
template <class Handle>
__device__ std::uint32_t check_chunk(const cuda::device_batch<Handle>& batch, const cuda::batch_row& row,
                                     std::uint32_t row_index, std::uint32_t chunk) {
  constexpr std::uint32_t per_thread = cuda::pages_per_chunk / cuda::block_threads;
  const std::uint32_t first = chunk * cuda::pages_per_chunk + threadIdx.x;
  const cuda::attention_inputs& out = batch.out;

  // One loop for each kind of load, so that a thread's loads are under way together.
  entry<Handle> entries[per_thread];
#pragma unroll
  for (std::uint32_t k = 0; k < per_thread; ++k) {
    const std::uint32_t position = first + k * cuda::block_threads;
    if (position < row.pages) {
      entries[k].page = batch.d_ids[row.first_entry + position];
      entries[k].granted = batch.d_granted[row.first_entry + position];
    }
  }
#pragma unroll
  for (std::uint32_t k = 0; k < per_thread; ++k) entries[k].tag = present_tag(batch, entries[k].page);

  std::uint32_t first_bad = no_position;
#pragma unroll
  for (std::uint32_t k = 0; k < per_thread; ++k) {
    const std::uint32_t position = first + k * cuda::block_threads;
    if (position >= row.pages) break;
    if (first_bad == no_position && !entries[k].holds(batch.pool_pages)) first_bad = position;
    if (out.d_indices != nullptr) out.d_indices[row.pages_before + position] = entries[k].page;
    if (out.d_padded != nullptr && position < out.padded_width)
      out.d_padded[row_index * out.padded_width + position] = entries[k].page;
  }
  return first_bad;
}

// The verdict of a row whose first bad position is known.
template <class Handle>
__device__ verdict judge(const cuda::device_batch<Handle>& batch, const cuda::batch_row& row,
                         std::uint32_t first_bad) {
  if (first_bad == no_position) {
    const std::uint32_t pages = padded_pages(batch.out, row);
    if (row.tokens <= std::uint64_t{pages} * batch.tokens_per_page) return {};
    return {.state = row_state::short_row, .position = pages};
  }
  const std::int32_t page = batch.d_ids[row.first_entry + first_bad];
  const Handle granted = batch.d_granted[row.first_entry + first_bad];
  return {
      .state = static_cast<page_id>(page) < batch.pool_pages ? row_state::stale_page : row_state::bad_page,
      .position = first_bad,
      .page = page,
      .granted_page = granted.id(),
      .expected_tag = granted.tag(),
      .found_tag = present_tag(batch, page)};
}

// Where the row's new token number `token` goes.
template <class Handle>
__device__ slot_index slot_of(const cuda::device_batch<Handle>& batch, const cuda::batch_row& row,
                              std::uint32_t token) {
  const std::uint32_t position = row.tokens - row.new_tokens + token;
  const std::uint32_t entry = position / batch.tokens_per_page;
  const std::int32_t page = entry < row.pages ? batch.d_ids[row.first_entry + entry] : 0;
  if (page == static_cast<std::int32_t>(null_page)) return skipped_slot;
  return slot_index{page} * batch.tokens_per_page + position % batch.tokens_per_page;
}

// The whole block finishes a row: lets it through, or cuts it off and reports it.
template <class Handle>
__device__ void finish_row(const verify_args<Handle>& args, const cuda::batch_row& row,
                           std::uint32_t row_index, std::uint32_t first_bad) {
  const cuda::device_batch<Handle>& batch = args.batch;
  const cuda::attention_inputs& out = batch.out;
  const verdict found = judge(batch, row, first_bad);
  const bool passed = found.state == row_state::ok;

  for (std::uint32_t i = threadIdx.x; i < row.new_tokens; i += blockDim.x)
    out.d_slots[row.slots_before + i] = passed ? slot_of(batch, row, i) : skipped_slot;
  if (!passed) {
    for (std::uint32_t i = threadIdx.x; i < row.pages; i += blockDim.x) {
      if (out.d_indices != nullptr) out.d_indices[row.pages_before + i] = null_page;
      if (out.d_padded != nullptr && i < out.padded_width)
        out.d_padded[row_index * out.padded_width + i] = null_page;
    }
  }
  if (threadIdx.x == 0) {
    const bool keeps_length = passed || args.cut == cuda::cut_off::null_pages;
    out.d_seq_lens[row_index] = keeps_length ? static_cast<std::int32_t>(row.tokens) : 0;
    if (!passed) {
      const std::uint32_t place = atomicAdd(args.scratch.d_failed_rows, 1);
      args.verdicts.at(batch.d_step->step).failed[place] = {row_index, found};
      __threadfence_system();  // before the host can see the step as verified
    }
  }
}

// The row that the batch's chunk number `chunk` belongs to, for all threads of the block.  If there is none, because
// something has written over the rows, it is no_row: then nothing is exported.
__device__ inline std::uint32_t find_row(const cuda::batch_row* d_rows, std::uint32_t rows,
                                         std::uint32_t chunk) {
  __shared__ std::uint32_t index;
  if (threadIdx.x == 0) index = no_row;
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < rows; i += blockDim.x) {
    const std::uint32_t chunk_of_row = chunk - d_rows[i].chunks_before;  // huge below the row
    if (chunk_of_row < cuda::chunks_for(d_rows[i].pages)) atomicExch(&index, i);
  }
  __syncthreads();
  return index;
}

// For a row of several chunks: whether this block is the last one.  If so, first_bad is the row's.
__device__ inline bool is_last_of_row(row_meeting& meeting, std::uint32_t chunks, std::uint32_t& first_bad) {
  if (first_bad != no_position) atomicMax(&meeting.first_bad, no_position - first_bad);
  __threadfence();
  if (atomicAdd(&meeting.chunks_done, 1) != chunks - 1) return false;
  __threadfence();
  first_bad = no_position - atomicMax(&meeting.first_bad, 0);
  return true;
}

}  // namespace detail

template <class Handle>
__global__ void __launch_bounds__(cuda::block_threads, verify_blocks_per_multiprocessor)
    verify_rows(const verify_args<Handle> args) {
  __shared__ std::uint32_t first_bad;
  __shared__ bool finishes_row;

  const cuda::step_info step = *args.batch.d_step;
  const std::uint32_t blocks = step.chunks < gridDim.x ? step.chunks : gridDim.x;  // that have work
  if (step.is_staged == 0 || (blockIdx.x >= blocks && blockIdx.x != 0)) return;

  for (std::uint32_t chunk = blockIdx.x; chunk < step.chunks; chunk += blocks) {
    if (threadIdx.x == 0) first_bad = detail::no_position;
    // With as many chunks as rows, each row has one.
    const std::uint32_t row_index =
        step.chunks == step.rows ? chunk : detail::find_row(args.batch.d_rows, step.rows, chunk);
    __syncthreads();
    if (row_index == detail::no_row) continue;

    const cuda::batch_row row = args.batch.d_rows[row_index];
    const std::uint32_t bad = detail::check_chunk(args.batch, row, row_index, chunk - row.chunks_before);
    if (bad != detail::no_position) atomicMin(&first_bad, bad);
    __syncthreads();

    const std::uint32_t chunks = cuda::chunks_for(row.pages);
    if (threadIdx.x == 0)
      finishes_row = chunks == 1 || detail::is_last_of_row(args.scratch.d_rows[row_index], chunks, first_bad);
    __syncthreads();
    if (finishes_row) detail::finish_row(args, row, row_index, first_bad);
    __syncthreads();
  }

  if (!detail::is_last_of(blocks == 0 ? 1 : blocks, args.scratch.d_blocks_done)) return;
  // Also where something has written over a row's record, and its blocks have not met as they should.
  for (std::uint32_t i = threadIdx.x; i < step.rows; i += blockDim.x) args.scratch.d_rows[i] = {};
  if (threadIdx.x != 0) return;
  const auto verdicts = args.verdicts.at(step.step);
  verdicts.summary = {.step = step.step,
                      .rows = step.rows,
                      .entries = step.entries,
                      .failed_rows = atomicExch(args.scratch.d_failed_rows, 0)};
  __threadfence_system();
  *static_cast<volatile step_number*>(&verdicts.verified) = step.step;
}

}  // namespace kvpage::inline v0::kernels
