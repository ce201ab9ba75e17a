// kvpage-replay: the exported tables on the device, under either policy.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <kvpage/cuda/verifier.cuh>
#include <kvpage/kvpage.hpp>
#include <span>
#include <stdexcept>
#include <vector>

#include "backend.hpp"
#include "device_memory.cuh"
#include "exported_tables.hpp"

namespace replay {

// Faults, as stray kernels make them: on what the verifier is about to read.
template <class Handle>
__global__ void overwrite_page_on_device(kvpage::cuda::device_batch<Handle> batch, std::uint32_t row,
                                         std::size_t entry, std::int32_t page) {
  const_cast<std::int32_t*>(batch.d_ids)[batch.d_rows[row].first_entry + entry] = page;
}
template <class Handle>
__global__ void overwrite_length_on_device(kvpage::cuda::device_batch<Handle> batch, std::uint32_t row,
                                           std::uint32_t tokens) {
  const_cast<kvpage::cuda::batch_row&>(batch.d_rows[row]).tokens = tokens;
}

// Tagged: the tables live on the device, where only changes travel, and are verified there.  A request's row
// is its slot in the cache.
template <class Pool>
class device_exports {
 public:
  device_exports(Pool& pool, const backend_limits& limits)
      : tables_(pool, options_for(pool, limits)), verifier_(tables_), verdicts_(limits.batch.rows) {}

  void export_tables(std::span<const running_request<Pool>> rows, cudaStream_t stream,
                     step_account& account) {
    rows_ = rows;
    account.exports.measure([&] {
      std::uint64_t entries = 0;
      for (const auto& row : rows) {
        require(tables_.assign(row.handle.slot, *row.table));
        require(tables_.add(row.handle.slot));
        entries += row.table->pages();
      }
      require(tables_.stage().error());
      check("tables", tables_.enqueue_update(stream));
      return entries;
    });
    ++account.launches;
    account.bytes_uploaded = tables_.stats().bytes;
  }

  void overwrite_page(std::size_t row, std::size_t entry, std::int32_t page, cudaStream_t stream) {
    overwrite_page_on_device<<<1, 1, 0, stream>>>(tables_.batch(), static_cast<std::uint32_t>(row), entry,
                                                  page);
    check("a fault", cudaGetLastError());
  }
  void overwrite_length(std::size_t row, std::int32_t tokens, cudaStream_t stream) {
    overwrite_length_on_device<<<1, 1, 0, stream>>>(tables_.batch(), static_cast<std::uint32_t>(row),
                                                    static_cast<std::uint32_t>(tokens));
    check("a fault", cudaGetLastError());
  }

  // Attention may follow in the same stream.
  void enqueue_verification(cudaStream_t stream, step_account& account) {
    timer_.begin(stream);
    check("verification", verifier_.enqueue(stream));
    timer_.end(stream);
    ++account.launches;
  }

  // What the step's verification has found.  The stream has come past it.  Whatever a fault has overwritten is sent
  // anew, to whoever has the row and the pages next.
  [[nodiscard]] std::span<const kvpage::verdict> verdicts(kvpage::step_number step, step_account& account) {
    const kvpage::cuda::step_verdict found = verifier_.verdicts().poll(step);
    require_verified(step, rows_.size(), found.summary);
    const std::span verdicts = std::span{verdicts_}.first(rows_.size());
    std::ranges::fill(verdicts, kvpage::verdict{});
    for (const kvpage::cuda::failed_row& failed : found.failed) {
      verdicts[failed.row] = failed.finding;
      require(tables_.clear(rows_[failed.row].handle.slot));
      tables_.resend_tags();
    }
    account.verification.add(std::chrono::duration<double, std::milli>(timer_.milliseconds()),
                             found.summary.entries);
    account.rows_verified += found.summary.rows;
    return verdicts;
  }

  [[nodiscard]] const kvpage::cuda::attention_inputs& inputs() const { return tables_.inputs(); }

 private:
  [[nodiscard]] static kvpage::cuda::table_options options_for(const Pool& pool,
                                                               const backend_limits& limits) {
    const auto width = static_cast<std::uint32_t>(limits.pages_per_request);
    // In the worst step, every row of the batch replaces a request of the same length.
    const std::size_t most_changes = (std::max)(2 * limits.batch.entries, limits.pages_per_request);
    return {
        .max_rows = limits.request_slots,
        .max_pages_per_row = width,
        .max_slots = static_cast<std::uint32_t>(limits.batch.slots),
        .max_changed_entries = static_cast<std::uint32_t>(most_changes),
        .max_changed_tags = static_cast<std::uint32_t>(pool.size() / 2),  // more are fewer bytes as a whole
        .staging_slots = 2,
        .padded = false};
  }

  static void require(kvpage::errc code) {
    if (code != kvpage::errc::ok)
      throw std::logic_error("device tables: " + std::string(kvpage::to_string(code)));
  }

  kvpage::cuda::device_tables<Pool> tables_;
  kvpage::cuda::verifier<Pool> verifier_;
  std::span<const running_request<Pool>> rows_;  // of the step
  std::vector<kvpage::verdict> verdicts_;
  device_timer timer_;
};

// Untagged: exported on the host and copied as a whole in every step.  Nothing is verified.
template <class Pool>
requires kvpage::untagged_policy<typename Pool::policy>
class device_exports<Pool> {
 public:
  device_exports(const Pool&, const backend_limits& limits)
      : tables_(limits.batch),
        seq_lens_(limits.batch.rows),
        indptr_(limits.batch.rows + 1),
        indices_(limits.batch.entries),
        slots_(limits.batch.slots) {
    inputs_.d_seq_lens = seq_lens_.d_data();
    inputs_.d_indptr = indptr_.d_data();
    inputs_.d_indices = indices_.d_data();
    inputs_.d_slots = slots_.d_data();
  }

  void export_tables(std::span<const running_request<Pool>> rows, cudaStream_t, step_account& account) {
    account.exports.measure([&] {
      tables_.export_rows(rows);
      return tables_.batch.entries();
    });
  }
  void overwrite_page(std::size_t row, std::size_t entry, std::int32_t page, cudaStream_t) {
    tables_.overwrite_page(row, entry, page);
  }
  void overwrite_length(std::size_t row, std::int32_t tokens, cudaStream_t) {
    tables_.overwrite_length(row, tokens);
  }

  // There is none: the tables are copied.
  void enqueue_verification(cudaStream_t stream, step_account& account) {
    const auto upload = [&](auto& to, auto from) {
      to.upload(from, stream);
      account.bytes_uploaded += from.size_bytes();
    };
    upload(seq_lens_, tables_.batch.seq_lens());
    upload(indptr_, tables_.batch.indptr());
    upload(indices_, tables_.batch.indices());
    upload(slots_, tables_.batch.slots());
  }
  [[nodiscard]] std::span<const kvpage::verdict> verdicts(kvpage::step_number, step_account&) { return {}; }

  [[nodiscard]] const kvpage::cuda::attention_inputs& inputs() const { return inputs_; }

 private:
  exported_tables<Pool> tables_;
  device_array<std::int32_t> seq_lens_, indptr_, indices_;
  device_array<kvpage::slot_index> slots_;
  kvpage::cuda::attention_inputs inputs_;
};

}  // namespace replay
