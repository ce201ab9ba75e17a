// kvpage-replay: what a backend is given and what it gives back.
//
// A backend holds the exported tables and the cache, and runs the steps: host_backend.hpp, device_backend.cuh.
//
//   Backend(pool, limits)
//   write(page, content)              a page of a prompt has been computed
//   export_tables(rows)               the batch of the next step
//   overwrite_page(row, entry, id)    faults in what was exported
//   overwrite_length(row, tokens)
//   run(step, expected) -> outcome    verifies the step, cuts off rows that fail, attends
//   account()
#pragma once

#include <cstddef>
#include <cstdint>
#include <kvpage/kvpage.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "stopwatch.hpp"

namespace replay {

// A request in the running batch.
template <class Pool>
struct running_request {
  std::uint32_t id;                    // its index in the trace
  std::uint32_t decoded;               // tokens of output so far
  std::vector<kvpage::token_id> text;  // prompt and output, the tokens still to decode included
  kvpage::request_handle handle;
  const kvpage::block_table<Pool>* table;
  bool published = false;  // the pages of its prompt
  bool failed = false;     // verification cut its row off
  bool ended = false;
};

struct backend_limits {
  kvpage::batch_limits batch;
  std::uint32_t request_slots;    // request_handle::slot is below
  std::size_t pages_per_request;  // at most
  std::size_t window;             // tokens that a token attends to; 0: all before it
};

// What came of a step.
struct step_outcome {
  std::span<const kvpage::verdict> verdicts;  // one per row; none if untagged
  std::uint64_t foreign_reads;
};

// What all steps took, of the library alone.
struct step_account {
  stopwatch exports, verification;  // their units are entries
  std::uint64_t rows_verified = 0;
  std::uint64_t launches = 0;
  std::uint64_t bytes_uploaded = 0;  // tables and tags
  bool is_timed = true;              // false: kernels are interpreted, and times mean nothing
};

// A step whose verification is not there is not run.
inline void require_verified(kvpage::step_number step, std::size_t rows,
                             const kvpage::verify_summary& found) {
  if (found.step != step || found.rows != rows)
    throw std::logic_error("step " + std::to_string(step) + " has not been verified");
}

}  // namespace replay
