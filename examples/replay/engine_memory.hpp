// kvpage-replay: everything that the engine asks of kvpage, in one place, and how long it takes.
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
  std::uint32_t id;       // its index in the trace
  std::uint32_t decoded;  // tokens of output so far
  kvpage::block_table<Pool> table;
  bool failed = false;  // verification cut its row off
};

// Verifies a step on the host.  A stand-in for it has the same call.
struct host_verifier {
  template <class Pool>
  kvpage::result<kvpage::verify_summary> operator()(const kvpage::decode_batch<Pool>& batch, const Pool& pool,
                                                    kvpage::step_number step,
                                                    std::span<kvpage::verdict> verdicts) const {
    return kvpage::verify(batch, pool, step, verdicts);
  }
};

// The pool, the exported tables and their verification, as an engine with one step in flight uses them:
// pages given up while step n is the newest launched one are granted again once step n has finished,
// which is when step n + 2 is prepared.
template <kvpage::element E, kvpage::integrity_policy P, class Verifier = host_verifier>
class engine_memory {
 public:
  using pool_type = kvpage::page_pool<E, P>;
  using table = kvpage::block_table<pool_type>;
  using handle = typename pool_type::handle;
  using request = running_request<pool_type>;

  // What attention reads, in memory of the engine's own.
  struct exported_tables {
    explicit exported_tables(const kvpage::batch_limits& limits)
        : indptr(limits.rows + 1),
          indices(limits.entries),
          last_page_len(limits.rows),
          seq_lens(limits.rows),
          slot_indptr(limits.rows + 1),
          slots(limits.slots),
          granted(P::is_tagged ? limits.entries : 0) {}

    std::vector<std::int32_t> indptr, indices, last_page_len, seq_lens, slot_indptr;
    std::vector<kvpage::slot_index> slots;
    std::vector<handle> granted;
  };

  engine_memory(std::uint64_t pages, std::uint32_t page_size, const kvpage::batch_limits& limits)
      : pool_({.pages = pages + 1, .tokens_per_page = page_size}),
        exported_(limits),
        batch_({exported_.indptr, exported_.indices, exported_.last_page_len, exported_.seq_lens,
                exported_.slot_indptr, exported_.slots, exported_.granted}),
        verdicts_(limits.rows) {}

  // --- A request's life ---

  // An empty table that can grow to `most` tokens without allocating.
  [[nodiscard]] table new_table(std::size_t most) {
    return table(pool_, kvpage::pages_for(most, pool_.tokens_per_page()));
  }

  // Grants an empty table the pages for its first `tokens` tokens.
  [[nodiscard]] kvpage::errc admit(table& into, std::size_t tokens) {
    kvpage::errc code = kvpage::errc::ok;
    bulk_.measure([&] {
      code = into.append(tokens);
      return into.pages();
    });
    granted_ += into.pages();
    return code;
  }

  // How many rows grew, and what stopped the next one.
  struct growth {
    std::size_t rows = 0;
    kvpage::errc code = kvpage::errc::ok;
  };

  // Makes room for one more token in each row, in order, up to the first that cannot grow.
  [[nodiscard]] growth grow(std::span<request> rows) {
    growth done;
    growth_.measure([&] {
      std::uint64_t granted = 0;
      for (; done.rows < rows.size(); ++done.rows) {
        table& row = rows[done.rows].table;
        const std::size_t before = row.pages();
        done.code = row.append(1);
        if (done.code != kvpage::errc::ok) break;
        granted += row.pages() - before;
      }
      granted_ += granted;
      return granted;
    });
    return done;
  }

  // Takes back every page that is still the table's own.
  void give_up(table& from) {
    bulk_.measure([&] {
      std::size_t held = from.pages() - from.dropped_pages();
      if (from.release(launched_) != kvpage::errc::ok) held -= from.abandon(launched_);
      released_ += held;
      return held;
    });
  }

  // Releases pages on their own: what engines do by mistake, and nothing here does but on purpose.
  [[nodiscard]] kvpage::errc release_behind(std::span<const handle> pages) {
    const kvpage::errc code = pool_.release(pages);
    if (code == kvpage::errc::ok) released_ += pages.size();
    return code;
  }

  // --- A step's life ---

  // Starts preparing the next step: the one before the one in flight has finished.
  void begin_step() {
    if (launched_ != 0) retire(launched_ - 1);
  }

  // Waits for the step in flight, for the pages it keeps fenced.  Returns whether there were any.
  bool wait_for_step_in_flight() {
    const bool any = pool_.stats().fenced != 0;
    retire(launched_);
    return any;
  }

  void export_tables(std::span<const request> rows) {
    export_.measure([&] {
      batch_.clear();
      for (const request& row : rows) {
        if (batch_.add(row.table) != kvpage::errc::ok)
          throw std::logic_error("the batch limits are too narrow");
      }
      return batch_.entries();
    });
  }

  // Verifies the exported tables for the next step.  Returns one verdict per row; none if untagged.
  [[nodiscard]] std::span<const kvpage::verdict> verify() {
    kvpage::verify_summary summary;
    verify_.measure([&] {
      summary = Verifier{}(batch_, pool_, launched_ + 1, verdicts_).value();
      return summary.entries;
    });
    if (P::is_tagged && (summary.step != launched_ + 1 || summary.rows != batch_.rows()))
      throw std::logic_error("step " + std::to_string(launched_ + 1) + " has not been verified");
    rows_verified_ += summary.rows;
    return std::span{verdicts_}.first(summary.rows);
  }

  void cut_off(std::size_t row) { batch_.cut_off(row); }

  void launch() { ++launched_; }

  // --- What is known ---

  [[nodiscard]] const pool_type& pool() const { return pool_; }
  [[nodiscard]] std::size_t rows() const { return batch_.rows(); }
  [[nodiscard]] const exported_tables& exported() const { return exported_; }
  [[nodiscard]] exported_tables& exported() { return exported_; }  // for faults
  [[nodiscard]] kvpage::step_number launched() const { return launched_; }

  [[nodiscard]] std::uint64_t pages_granted() const { return granted_; }
  [[nodiscard]] std::uint64_t pages_released() const { return released_; }
  [[nodiscard]] std::uint64_t rows_verified() const { return rows_verified_; }
  [[nodiscard]] std::uint64_t entries_verified() const { return verify_.units(); }

  // Over admissions and returns, which move many pages at once.
  [[nodiscard]] double nanoseconds_per_page() const { return bulk_.nanoseconds_per_unit(); }
  [[nodiscard]] double nanoseconds_per_entry() const { return verify_.nanoseconds_per_unit(); }
  [[nodiscard]] double nanoseconds() const {
    return bulk_.nanoseconds() + growth_.nanoseconds() + retire_.nanoseconds() + export_.nanoseconds() +
           verify_.nanoseconds();
  }

 private:
  void retire(kvpage::step_number step) {
    retire_.measure([&] {
      pool_.retire(step);
      return 0u;
    });
  }

  pool_type pool_;
  exported_tables exported_;
  kvpage::decode_batch<pool_type> batch_;
  std::vector<kvpage::verdict> verdicts_;
  kvpage::step_number launched_ = 0;  // the newest

  std::uint64_t granted_ = 0;
  std::uint64_t released_ = 0;
  std::uint64_t rows_verified_ = 0;
  stopwatch bulk_, growth_, retire_, export_, verify_;
};

}  // namespace replay
