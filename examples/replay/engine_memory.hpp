// kvpage-replay: everything that the engine asks of kvpage, in one place, and how long it takes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <kvpage/kvpage.hpp>
#include <span>
#include <stdexcept>
#include <vector>

#include "backend.hpp"
#include "options.hpp"
#include "oracle.hpp"
#include "stopwatch.hpp"

namespace replay {

// The cache, and the backend that runs the steps, as an engine with one step in flight uses them:
// pages given up while step n is the newest launched one are granted again once step n has finished,
// which is when step n + 2 is prepared.
template <kvpage::element E, kvpage::integrity_policy P, template <class> class Backend>
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

  // `most_tokens`: of the longest request.
  engine_memory(const options& chosen, const kvpage::batch_limits& limits, std::size_t most_tokens)
      : cache_({.groups = {{.pages = chosen.pages + 1, .window = chosen.window}},
                .tokens_per_page = chosen.page_size,
                .max_requests = slots_for(limits),
                .max_tokens_per_request = most_tokens,
                .prefix_cache = chosen.prefix_cache},
               listener{this}),
        backend_(cache_.pool(),
                 {.batch = limits,
                  .request_slots = slots_for(limits),
                  .pages_per_request =
                      (std::min)(kvpage::pages_for(most_tokens, chosen.page_size), std::size_t{chosen.pages}),
                  .window = chosen.window}) {}

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
      const std::size_t held = row.table->pages() - row.table->dropped_pages();
      return held - cache_.abort(row.handle).value();
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

  // Runs the step whose tables have been exported, with what its rows must find.
  [[nodiscard]] step_outcome run(const expected_reads& expected) {
    const step_outcome outcome = backend_.run(launched_ + 1, expected);
    cache_.launched(++launched_);
    return outcome;
  }

  [[nodiscard]] Backend<pool_type>& backend() { return backend_; }

  // --- What is known ---

  [[nodiscard]] const pool_type& pool() const { return cache_.pool(); }
  [[nodiscard]] kvpage::pool_audit audit() { return cache_.audit(); }
  [[nodiscard]] kvpage::step_number launched() const { return launched_; }
  [[nodiscard]] kvpage::step_number retired() const { return retired_; }

  [[nodiscard]] std::uint64_t pages_granted() const { return granted_; }
  [[nodiscard]] std::uint64_t pages_released() const { return released_; }

  [[nodiscard]] std::uint64_t pages_evicted() const { return evicted_; }

  // Over admissions and returns, which move many pages at once.
  [[nodiscard]] double nanoseconds_per_page() const {
    return stopwatch::nanoseconds_per_unit({admissions_, returns_});
  }
  [[nodiscard]] double nanoseconds_per_admitted_page() const { return admissions_.nanoseconds_per_unit(); }
  [[nodiscard]] double nanoseconds() const {
    return admissions_.nanoseconds() + returns_.nanoseconds() + growth_.nanoseconds() +
           retire_.nanoseconds() + backend_.account().exports.nanoseconds() +
           backend_.account().verification.nanoseconds();
  }

 private:
  // Requests that have ended keep their slots for a step in flight.
  [[nodiscard]] static std::uint32_t slots_for(const kvpage::batch_limits& limits) {
    return static_cast<std::uint32_t>(3 * limits.rows);
  }

  [[nodiscard]] static kvpage::prompt<> text_of(const request& row, std::size_t tokens) {
    return std::span{row.text}.first(tokens);
  }

  void hear(const auto& event) {
    if (event.kind == kvpage::cache_event_kind::evicted) evicted_ += event.pages.size();
    if (event.kind == kvpage::cache_event_kind::released || event.kind == kvpage::cache_event_kind::aborted)
      released_ += event.pages.size();
  }

  void retire(kvpage::step_number step) {
    retired_ = step;
    retire_.measure([&] {
      cache_.retire(step);
      return 0u;
    });
  }

  cache_type cache_;
  Backend<pool_type> backend_;
  kvpage::step_number launched_ = 0;  // the newest
  kvpage::step_number retired_ = 0;   // likewise

  std::uint64_t granted_ = 0;
  std::uint64_t released_ = 0;
  std::uint64_t evicted_ = 0;
  stopwatch admissions_, returns_, growth_, retire_;
};

}  // namespace replay
