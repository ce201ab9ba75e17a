// kvpage-replay: continuous batching over kvpage.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <kvpage/kvpage.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine_memory.hpp"
#include "faults.hpp"
#include "options.hpp"
#include "oracle.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "trace.hpp"

namespace replay {

// What a request grows to.
[[nodiscard]] inline std::size_t most_tokens(const trace_request& request) {
  return std::size_t{request.input_length} + request.output_length;
}

// Room for any batch of this trace: the `rows` longest requests at once.
[[nodiscard]] inline kvpage::batch_limits widest_batch(const trace& requests, const options& chosen) {
  std::vector<std::size_t> pages;
  for (const trace_request& request : requests) {
    pages.push_back(
        (std::min)(kvpage::pages_for(most_tokens(request), chosen.page_size), std::size_t{chosen.pages}));
  }
  const auto rows = static_cast<std::ptrdiff_t>((std::min)(chosen.max_rows, pages.size()));
  std::ranges::nth_element(pages, pages.begin() + rows, std::greater{});
  return {.rows = chosen.max_rows,
          .entries = std::accumulate(pages.begin(), pages.begin() + rows, std::size_t{0}),
          .slots = chosen.max_rows};
}

// Runs a trace to its end.  Requests arrive by the trace's clock, of which every step takes `step_ms`; time
// in which there is nothing to do is skipped.  Rows are kept in the order of their admission, oldest first.
template <kvpage::element E, kvpage::integrity_policy P, class Verifier = host_verifier>
class scheduler {
 public:
  static constexpr double step_ms = 100;

  scheduler(const options& chosen, const trace& requests)
      : max_rows_{chosen.max_rows},
        trace_{requests},
        memory_(chosen.pages, chosen.page_size, widest_batch(requests, chosen)),
        oracle_(memory_.pool().size()),
        faults_(memory_, chosen.faults, requests.size(), chosen.seed) {
    report_.requests = requests.size();
    report_.pages.capacity = memory_.pool().capacity();
  }

  [[nodiscard]] report run() {
    {
      progress_line progress;
      while (!running_.empty() || !waiting_.empty() || arrived_ < trace_.size()) {
        step();
        progress.update(report_.completed + report_.aborted + report_.rejected, trace_.size(), report_.steps,
                        memory_.pool().stats().live);
      }
    }
    faults_.end_of_run();
    memory_.wait_for_step_in_flight();
    sum_up();
    return report_;
  }

 private:
  using memory = engine_memory<E, P, Verifier>;
  using request = typename memory::request;

  struct waiting_request {
    std::uint32_t id;
    std::uint32_t decoded;  // before it was preempted
  };

  void step() {
    memory_.begin_step();
    arrive();
    faults_.begin_step(arrived_);
    grow_rows();
    admit();
    now_ms_ += step_ms;
    if (running_.empty()) return;

    faults_.before_export(running_);
    memory_.export_tables(running_);
    faults_.after_export(running_);
    judge(memory_.verify());
    memory_.launch();
    attend();
    settle_rows();
    ++report_.steps;
  }

  // Requests whose time has come join the queue; those that can never fit are rejected at once.
  void arrive() {
    if (running_.empty() && waiting_.empty() && arrived_ < trace_.size())
      now_ms_ = (std::max)(now_ms_, trace_[arrived_].timestamp_ms);
    for (; arrived_ < trace_.size() && trace_[arrived_].timestamp_ms <= now_ms_; ++arrived_) {
      if (can_ever_fit(most_tokens(trace_[arrived_]))) {
        waiting_.push_back({static_cast<std::uint32_t>(arrived_), 0});
      } else {
        ++report_.rejected;
      }
    }
  }

  [[nodiscard]] bool can_ever_fit(std::size_t tokens) const {
    const kvpage::pool_stats stats = memory_.pool().stats();
    return kvpage::pages_for(tokens, memory_.pool().tokens_per_page()) <= stats.capacity - stats.retired;
  }

  // Every running row gets room for the token that it decodes now.
  void grow_rows() {
    std::size_t grown = 0;
    if (const auto taker = faults_.stale_table_taker(running_)) {
      grow_rows(grown, *taker);
      if (*taker < running_.size()) grown += faults_.inject_stale_table(running_, *taker);
    }
    grow_rows(grown, running_.size());
  }

  // Rows `grown` up to `end`.  When pages run out, the youngest request goes back to the queue, be it the
  // growing one itself.  A row whose own last page the pool refuses to grow goes back alone: untagged, that
  // is all that is seen of a page freed behind its back.
  void grow_rows(std::size_t& grown, std::size_t end) {
    for (;;) {
      end = (std::min)(end, running_.size());
      const auto [rows, code] = memory_.grow(std::span{running_}.subspan(grown, end - grown));
      grown += rows;
      if (code == kvpage::errc::ok) return;
      if (code != kvpage::errc::exhausted) {
        preempt(grown);
      } else if (!memory_.wait_for_step_in_flight()) {
        preempt(running_.size() - 1);
      }
    }
  }

  void preempt(std::size_t row) {
    request& preempted = running_[row];
    memory_.give_up(preempted.table);
    waiting_.push_front({preempted.id, preempted.decoded});
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(row));
    ++report_.preempted;
  }

  // In the order of arrival, while there are pages and rows.  A request is admitted with all pages of its
  // prompt, of what it had decoded before a preemption and of the token that it decodes now, or not at all.
  void admit() {
    while (!waiting_.empty() && running_.size() < max_rows_) {
      const waiting_request next = waiting_.front();
      const std::size_t prefilled = std::size_t{trace_[next.id].input_length} + next.decoded;
      auto table = memory_.new_table(most_tokens(trace_[next.id]));
      if (memory_.admit(table, prefilled + 1) != kvpage::errc::ok) {
        if (!running_.empty()) return;
        if (!memory_.wait_for_step_in_flight())
          throw std::logic_error("pages have leaked: nothing runs, nothing fits");
        continue;
      }
      for (std::size_t entry = 0; entry < kvpage::pages_for(prefilled, table.tokens_per_page()); ++entry)
        oracle_.write(table.handles()[entry].id(), next.id, entry);
      running_.push_back({next.id, next.decoded, std::move(table)});
      waiting_.pop_front();
    }
  }

  // A row that does not verify is cut off before anything reads it.
  void judge(std::span<const kvpage::verdict> verdicts) {
    for (std::size_t row = 0; row < verdicts.size(); ++row) {
      if (verdicts[row].state == kvpage::row_state::ok) continue;
      memory_.cut_off(row);
      running_[row].failed = true;
      if (!faults_.explains(row, verdicts[row])) ++report_.innocents_aborted;
    }
  }

  // What an attention kernel does, by the exported tables alone: each row writes its new token, then reads as
  // many pages as its length takes.
  void attend() {
    const auto& tables = memory_.exported();
    const std::size_t page_size = memory_.pool().tokens_per_page();
    for (std::size_t row = 0; row < running_.size(); ++row) {
      const kvpage::slot_index slot = tables.slots[static_cast<std::size_t>(tables.slot_indptr[row])];
      if (slot == kvpage::skipped_slot) continue;
      oracle_.write(static_cast<std::size_t>(slot) / page_size, running_[row].id,
                    running_[row].table.pages() - 1);
    }
    const std::span indices{tables.indices};
    for (std::size_t row = 0; row < running_.size(); ++row) {
      const std::size_t wanted = kvpage::pages_for(static_cast<std::size_t>(tables.seq_lens[row]), page_size);
      const std::span from = indices.subspan(static_cast<std::size_t>(tables.indptr[row]));
      const std::size_t inside = (std::min)(wanted, from.size());
      report_.foreign_reads += oracle_.read(from.first(inside), running_[row].id) + (wanted - inside);
    }
  }

  // Failed rows are aborted and finished ones completed; the others have one token more.
  void settle_rows() {
    report_.pages.peak_live = (std::max)(report_.pages.peak_live, std::uint64_t{memory_.pool().stats().live});
    for (request& row : running_) {
      if (row.failed) {
        ++report_.aborted;
      } else {
        ++report_.tokens;
        if (++row.decoded != trace_[row.id].output_length) continue;
        faults_.before_finish(row);
        ++report_.completed;
      }
      memory_.give_up(row.table);
    }
    std::erase_if(running_, [](const request& row) { return row.table.pages() == 0; });
  }

  void sum_up() {
    report_.injected = faults_.injected();
    report_.detected = faults_.detected();
    report_.rows_verified = memory_.rows_verified();
    report_.entries_verified = memory_.entries_verified();
    report_.pages.granted = memory_.pages_granted();
    report_.pages.released = memory_.pages_released();
    report_.ns_per_page = memory_.nanoseconds_per_page();
    report_.ns_per_entry = memory_.nanoseconds_per_entry();
    if (report_.steps != 0)
      report_.us_per_step = memory_.nanoseconds() / 1000 / static_cast<double>(report_.steps);
    audit();
  }

  // The pool's own proof, and that no page is left with a request now that there are none.
  void audit() {
    const kvpage::pool_audit audit = memory_.pool().audit();
    const kvpage::pool_stats stats = memory_.pool().stats();
    report_.pages.retired = stats.retired;
    if (!audit.clean()) {
      report_.audit = "page " + std::to_string(audit.page) + ": " + std::string(audit.finding);
    } else if (stats.live != 0) {
      report_.audit = std::to_string(stats.live) + " pages are still live: leaked";
    } else {
      report_.audit_clean = true;
      report_.audit = "clean";
    }
    if (!audit.cannot_know.empty()) report_.audit.append("; cannot know: ").append(audit.cannot_know);
  }

  std::size_t max_rows_;
  const trace& trace_;
  memory memory_;
  oracle oracle_;
  fault_injector<memory> faults_;

  double now_ms_ = 0;
  std::size_t arrived_ = 0;
  std::deque<waiting_request> waiting_;
  std::vector<request> running_;
  report report_;
};

}  // namespace replay
