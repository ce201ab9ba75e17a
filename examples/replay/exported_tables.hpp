// kvpage-replay: what attention reads, on the host, in memory of the engine's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <kvpage/kvpage.hpp>
#include <span>
#include <stdexcept>
#include <vector>

#include "backend.hpp"

namespace replay {

template <class Pool>
class exported_tables {
 public:
  explicit exported_tables(const kvpage::batch_limits& limits)
      : indptr(limits.rows + 1),
        indices(limits.entries),
        last_page_len(limits.rows),
        seq_lens(limits.rows),
        slot_indptr(limits.rows + 1),
        slots(limits.slots),
        granted(Pool::policy::is_tagged ? limits.entries : 0),
        batch({indptr, indices, last_page_len, seq_lens, slot_indptr, slots, granted}) {}

  void export_rows(std::span<const running_request<Pool>> rows) {
    batch.clear();
    for (const auto& row : rows) {
      if (batch.add(*row.table) != kvpage::errc::ok)
        throw std::logic_error("the batch limits are too narrow");
    }
  }

  // --- Faults ---

  void overwrite_page(std::size_t row, std::size_t entry, std::int32_t page) {
    indices[static_cast<std::size_t>(indptr[row]) + entry] = page;
  }
  void overwrite_length(std::size_t row, std::int32_t tokens) { seq_lens[row] = tokens; }

  std::vector<std::int32_t> indptr, indices, last_page_len, seq_lens, slot_indptr;
  std::vector<kvpage::slot_index> slots;
  std::vector<typename Pool::handle> granted;
  kvpage::decode_batch<Pool> batch;  // fills them
};

}  // namespace replay
