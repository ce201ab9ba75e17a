// kvpage: block tables that live on the device, and the decode steps built from them.
#pragma once

#include <cuda_runtime.h>
#include <gsl/assert>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <kvpage/kernels/update_tables.cuh>

#include "../block_table.hpp"
#include "../config.hpp"
#include "../error.hpp"
#include "../integrity.hpp"
#include "device_batch.cuh"
#include "launch.cuh"
#include "memory.cuh"
#include "page_tags.cuh"
#include "resident_rows.cuh"
#include "staging_ring.cuh"
#include "tables_memory.cuh"

namespace kvpage::inline v0::cuda {

// What has been staged so far.
struct update_stats {
  std::uint64_t steps = 0;
  std::uint64_t changed_entries = 0;
  std::uint64_t changed_tags = 0;
  std::uint64_t full_tag_uploads = 0;
  std::uint64_t bytes = 0;

  friend bool operator==(const update_stats&, const update_stats&) = default;
};

// Holds up to max_rows requests' pages on the device, in rows that the engine numbers, and a copy of the
// pool's tags.  Each step:
//
//   host     assign(row, table) where a table has changed, add(row) for the batch, stage()
//   stream   enqueue_update, verifier::enqueue, the model       (may be captured in a graph, once)
//
// The device counts steps as stage() does, from 1.  Only changes travel: the host's work in a step is
// proportional to the rows of the batch and to what has changed in them, not to their length.
//
// Order: update, verifier and model of a step on one stream, or joined by events, and the next step's
// update after all of them.  A step in flight is then never judged by a later step's tags.  Streams that
// verify independently of each other take a device_tables each.
//
// After construction nothing here allocates, and nothing waits for the device.  One thread at a time.
template <class Pool>
class device_tables {
 public:
  using handle = typename Pool::handle;

  // Throws std::invalid_argument for options out of range, cuda_error, std::bad_alloc.  The pool, and
  // `memory` if given, must outlive the tables.
  explicit device_tables(Pool& pool, const table_options& options, const memory_blocks& memory = {})
      : options_{detail::checked(options)},
        memory_(required_memory(pool, options), memory),
        arrays_{arrays::lay_out(pool.size(), options, memory_.blocks())},
        staging_{arrays_.staging, arrays::staging_limits_of(options)},
        pool_pages_{static_cast<std::uint32_t>(pool.size())},
        tokens_per_page_{pool.tokens_per_page()},
        tags_(pool, options.max_changed_tags, arrays_.tag_image),
        rows_(options.max_rows, options.max_pages_per_row, options.max_changed_entries),
        update_blocks_{detail::blocks_for(update_threads(options), update_blocks_per_multiprocessor)},
        batch_of_row_(options.max_rows) {
    batch_.reserve(options.max_rows);
  }

  // What the constructor wants of a caller that brings its own memory.  Throws std::invalid_argument as it does.
  [[nodiscard]] static memory_sizes required_memory(const Pool& pool, const table_options& options) {
    return arrays::sizes(pool.size(), detail::checked(options));
  }

  // --- The host's part of a step ---

  // Makes row `row` hold the table's pages, whatever it held before.  Called before the step that is to
  // see a change of the table (new pages, new tokens, pages given up).
  //   row_in_batch: added since the last stage(); row_too_long; batch_full: more entries change than travel in
  //   one step (max_changed_entries).
  // O(changes); O(pages) if the table was rewritten more than once since it was last assigned to this row.
  [[nodiscard]] errc assign(std::uint32_t row, const block_table<Pool>& table) noexcept {
    Expects(tags_.mirrors(table.pool()));
    return is_in_batch(row) ? errc::row_in_batch : rows_.assign(row, table);
  }

  // Makes row `row` hold nothing; what is assigned to it next travels whole.  row_in_batch, batch_full as above.
  // O(pages it held).
  [[nodiscard]] errc clear(std::uint32_t row) noexcept {
    return is_in_batch(row) ? errc::row_in_batch : rows_.clear(row);
  }

  // All tags travel with the next step.  Call it, and clear(row), once a row has failed: should something have
  // written over the device's copies, the pages' next owners are not cut off for it.  O(1), but see stage().
  void resend_tags() noexcept { tags_.invalidate(); }

  // Adds a row as it was assigned to the batch, its newest `new_tokens` tokens to be written in this step.
  //   row_in_batch: it has been; outside_row: fewer than new_tokens tokens held; batch_full.
  [[nodiscard]] errc add(std::uint32_t row, std::uint32_t new_tokens = 1) noexcept {
    if (is_in_batch(row)) return errc::row_in_batch;
    const auto& held = rows_[row];
    if (new_tokens > held.tokens - held.dropped_pages * tokens_per_page_) return errc::outside_row;
    KVPAGE_TRY(add_row({.first_entry = rows_.first_entry(row),
                        .pages = held.pages,
                        .tokens = held.tokens,
                        .new_tokens = new_tokens}));
    batch_of_row_[row] = batch_number_;
    return errc::ok;
  }

  // Adds a row that reads nothing and writes its `new_tokens` tokens nowhere.  batch_full.  O(1), as add.
  [[nodiscard]] errc add_padding(std::uint32_t new_tokens = 1) noexcept {
    return add_row({.new_tokens = new_tokens});
  }

  // Forgets the rows added since the last stage(); what was assigned stays assigned.  O(1).
  void drop_batch() noexcept {
    batch_.clear();
    batch_totals_ = {};
    ++batch_number_;
  }

  // Hands what was assigned and added to the device as its next step, and begins a new batch.
  //   not_ready: the device is staging_slots steps behind, or all tags have to travel and it has not read those of
  //   the last time.  Nothing has changed, the batch included: stage it again later, and launch nothing before.
  // O(rows + changes); O(pool.size()) when all tags travel.
  [[nodiscard]] result<step_number> stage() noexcept;

  // --- The stream's part ---

  // One launch: applies the step that was staged next, and empties every export until the verifier fills it.
  // If no step was staged, the batch is empty and no step is counted.  A launch that stage() overlaps with
  // takes all of the step or nothing of it.  So launch once for each stage(): a launch too many that runs late takes
  // the next step, and that step's own launch finds an empty batch.
  [[nodiscard]] cudaError_t enqueue_update(cudaStream_t stream) const noexcept;

  // What the verifier checks and what attention then reads: the same addresses in every step.
  [[nodiscard]] device_batch<handle> batch() const noexcept;
  [[nodiscard]] const attention_inputs& inputs() const noexcept { return arrays_.out; }

  // The newest step whose update has run.
  [[nodiscard]] step_number steps_begun() const noexcept { return detail::read_counter(*arrays_.begun); }

  // The newest step that is over, because the next has begun: what page_pool::retire and kv_cache::retire take.  An
  // engine that has nothing more to launch synchronises with its stream and retires the newest launched step.
  [[nodiscard]] step_number steps_over() const noexcept {
    const step_number begun = steps_begun();
    return begun - (begun != 0);
  }

  // --- Accounts ---

  [[nodiscard]] const table_options& options() const noexcept { return options_; }
  [[nodiscard]] const update_stats& stats() const noexcept { return stats_; }

 private:
  template <class>
  friend class verifier;
  using arrays = detail::tables_memory<handle>;

  // Few: each reads the staged step over the bus, and has little to do.
  static constexpr std::uint32_t update_blocks_per_multiprocessor = 2;

  // What keeps an update's threads busy: a warp for each row's ids, one thread for each change.  All of the
  // tags travel too rarely to launch more blocks in every step.
  [[nodiscard]] static std::uint64_t update_threads(const table_options& options) noexcept {
    return (std::max)({std::uint64_t{options.max_rows} * 32, std::uint64_t{options.max_slots},
                       std::uint64_t{options.max_changed_entries}, std::uint64_t{options.max_changed_tags}});
  }

  [[nodiscard]] bool is_in_batch(std::uint32_t row) const noexcept {
    Expects(row < options_.max_rows);
    return batch_of_row_[row] == batch_number_;
  }
  [[nodiscard]] errc add_row(batch_row row) noexcept;

  table_options options_;
  detail::step_memory memory_;
  arrays arrays_;
  detail::staging_view<handle> staging_;
  std::uint32_t pool_pages_;
  std::uint32_t tokens_per_page_;
  page_tags<Pool> tags_;
  resident_rows<Pool> rows_;
  std::uint32_t update_blocks_;

  std::vector<batch_row> batch_;
  std::vector<std::uint64_t> batch_of_row_;  // the number of the batch that it was last added to
  std::uint64_t batch_number_ = 1;
  detail::staged_counts batch_totals_;
  update_stats stats_;
};

// Untagged, there is nothing to verify: no memory, no launch.  An untagged engine exports its tables with
// decode_batch and copies them as it always has.  There is no stage(): no step is counted here, and a number made up
// would end the fences of pages that are still being read.
template <class Pool>
requires untagged_policy<typename Pool::policy>
class device_tables<Pool> {
 public:
  explicit device_tables(Pool&, const table_options&, const memory_blocks& = {}) noexcept {}
  [[nodiscard]] static memory_sizes required_memory(const Pool&, const table_options&) noexcept { return {}; }

  [[nodiscard]] errc assign(std::uint32_t, const block_table<Pool>&) noexcept { return errc::ok; }
  [[nodiscard]] errc clear(std::uint32_t) noexcept { return errc::ok; }
  void resend_tags() noexcept {}
  [[nodiscard]] errc add(std::uint32_t, std::uint32_t = 1) noexcept { return errc::ok; }
  [[nodiscard]] errc add_padding(std::uint32_t = 1) noexcept { return errc::ok; }
  void drop_batch() noexcept {}
  [[nodiscard]] cudaError_t enqueue_update(cudaStream_t) const noexcept { return cudaSuccess; }
};

template <class Pool>
errc device_tables<Pool>::add_row(batch_row row) noexcept {
  detail::staged_counts& totals = batch_totals_;
  const bool has_room = totals.rows < options_.max_rows &&
                        row.new_tokens <= options_.max_slots - totals.new_tokens &&
                        row.pages <= max_tokens_per_row - totals.entries;  // indptr is int32
  if (!has_room) return errc::batch_full;
  row.chunks_before = totals.chunks;
  row.pages_before = totals.entries;
  row.slots_before = totals.new_tokens;
  batch_.push_back(row);
  ++totals.rows;
  totals.entries += row.pages;
  totals.new_tokens += row.new_tokens;
  totals.chunks += chunks_for(row.pages);
  return errc::ok;
}

template <class Pool>
result<step_number> device_tables<Pool>::stage() noexcept {
  const step_number step = stats_.steps + 1;
  const step_number begun = steps_begun();
  if (step > begun + options_.staging_slots) return errc::not_ready;
  const bool all_tags = tags_.needs_all();
  if (all_tags && tags_.image_step() > begun) return errc::not_ready;

  // Until the last line the slot names the step that had it before, which no update looks for any more.
  const auto slot = staging_.at(step);
  detail::staged_counts counts = batch_totals_;
  counts.all_tags = all_tags;
  counts.changed_entries = rows_.stage_changes(slot.entries);
  if (all_tags) {
    tags_.stage_all(step);
  } else {
    counts.changed_tags = tags_.stage_changes(slot.tags);
  }
  std::copy(batch_.begin(), batch_.end(), slot.rows);
  slot.counts = counts;
  detail::write_counter(slot.step, step);

  ++stats_.steps;
  stats_.changed_entries += counts.changed_entries;
  stats_.changed_tags += counts.changed_tags;
  stats_.full_tag_uploads += all_tags;
  stats_.bytes += sizeof(step) + sizeof(counts) + batch_.size() * sizeof(batch_row) +
                  counts.changed_entries * sizeof(entry_change<handle>) +
                  counts.changed_tags * sizeof(tag_change) + (all_tags ? pool_pages_ * sizeof(page_tag) : 0);
  drop_batch();
  return step;
}

template <class Pool>
cudaError_t device_tables<Pool>::enqueue_update(cudaStream_t stream) const noexcept {
  const kernels::update_args<handle> args{.staging = {memory_.on_device(arrays_.staging), staging_.limits},
                                          .tag_image = memory_.on_device(arrays_.tag_image),
                                          .begun = memory_.on_device(arrays_.begun),
                                          .d_tags = arrays_.d_tags,
                                          .d_ids = arrays_.d_ids,
                                          .d_granted = arrays_.d_granted,
                                          .d_rows = arrays_.d_rows,
                                          .d_step = arrays_.d_step,
                                          .out = arrays_.out,
                                          .d_padded_pages = arrays_.d_padded_pages,
                                          .d_decision = arrays_.d_decision,
                                          .d_blocks_done = arrays_.d_blocks_done,
                                          .pool_pages = pool_pages_,
                                          .tokens_per_page = tokens_per_page_,
                                          .max_rows = options_.max_rows,
                                          .max_slots = options_.max_slots};
  return detail::launch(kernels::update_tables<handle>, update_blocks_, stream, args);
}

template <class Pool>
device_batch<typename Pool::handle> device_tables<Pool>::batch() const noexcept {
  return {.d_tags = arrays_.d_tags,
          .d_ids = arrays_.d_ids,
          .d_granted = arrays_.d_granted,
          .d_rows = arrays_.d_rows,
          .d_step = arrays_.d_step,
          .out = arrays_.out,
          .pool_pages = pool_pages_,
          .tokens_per_page = tokens_per_page_,
          .max_rows = options_.max_rows,
          .max_chunks = std::uint64_t{options_.max_rows} * chunks_for(options_.max_pages_per_row)};
}

}  // namespace kvpage::inline v0::cuda
