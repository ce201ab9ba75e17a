// kvpage: one decode step as the device knows it: what is checked, and what attention then reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "../config.hpp"
#include "../page_handle.hpp"
#include "../verdict.hpp"

namespace kvpage::inline v0::cuda {

// Threads of a block; the most of one in the storage kernels, whose blocks take whole vectors.
inline constexpr std::uint32_t block_threads = 256;

// The verifier's unit of work: this many pages of one row, four a thread.
inline constexpr std::uint32_t pages_per_chunk = 4 * block_threads;

// A row without pages has a chunk too: its length and slots are checked and exported like any other's.
[[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint32_t chunks_for(std::uint32_t pages) noexcept {
  return pages <= pages_per_chunk ? 1 : (pages - 1) / pages_per_chunk + 1;
}

// One row of a batch.  Counts "before" are sums over the batch's earlier rows.
struct alignas(16) batch_row {
  std::uint64_t first_entry = 0;  // where the row's pages begin in device_batch::d_ids and d_granted
  std::uint32_t pages = 0;
  std::uint32_t tokens = 0;
  std::uint32_t new_tokens = 0;  // the newest tokens, written in this step
  std::uint32_t chunks_before = 0;
  std::uint32_t pages_before = 0;  // indptr
  std::uint32_t slots_before = 0;
};

static_assert(sizeof(batch_row) == 32 && std::is_trivially_copyable_v<batch_row>);

// The step that the device is at.
struct step_info {
  step_number step = 0;         // the newest that has begun
  std::uint32_t is_staged = 0;  // 0: the newest update found nothing new; there are no rows to verify
  std::uint32_t rows = 0;
  std::uint32_t entries = 0;
  std::uint32_t chunks = 0;
};

// What attention reads: written on the device, for each batch row.  A row reads nothing (length 0, null pages)
// and writes nowhere (slots -1) until the verifier has passed it: the update leaves no id of an earlier step.
// Forms that were not asked for are null.
struct attention_inputs {
  std::int32_t* d_seq_lens = nullptr;       // [max_rows]      tokens; 0 past the batch's rows
  slot_index* d_slots = nullptr;            // [max_slots]     page x tokens_per_page + offset, or -1
  std::int32_t* d_indptr = nullptr;         // [max_rows + 1]  CSR; rows past the batch's are empty
  std::int32_t* d_indices = nullptr;        // [max_rows x max_pages_per_row]
  std::int32_t* d_last_page_len = nullptr;  // [max_rows]
  std::int32_t* d_padded = nullptr;  // [max_rows x padded_width]  page ids, row-major, padded with page 0
  std::size_t padded_width = 0;      // a row that needs more pages than these fails as a short_row
};

// What becomes of a row that fails: its page ids become the null page's and its slots -1, and its length 0 or
// what it was (then attention reads the null page's zeros).
enum class cut_off : std::uint8_t { null_pages_and_length, null_pages };

// Everything the verifier's launch needs.  Trivially copyable; owns nothing.  device_tables::batch() gives
// one; an engine with tables of its own fills one in, and empties `out` before each step as an update does.
template <class Handle>
struct device_batch {
  const page_tag* d_tags = nullptr;     // [pool_pages]  the pages' present tags
  const std::int32_t* d_ids = nullptr;  // the rows' page ids, and
  const Handle* d_granted = nullptr;    // the handles that were granted for them; batch_row::first_entry
  const batch_row* d_rows = nullptr;    // [step_info::rows]
  const step_info* d_step = nullptr;
  attention_inputs out;
  std::uint32_t pool_pages = 0;
  std::uint32_t tokens_per_page = 0;
  std::uint32_t max_rows = 0;
  std::uint64_t max_chunks = 0;  // over all rows of the largest batch
};

}  // namespace kvpage::inline v0::cuda
