// kvpage-replay: what came out.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "options.hpp"

namespace replay {

// Over first admissions; see prefix_account.  Blocks are the trace's.
struct prefix_counts {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t blocks = 0;
  std::uint64_t blocks_seen = 0;     // leading ones that an earlier request had
  std::uint64_t blocks_found = 0;    // of those: in the cache
  std::uint64_t blocks_partial = 0;  // not, because the prompt ends within them
  std::uint64_t blocks_last = 0;     // not, because the prompt ends with them: its last token is computed
  std::uint64_t blocks_missed = 0;   // not, because they were evicted, or are being computed
  std::uint64_t evicted_pages = 0;
};

struct report {
  std::uint64_t requests = 0;
  std::uint64_t completed = 0;
  std::uint64_t aborted = 0;
  std::uint64_t preempted = 0;  // times that a request lost its pages and went back to the queue
  std::uint64_t rejected = 0;   // larger than the pool

  std::uint64_t steps = 0;
  std::uint64_t tokens = 0;  // decoded
  std::uint64_t rows_verified = 0;
  std::uint64_t entries_verified = 0;

  per_fault<std::uint64_t> injected{};
  per_fault<std::uint64_t> detected{};
  std::uint64_t innocents_aborted = 0;
  std::uint64_t foreign_reads = 0;  // entries

  struct page_counts {
    std::uint64_t capacity = 0;
    std::uint64_t peak_live = 0;
    std::uint64_t granted = 0;
    std::uint64_t released = 0;
    std::uint64_t retired = 0;
  } pages;

  prefix_counts prefix;

  bool audit_clean = false;
  std::string audit;  // in words

  // Spent inside the library.
  double ns_per_page = 0;           // granted or released, where many are at once
  double ns_per_admitted_page = 0;  // matched, retained or granted: admissions alone
  double ns_per_entry = 0;          // verified
  double us_per_step = 0;
  bool is_timed = true;  // false: kernels were interpreted, and times mean nothing

  // Of the library, on the device.
  double launches_per_step = 0;
  double bytes_uploaded_per_step = 0;  // tables and tags
};

// Aligned, for people.
void write_table(std::ostream& out, const report& of, const options& chosen);

// One object, for machines.
void write_json(std::ostream& out, const report& of);

// 0 if all is well.  1 if the audit failed or, for a policy that promises more (`verified`), if a fault went
// undetected, an innocent request was aborted or a foreign read happened.
[[nodiscard]] int exit_status(const report& of, bool verified);

}  // namespace replay
