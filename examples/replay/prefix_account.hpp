// kvpage-replay: which of a trace's prefix blocks the cache found, and why it did not find the others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_set>

#include "report.hpp"
#include "trace.hpp"

namespace replay {

// Counts by the trace's own block ids, apart from the library: a block has been seen if an earlier request
// had it.  Requests must be given in the order of their first admission.
class prefix_account {
 public:
  // `cached` of the request's tokens were found.
  void admitted(const trace_request& request, std::size_t cached) {
    const auto& blocks = request.hash_ids;
    const auto first_new =
        std::ranges::find_if_not(blocks, [this](std::uint64_t id) { return seen_.contains(id); });
    const auto seen = static_cast<std::size_t>(first_new - blocks.begin());
    const std::size_t found = (std::min)(seen, cached / tokens_per_block);
    seen_.insert(blocks.begin(), blocks.end());

    counts_.prompt_tokens += request.input_length;
    counts_.cached_tokens += cached;
    counts_.blocks += blocks.size();
    counts_.blocks_seen += seen;
    counts_.blocks_found += found;
    for (std::size_t block = found; block < seen; ++block) {
      const std::size_t end = (block + 1) * tokens_per_block;
      if (end > request.input_length) {
        ++counts_.blocks_partial;
      } else if (end == request.input_length) {
        ++counts_.blocks_last;
      } else {
        ++counts_.blocks_missed;
      }
    }
  }

  [[nodiscard]] const prefix_counts& counts() const { return counts_; }

 private:
  std::unordered_set<std::uint64_t> seen_;
  prefix_counts counts_;
};

}  // namespace replay
