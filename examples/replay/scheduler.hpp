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
#include "host_backend.hpp"
#include "options.hpp"
#include "oracle.hpp"
#include "prefix_account.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "text.hpp"
#include "trace.hpp"

namespace replay {

// The longest request that the pool has room for, and no less than one token.
[[nodiscard]] inline std::size_t longest_request(const trace& requests, const options& chosen) {
  std::size_t longest = 1;
  for (const trace_request& request : requests) longest = (std::max)(longest, most_tokens(request));
  return (std::min)({longest, std::size_t{chosen.pages} * chosen.page_size, kvpage::max_tokens_per_row});
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
template <kvpage::element E, kvpage::integrity_policy P, template <class> class Backend = on_host>
class scheduler {
 public:
  static constexpr double step_ms = 100;

  scheduler(const options& chosen, const trace& requests)
      : max_rows_{chosen.max_rows},
        trace_{requests},
        window_{chosen.window},
        memory_(chosen, widest_batch(requests, chosen), longest_request(requests, chosen)),
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
    memory_.wait_for_step_in_flight();
    faults_.end_of_run();
    sum_up();
    return report_;
  }

 private:
  using memory = engine_memory<E, P, Backend>;
  using request = typename memory::request;

  struct waiting_request {
    std::uint32_t id;
    std::uint32_t decoded;                    // before it was preempted
    std::vector<kvpage::token_id> text = {};  // made up when its turn comes
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
    memory_.backend().export_tables(running_);
    faults_.after_export(running_);
    expect_reads();
    const step_outcome outcome = memory_.run(expected_);
    report_.foreign_reads += outcome.foreign_reads;
    judge(outcome.verdicts);
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

  // The row's tokens whose K and V have been written.
  [[nodiscard]] std::size_t computed(const request& row) const {
    return std::size_t{trace_[row.id].input_length} + row.decoded;
  }

  void preempt(std::size_t row) {
    request& preempted = running_[row];
    memory_.finish(preempted, computed(preempted));
    waiting_.push_front({preempted.id, preempted.decoded, std::move(preempted.text)});
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(row));
    ++report_.preempted;
  }

  // In the order of arrival, while there are pages and rows.  A request is admitted with all pages of its
  // prompt, of what it had decoded before a preemption and of the token that it decodes now, or not at all.
  // What was not found in the cache is computed in the step to come.
  void admit() {
    while (!waiting_.empty() && running_.size() < max_rows_) {
      waiting_request& next = waiting_.front();
      const trace_request& asked = trace_[next.id];
      if (next.text.empty()) next.text = text_of(asked, next.id);
      const std::size_t prefilled = std::size_t{asked.input_length} + next.decoded;
      const kvpage::admission admitted = memory_.admit(next.text, prefilled);
      if (admitted.code != kvpage::errc::ok) {
        if (!running_.empty()) return;
        if (!memory_.wait_for_step_in_flight())
          throw std::logic_error("pages have leaked: nothing runs, nothing fits");
        continue;
      }
      if (next.decoded == 0) prefixes_.admitted(asked, admitted.cached_tokens);
      const auto& table = *memory_.table_of(admitted.request);
      const std::size_t page_size = table.tokens_per_page();
      for (std::size_t entry = admitted.cached_tokens / page_size;
           entry < kvpage::pages_for(prefilled, page_size); ++entry)
        memory_.backend().write(table.handles()[entry].id(), page_content(asked, next.id, entry, page_size));
      running_.push_back({next.id, next.decoded, std::move(next.text), admitted.request, &table});
      waiting_.pop_front();
    }
  }

  // What each row of the step must find, by its own text alone.
  void expect_reads() {
    const std::size_t page_size = memory_.pool().tokens_per_page();
    expected_.clear();
    for (const request& row : running_) {
      for (std::size_t entry = 0; entry < row.table->pages(); ++entry)
        expected_.contents.push_back(page_content(trace_[row.id], row.id, entry, page_size));
      expected_.end_row();
    }
  }

  // A row that did not verify was cut off before anything read it.
  void judge(std::span<const kvpage::verdict> verdicts) {
    for (std::size_t row = 0; row < verdicts.size(); ++row) {
      if (verdicts[row].state == kvpage::row_state::ok) continue;
      running_[row].failed = true;
      if (!faults_.explains(row, verdicts[row])) ++report_.innocents_aborted;
    }
  }

  // Failed rows are aborted and finished ones completed; the others have one token more.
  void settle_rows() {
    report_.pages.peak_live = (std::max)(report_.pages.peak_live, std::uint64_t{memory_.pool().stats().live});
    for (request& row : running_) {
      if (row.failed) {
        ++report_.aborted;
        memory_.abort(row);
        continue;
      }
      ++report_.tokens;
      ++row.decoded;
      if (row.decoded == trace_[row.id].output_length) {
        faults_.before_finish(row);
        ++report_.completed;
        memory_.finish(row, computed(row));
      } else {
        if (!row.published) memory_.publish(row, computed(row));
        if (window_ != 0) memory_.slide(row, computed(row));
      }
    }
    std::erase_if(running_, [](const request& row) { return row.ended; });
  }

  void sum_up() {
    report_.injected = faults_.injected();
    report_.detected = faults_.detected();
    const step_account& steps = memory_.backend().account();
    report_.rows_verified = steps.rows_verified;
    report_.entries_verified = steps.verification.units();
    report_.pages.granted = memory_.pages_granted();
    report_.pages.released = memory_.pages_released();
    report_.ns_per_page = memory_.nanoseconds_per_page();
    report_.ns_per_admitted_page = memory_.nanoseconds_per_admitted_page();
    report_.prefix = prefixes_.counts();
    report_.prefix.evicted_pages = memory_.pages_evicted();
    report_.ns_per_entry = steps.verification.nanoseconds_per_unit();
    report_.is_timed = steps.is_timed;
    if (report_.steps != 0) {
      const auto per_step = [this](auto total) {
        return static_cast<double>(total) / static_cast<double>(report_.steps);
      };
      report_.us_per_step = per_step(memory_.nanoseconds() / 1000);
      report_.launches_per_step = per_step(steps.launches);
      report_.bytes_uploaded_per_step = per_step(steps.bytes_uploaded);
    }
    audit();
  }

  // The cache's own proof, and that no page is left with a request now that there are none.
  void audit() {
    const kvpage::pool_audit audit = memory_.audit();
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
  std::size_t window_;
  memory memory_;
  expected_reads expected_;
  prefix_account prefixes_;
  fault_injector<memory> faults_;

  double now_ms_ = 0;
  std::size_t arrived_ = 0;
  std::deque<waiting_request> waiting_;
  std::vector<request> running_;
  report report_;
};

}  // namespace replay
