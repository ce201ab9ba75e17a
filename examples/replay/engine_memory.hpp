// kvpage-replay: everything that the engine asks of kvpage, in one place, and how long it takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <kvpage/kvpage.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "options.hpp"
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

// Verifies a step on the host.  A stand-in for it has the same call.
struct host_verifier {
  template <class Pool>
  kvpage::result<kvpage::verify_summary> operator()(const kvpage::decode_batch<Pool>& batch, const Pool& pool,
                                                    kvpage::step_number step,
                                                    std::span<kvpage::verdict> verdicts) const {
    return kvpage::verify(batch, pool, step, verdicts);
  }
};

// The cache, the exported tables and their verification, as an engine with one step in flight uses them:
// pages given up while step n is the newest launched one are granted again once step n has finished,
// which is when step n + 2 is prepared.
template <kvpage::element E, kvpage::integrity_policy P, class Verifier = host_verifier>
class engine_memory {
 public:
  using pool_type = kvpage::page_pool<E, P>;
  // Keeps count of what the cache does in its own time.
  struct listener {
    void operator()(const auto& event) const { memory->hear(event); }

    engine_memory* memory;
  };

  using cache_type = kvpage::kv_cache<E, P, listener>;
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

  // `most_tokens`: of the longest request.
  engine_memory(const options& chosen, const kvpage::batch_limits& limits, std::size_t most_tokens)
      : cache_({.groups = {{.pages = chosen.pages + 1, .window = chosen.window}},
                .tokens_per_page = chosen.page_size,
                // Requests that have ended keep their slots for a step in flight.
                .max_requests = static_cast<std::uint32_t>(3 * limits.rows),
                .max_tokens_per_request = most_tokens,
                .prefix_cache = chosen.prefix_cache},
               listener{this}),
        exported_(limits),
        batch_({exported_.indptr, exported_.indices, exported_.last_page_len, exported_.seq_lens,
                exported_.slot_indptr, exported_.slots, exported_.granted}),
        verdicts_(limits.rows) {}

  // --- A request's life ---

  // Grants a request the pages for its first `computed` tokens, of which those found in the cache need not
  // be computed, and for the token that it decodes first; or nothing.
  [[nodiscard]] kvpage::admission admit(std::span<const kvpage::token_id> text, std::size_t computed) {
    kvpage::admission admitted;
    admissions_.measure([&] {
      admitted = cache_.admit(text.first(computed), 1);
      if (admitted.code != kvpage::errc::ok) return std::size_t{0};
      if (cache_.grow(admitted.request, 1) != kvpage::errc::ok)
        throw std::logic_error("the reserved page has gone");
      return cache_.table(admitted.request)->pages();
    });
    if (admitted.code == kvpage::errc::ok) granted_ += cache_.table(admitted.request)->pages();
    return admitted;
  }

  [[nodiscard]] const table* table_of(kvpage::request_handle of) const { return cache_.table(of); }

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
        const request& row = rows[done.rows];
        const std::size_t before = row.table->pages();
        done.code = cache_.grow(row.handle, 1);
        if (done.code != kvpage::errc::ok) break;
        granted += row.table->pages() - before;
      }
      granted_ += granted;
      return granted;
    });
    return done;
  }

  // The row's first `computed` tokens have been written: others may find their full pages.
  void publish(request& row, std::size_t computed) {
    row.published = true;
    returns_.measure([&] {
      (void)cache_.publish(row.handle, text_of(row, computed), computed)
          .error();  // untagged: pages may be lost
      return 0u;
    });
  }

  // The row has moved on: gives back the pages that it does not attend to any more.
  void slide(const request& row, std::size_t computed) {
    const std::size_t before = row.table->dropped_pages();
    returns_.measure([&] {
      if (cache_.slide(row.handle, computed) != kvpage::errc::ok) return std::size_t{0};
      return row.table->dropped_pages() - before;
    });
    released_ += row.table->dropped_pages() - before;
  }

  // Takes back the pages of a row that is done or preempted; they can be found again, as far as `computed`.
  void finish(request& row, std::size_t computed) {
    const std::size_t held = row.table->pages() - row.table->dropped_pages();
    kvpage::errc code = kvpage::errc::ok;
    returns_.measure([&] {
      code = cache_.finish(row.handle, text_of(row, computed), computed);
      return code == kvpage::errc::ok ? held : 0;
    });
    if (code != kvpage::errc::ok) return abort(row);
    row.ended = true;
  }

  // Takes back every page that is still the row's own.
  void abort(request& row) {
    returns_.measure([&] {
      std::size_t held = row.table->pages() - row.table->dropped_pages();
      held -= cache_.abort(row.handle).value();
      released_ += held;
      return held;
    });
    row.ended = true;
  }

  // Releases pages on their own: what engines do by mistake, and nothing here does but on purpose.
  [[nodiscard]] kvpage::errc release_behind(std::span<const handle> pages) {
    const kvpage::errc code = cache_.pool().release(pages);
    if (code == kvpage::errc::ok) released_ += pages.size();
    return code;
  }

  // --- A step's life ---

  // Starts preparing the next step: the one before the one in flight has finished.
  void begin_step() {
    if (launched_ != 0) retire(launched_ - 1);
  }

  // Waits for the step in flight, for the pages it holds back.  Returns whether there was one.
  bool wait_for_step_in_flight() {
    const bool any = retired_ != launched_;
    retire(launched_);
    return any;
  }

  void export_tables(std::span<const request> rows) {
    export_.measure([&] {
      batch_.clear();
      for (const request& row : rows) {
        if (batch_.add(*row.table) != kvpage::errc::ok)
          throw std::logic_error("the batch limits are too narrow");
      }
      return batch_.entries();
    });
  }

  // Verifies the exported tables for the next step.  Returns one verdict per row; none if untagged.
  [[nodiscard]] std::span<const kvpage::verdict> verify() {
    kvpage::verify_summary summary;
    verify_.measure([&] {
      summary = Verifier{}(batch_, pool(), launched_ + 1, verdicts_).value();
      return summary.entries;
    });
    if (P::is_tagged && (summary.step != launched_ + 1 || summary.rows != batch_.rows()))
      throw std::logic_error("step " + std::to_string(launched_ + 1) + " has not been verified");
    rows_verified_ += summary.rows;
    return std::span{verdicts_}.first(summary.rows);
  }

  void cut_off(std::size_t row) { batch_.cut_off(row); }

  void launch() { cache_.launched(++launched_); }

  // --- What is known ---

  [[nodiscard]] const pool_type& pool() const { return cache_.pool(); }
  [[nodiscard]] kvpage::pool_audit audit() { return cache_.audit(); }
  [[nodiscard]] std::size_t rows() const { return batch_.rows(); }
  [[nodiscard]] const exported_tables& exported() const { return exported_; }
  [[nodiscard]] exported_tables& exported() { return exported_; }  // for faults
  [[nodiscard]] kvpage::step_number launched() const { return launched_; }
  [[nodiscard]] kvpage::step_number retired() const { return retired_; }

  [[nodiscard]] std::uint64_t pages_granted() const { return granted_; }
  [[nodiscard]] std::uint64_t pages_released() const { return released_; }
  [[nodiscard]] std::uint64_t rows_verified() const { return rows_verified_; }
  [[nodiscard]] std::uint64_t entries_verified() const { return verify_.units(); }

  [[nodiscard]] std::uint64_t pages_evicted() const { return evicted_; }

  // Over admissions and returns, which move many pages at once.
  [[nodiscard]] double nanoseconds_per_page() const {
    return stopwatch::nanoseconds_per_unit({admissions_, returns_});
  }
  [[nodiscard]] double nanoseconds_per_admitted_page() const { return admissions_.nanoseconds_per_unit(); }
  [[nodiscard]] double nanoseconds_per_entry() const { return verify_.nanoseconds_per_unit(); }
  [[nodiscard]] double nanoseconds() const {
    return admissions_.nanoseconds() + returns_.nanoseconds() + growth_.nanoseconds() +
           retire_.nanoseconds() + export_.nanoseconds() + verify_.nanoseconds();
  }

 private:
  [[nodiscard]] static kvpage::prompt<> text_of(const request& row, std::size_t tokens) {
    return std::span{row.text}.first(tokens);
  }

  void hear(const auto& event) {
    if (event.kind == kvpage::cache_event_kind::evicted) evicted_ += event.pages.size();
    if (event.kind != kvpage::cache_event_kind::released) return;
    for (const handle& page : event.pages)  // untagged: some may have been given up behind the row's back
      released_ += pool().references(page.id()) != 0 && pool().check(page) == kvpage::errc::ok;
  }

  void retire(kvpage::step_number step) {
    retired_ = step;
    retire_.measure([&] {
      cache_.retire(step);
      return 0u;
    });
  }

  cache_type cache_;
  exported_tables exported_;
  kvpage::decode_batch<pool_type> batch_;
  std::vector<kvpage::verdict> verdicts_;
  kvpage::step_number launched_ = 0;  // the newest
  kvpage::step_number retired_ = 0;   // likewise

  std::uint64_t granted_ = 0;
  std::uint64_t released_ = 0;
  std::uint64_t evicted_ = 0;
  std::uint64_t rows_verified_ = 0;
  stopwatch admissions_, returns_, growth_, retire_, export_, verify_;
};

}  // namespace replay
