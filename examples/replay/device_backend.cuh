// kvpage-replay: steps that are verified and run on the device, in one stream.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <kvpage/kvpage.hpp>
#include <span>
#include <vector>

#include "backend.hpp"
#include "device_exports.cuh"
#include "device_memory.cuh"
#include "oracle.hpp"

// Only an emulated CUDA runtime, which interprets kernels, has it.
extern "C" __attribute__((weak)) unsigned long long cudaemu_findings(void);

namespace replay {

inline constexpr unsigned attention_threads = 32;  // a block; a block for each row

// A page of a prompt, computed.
struct written_page {
  std::uint64_t page;
  std::uint64_t content;
};

inline __global__ void write_prompts(const written_page* d_pages, std::uint64_t* d_cache) {
  d_cache[d_pages[blockIdx.x].page] = d_pages[blockIdx.x].content;
}

// Untagged, two rows may own a page and write it at once.
inline __global__ void write_new_tokens(attention_step step) {
  if (std::uint64_t* const page = step.written_page(blockIdx.x))
    atomicExch(reinterpret_cast<unsigned long long*>(page), step.written_content(blockIdx.x));
}

inline __global__ void read_rows(attention_step step, unsigned long long* d_foreign) {
  const std::size_t end = step.entries_end(blockIdx.x);
  for (std::size_t entry = step.first_entry(blockIdx.x) + threadIdx.x; entry < end; entry += blockDim.x) {
    if (step.is_foreign(blockIdx.x, entry)) atomicAdd(d_foreign, 1ull);
  }
}

// The order in the stream: tables, verification, attention.  The host waits once, at the step's end, for the
// sake of the report; the verdicts are polled.
template <class Pool>
class device_backend {
 public:
  device_backend(Pool& pool, const backend_limits& limits)
      : pool_{pool},
        window_{limits.window},
        exports_(pool, limits),
        cache_(pool.size()),
        prompts_(pool.size()),
        contents_(limits.batch.entries),
        first_(limits.batch.rows + 1),
        foreign_(1) {
    account_.is_timed = cudaemu_findings == nullptr;
    check("clearing",
          cudaMemsetAsync(cache_.d_data(), 0, pool.size() * sizeof(std::uint64_t), stream_.get()));
  }

  void write(kvpage::page_id page, std::uint64_t content) { written_.push_back({page, content}); }

  void export_tables(std::span<const running_request<Pool>> rows) {
    rows_ = static_cast<std::uint32_t>(rows.size());
    exports_.export_tables(rows, stream_.get(), account_);
  }
  void overwrite_page(std::size_t row, std::size_t entry, std::int32_t page) {
    exports_.overwrite_page(row, entry, page, stream_.get());
  }
  void overwrite_length(std::size_t row, std::int32_t tokens) {
    exports_.overwrite_length(row, tokens, stream_.get());
  }

  [[nodiscard]] step_outcome run(kvpage::step_number step, const expected_reads& expected) {
    exports_.enqueue_verification(stream_.get(), account_);
    enqueue_attention(expected);
    unsigned long long foreign = 0;
    check("foreign reads", cudaMemcpyAsync(&foreign, foreign_.d_data(), sizeof(foreign),
                                           cudaMemcpyDeviceToHost, stream_.get()));
    stream_.wait_sync();
    return {exports_.verdicts(step, account_), foreign};
  }

  [[nodiscard]] const step_account& account() const { return account_; }

 private:
  void enqueue_attention(const expected_reads& expected) {
    const cudaStream_t stream = stream_.get();
    if (!written_.empty()) {
      prompts_.upload(written_, stream);
      write_prompts<<<static_cast<unsigned>(written_.size()), 1, 0, stream>>>(prompts_.d_data(),
                                                                              cache_.d_data());
      check("prompts", cudaGetLastError());
      written_.clear();
    }
    contents_.upload(expected.contents, stream);
    first_.upload(expected.first, stream);
    check("clearing", cudaMemsetAsync(foreign_.d_data(), 0, sizeof(unsigned long long), stream));

    const kvpage::cuda::attention_inputs& in = exports_.inputs();
    const attention_step step{.seq_lens = in.d_seq_lens,
                              .slots = in.d_slots,
                              .indptr = in.d_indptr,
                              .indices = in.d_indices,
                              .rows = rows_,
                              .tokens_per_page = static_cast<std::uint32_t>(pool_.tokens_per_page()),
                              .window = window_,
                              .expected = contents_.d_data(),
                              .first_expected = first_.d_data(),
                              .cache = cache_.d_data(),
                              .pages = pool_.size()};
    write_new_tokens<<<rows_, 1, 0, stream>>>(step);
    check("new tokens", cudaGetLastError());
    read_rows<<<rows_, attention_threads, 0, stream>>>(step, foreign_.d_data());
    check("attention", cudaGetLastError());
  }

  const Pool& pool_;
  std::size_t window_;
  device_stream stream_;
  device_exports<Pool> exports_;
  device_array<std::uint64_t> cache_;  // what each page holds; 0: unwritten
  device_array<written_page> prompts_;
  device_array<std::uint64_t> contents_;  // expected_reads
  device_array<std::uint32_t> first_;
  device_array<unsigned long long> foreign_;
  std::vector<written_page> written_;  // since the last step
  std::uint32_t rows_ = 0;
  step_account account_;
};

}  // namespace replay
