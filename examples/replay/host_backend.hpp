// kvpage-replay: steps that are verified and run on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <kvpage/kvpage.hpp>
#include <span>
#include <vector>

#include "backend.hpp"
#include "exported_tables.hpp"
#include "oracle.hpp"

namespace replay {

// Verifies a step.  A stand-in for it has the same call.
struct host_verifier {
  template <class Pool>
  kvpage::result<kvpage::verify_summary> operator()(const kvpage::decode_batch<Pool>& batch, const Pool& pool,
                                                    kvpage::step_number step,
                                                    std::span<kvpage::verdict> verdicts) const {
    return kvpage::verify(batch, pool, step, verdicts);
  }
};

template <class Pool, class Verifier>
class host_backend {
 public:
  host_backend(const Pool& pool, const backend_limits& limits)
      : pool_{pool},
        window_{limits.window},
        tables_(limits.batch),
        verdicts_(limits.batch.rows),
        cache_(pool.size()) {}

  void write(kvpage::page_id page, std::uint64_t content) { cache_[page] = content; }

  void export_tables(std::span<const running_request<Pool>> rows) {
    account_.exports.measure([&] {
      tables_.export_rows(rows);
      return tables_.batch.entries();
    });
  }
  void overwrite_page(std::size_t row, std::size_t entry, std::int32_t page) {
    tables_.overwrite_page(row, entry, page);
  }
  void overwrite_length(std::size_t row, std::int32_t tokens) { tables_.overwrite_length(row, tokens); }

  [[nodiscard]] step_outcome run(kvpage::step_number step, const expected_reads& expected) {
    const auto verdicts = verify(step);
    for (std::size_t row = 0; row < verdicts.size(); ++row) {
      if (verdicts[row].state != kvpage::row_state::ok) tables_.batch.cut_off(row);
    }
    return {verdicts, attend({.seq_lens = tables_.seq_lens.data(),
                              .slots = tables_.slots.data(),
                              .indptr = tables_.indptr.data(),
                              .indices = tables_.indices.data(),
                              .rows = static_cast<std::uint32_t>(tables_.batch.rows()),
                              .tokens_per_page = static_cast<std::uint32_t>(pool_.tokens_per_page()),
                              .window = window_,
                              .expected = expected.contents.data(),
                              .first_expected = expected.first.data(),
                              .cache = cache_.data(),
                              .pages = cache_.size()})};
  }

  [[nodiscard]] const step_account& account() const { return account_; }

 private:
  // One verdict per row; none if untagged.
  [[nodiscard]] std::span<const kvpage::verdict> verify(kvpage::step_number step) {
    kvpage::verify_summary summary;
    account_.verification.measure([&] {
      summary = Verifier{}(tables_.batch, pool_, step, verdicts_).value();
      return summary.entries;
    });
    if constexpr (Pool::policy::is_tagged) require_verified(step, tables_.batch.rows(), summary);
    account_.rows_verified += summary.rows;
    return std::span{verdicts_}.first(summary.rows);
  }

  const Pool& pool_;
  std::size_t window_;
  exported_tables<Pool> tables_;
  std::vector<kvpage::verdict> verdicts_;
  std::vector<std::uint64_t> cache_;  // what each page holds; 0: unwritten
  step_account account_;
};

template <class Pool>
using on_host = host_backend<Pool, host_verifier>;

}  // namespace replay
