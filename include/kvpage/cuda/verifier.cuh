// kvpage: the check before every decode step, on the device, in one launch, failing closed.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include <kvpage/kernels/verify_rows.cuh>

#include "../config.hpp"
#include "../error.hpp"
#include "../integrity.hpp"
#include "device_batch.cuh"
#include "device_tables.cuh"
#include "launch.cuh"
#include "memory.cuh"
#include "verdict_ring.cuh"

namespace kvpage::inline v0::cuda {

struct verifier_options {
  cut_off cut = cut_off::null_pages_and_length;
  // Steps for which verdicts stay readable; at least the tables' staging_slots + 2, so that a host that polls what is
  // pending between two stage() finds every step.
  std::uint32_t verdict_slots = 64;
};

// Compares, for every row of the batch, each page id with the handle that was granted for it and with the
// page's present tag, as verify.hpp does on the host and with the same verdicts.  Rows that pass are
// exported to the attention inputs, as they were checked.  Rows that fail are cut off there: in every
// exported form their ids are the null page, their slots -1, and their length 0 (or by option what it was);
// indptr and last_page_len stay, because attention libraries plan on them.  Rows do not influence each other.
//
// The caller's host reads the verdicts when it gets to it: nothing waits for it.
template <class Pool>
class verifier {
 public:
  using handle = typename Pool::handle;

  // Verifies the steps of `tables`, which must outlive the verifier; so must `memory`, if given.
  // Throws std::invalid_argument for options out of range, cuda_error.
  explicit verifier(const device_tables<Pool>& tables, const verifier_options& options = {},
                    const memory_blocks& memory = {})
      : verifier(tables.batch(), *tables.arrays_.begun, checked(options, tables.options().staging_slots + 2),
                 memory) {}

  // Verifies the steps of an engine's own tables.  `begun`, in pinned memory, counts the steps that have
  // begun.
  explicit verifier(const device_batch<handle>& batch, step_number& begun,
                    const verifier_options& options = {}, const memory_blocks& memory = {})
      : memory_(required_memory(batch, checked(options, 1)), memory),
        args_{.batch = batch, .scratch = {}, .verdicts = {}, .cut = options.cut},
        blocks_{
            detail::blocks_for(batch.max_chunks * block_threads, kernels::verify_blocks_per_multiprocessor)},
        verdicts_(lay_out(memory_.blocks(), batch, options, args_, nullptr), begun) {
    args_.verdicts.ring = memory_.on_device(args_.verdicts.ring);
  }

  // What the constructor wants of a caller that brings its own memory.
  [[nodiscard]] static memory_sizes required_memory(const device_batch<handle>& batch,
                                                    const verifier_options& options) noexcept {
    memory_sizes sizes;
    kernels::verify_args<handle> args;
    static_cast<void>(lay_out({}, batch, options, args, &sizes));
    return sizes;
  }

  // Verifies the step that device_tables::enqueue_update has begun.  One launch, once in a step.
  [[nodiscard]] cudaError_t enqueue(cudaStream_t stream) const noexcept {
    return detail::launch(kernels::verify_rows<handle>, blocks_, stream, args_);
  }

  [[nodiscard]] const verdict_ring& verdicts() const noexcept { return verdicts_; }

 private:
  static const verifier_options& checked(const verifier_options& options, std::uint32_t least_slots) {
    kvpage::detail::require_between("verifier: verdict_slots", options.verdict_slots, least_slots, 1u << 17);
    return options;
  }

  // Deals out the memory to the kernel's arguments; returns the ring at its address on the host.
  static detail::verdict_view lay_out(const memory_blocks& blocks, const device_batch<handle>& batch,
                                      const verifier_options& options, kernels::verify_args<handle>& args,
                                      memory_sizes* sizes) noexcept {
    detail::carver device(blocks.d_device);
    args.scratch = {.d_rows = device.take<kernels::row_meeting>(batch.max_rows),
                    .d_failed_rows = device.take<std::uint32_t>(1),
                    .d_blocks_done = device.take<std::uint32_t>(1)};
    detail::carver pinned(blocks.pinned);
    const std::size_t bytes = options.verdict_slots * detail::verdict_view::slot_bytes(batch.max_rows);
    args.verdicts = {pinned.take<std::byte>(bytes), options.verdict_slots, batch.max_rows};
    if (sizes != nullptr) *sizes = {device.bytes(), pinned.bytes()};
    return args.verdicts;
  }

  detail::step_memory memory_;
  kernels::verify_args<handle> args_;
  std::uint32_t blocks_;
  verdict_ring verdicts_;
};

// Untagged: nothing is stored, launched or compiled.
template <class Pool>
requires untagged_policy<typename Pool::policy>
class verifier<Pool> {
 public:
  explicit verifier(const device_tables<Pool>&, const verifier_options& = {},
                    const memory_blocks& = {}) noexcept {}
  [[nodiscard]] cudaError_t enqueue(cudaStream_t) const noexcept { return cudaSuccess; }
};

}  // namespace kvpage::inline v0::cuda
