// kvpage-replay: the mistakes that engines make, made on purpose, and whether each was noticed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <kvpage/kvpage.hpp>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "options.hpp"

namespace replay {

// Injects the faults that were asked for, spread over the trace, at most one of a kind in a step and one in
// a row.  A fault counts as detected if verification fails its victim's row, for the right reason and at the
// right place, in the step that would have made the first wrong read; a double free, if the pool refuses it.
template <class Memory>
class fault_injector {
 public:
  using request = typename Memory::request;
  using handle = typename Memory::handle;

  fault_injector(Memory& memory, const per_fault<std::uint64_t>& wanted, std::size_t requests,
                 std::uint64_t seed)
      : memory_{memory}, wanted_{wanted}, requests_{requests}, random_(seed) {}

  [[nodiscard]] const per_fault<std::uint64_t>& injected() const { return injected_; }
  [[nodiscard]] const per_fault<std::uint64_t>& detected() const { return detected_; }

  // `arrived` of all requests have arrived: the measure by which faults become due.
  void begin_step(std::size_t arrived) {
    arrived_ = arrived;
    planted_.clear();
  }

  // --- Before a row grows ---

  // The row that a stale_table fault, if one is due, is to give another row's page to: one that needs a page
  // now.  Never the first: the victim must be older, as then nothing preempts it before it is verified.
  [[nodiscard]] std::optional<std::size_t> stale_table_taker(std::span<const request> rows) const {
    if (!due(fault_kind::stale_table)) return std::nullopt;
    for (std::size_t row = 1; row < rows.size(); ++row) {
      const auto& table = *rows[row].table;
      if (table.tokens() == table.pages() * table.tokens_per_page()) return row;
    }
    return std::nullopt;
  }

  // stale_table: a page of an older row is released and granted to `taker`, which thereby grows, while the
  // victim's table keeps it.  Returns how many rows grew.
  std::size_t inject_stale_table(std::span<request> rows, std::size_t taker) {
    const std::size_t victim = below(taker);
    const auto entry = own_entry(rows[victim]);
    if (!entry) return 0;
    const handle page = rows[victim].table->handles()[*entry];
    if (memory_.release_behind({&page, 1}) != kvpage::errc::ok) return 0;  // untagged: freed before
    const std::size_t grown = memory_.grow(rows.subspan(taker, 1)).rows;
    plant(fault_kind::stale_table, victim, kvpage::row_state::stale_page, *entry);
    return grown;
  }

  // --- Before the tables are exported ---

  void before_export(std::span<request> rows) {
    inject_early_free(rows);
    inject_double_frees([&](const late_release& late) {
      return late.step <= memory_.retired() && memory_.pool().references(late.page.id()) != 0;
    });
  }

  // --- After the tables have been exported; rows are the batch's ---

  void after_export(std::span<const request> rows) {
    inject_wrong_page(rows);
    inject_out_of_range(rows);
    inject_short_row(rows);
  }

  // --- Before a finished request gives its pages back ---

  // double_free: its last page, which is not full and so not shared, will be released again once another
  // request holds it.
  void before_finish(const request& finished) {
    const auto& table = *finished.table;
    const bool is_full = table.tokens() == table.pages() * table.tokens_per_page();
    if (!due(fault_kind::double_free) || is_full) return;
    ++started_[fault_kind::double_free];
    late_releases_.push_back({table.handles().back(), memory_.launched()});
  }

  // Whatever was not granted again is now released a second time.
  void end_of_run() {
    inject_double_frees([](const late_release&) { return true; });
  }

  // Whether `row` failed because of the fault planted in it, or else is innocent.
  [[nodiscard]] bool explains(std::size_t row, const kvpage::verdict& found) {
    const auto fault = std::ranges::find(planted_, row, &planted_fault::row);
    if (fault == planted_.end()) return false;
    if (found.state == fault->state && found.position == fault->position) ++detected_[fault->kind];
    return true;
  }

 private:
  // A page that a finished request gave back when `step` was the newest launched one.
  struct late_release {
    handle page;
    kvpage::step_number step;
  };

  struct planted_fault {
    fault_kind kind;
    std::size_t row;
    kvpage::row_state state;  // the verdict that it must lead to
    std::size_t position;
  };

  // early_free: all pages that a row has to itself are released while it goes on using them.
  void inject_early_free(std::span<const request> rows) {
    const auto victim = pick(fault_kind::early_free, rows);
    if (!victim) return;
    const auto& table = *rows[*victim].table;
    const std::size_t first = first_own_entry(rows[*victim]);
    if (first == table.pages() || memory_.release_behind(table.handles().subspan(first)) != kvpage::errc::ok)
      return;
    plant(fault_kind::early_free, *victim, kvpage::row_state::stale_page, first);
  }

  template <class Ready>
  void inject_double_frees(Ready ready) {
    std::erase_if(late_releases_, [&](const late_release& late) {
      if (!ready(late)) return false;
      ++injected_[fault_kind::double_free];
      if (memory_.release_behind({&late.page, 1}) != kvpage::errc::ok) ++detected_[fault_kind::double_free];
      return true;
    });
  }

  // wrong_page: an exported id is another request's page.
  void inject_wrong_page(std::span<const request> rows) {
    const auto victim = pick(fault_kind::wrong_page, rows);
    if (!victim || rows.size() < 2) return;
    const std::size_t donor = (*victim + 1 + below(rows.size() - 1)) % rows.size();
    const std::size_t entry = held_entry(rows[*victim]);
    memory_.backend().overwrite_page(*victim, entry,
                                     static_cast<std::int32_t>(rows[donor].table->handles().back().id()));
    plant(fault_kind::wrong_page, *victim, kvpage::row_state::stale_page, entry);
  }

  // out_of_range: an exported id is beyond the pool, or negative.
  void inject_out_of_range(std::span<const request> rows) {
    const auto victim = pick(fault_kind::out_of_range, rows);
    if (!victim) return;
    const std::size_t entry = held_entry(rows[*victim]);
    const auto beyond = static_cast<std::int32_t>(memory_.pool().size() + below(1000));
    memory_.backend().overwrite_page(*victim, entry, below(2) == 0 ? beyond : -1);
    plant(fault_kind::out_of_range, *victim, kvpage::row_state::bad_page, entry);
  }

  // short_row: the exported length needs one page more than the row has.
  void inject_short_row(std::span<const request> rows) {
    const auto victim = pick(fault_kind::short_row, rows);
    if (!victim) return;
    const auto& table = *rows[*victim].table;
    const std::size_t too_long = table.pages() * table.tokens_per_page() + 1;
    memory_.backend().overwrite_length(*victim, static_cast<std::int32_t>(too_long));
    plant(fault_kind::short_row, *victim, kvpage::row_state::short_row, table.pages());
  }

  // The k-th of n faults is due once k / (n + 1) of all requests have arrived.
  [[nodiscard]] bool due(fault_kind kind) const {
    const std::uint64_t next = started_[kind] + 1;
    return next <= wanted_[kind] && arrived_ * (wanted_[kind] + 1) >= requests_ * next;
  }

  // A row for a fault of this kind, if one is due and there is a row without another fault.
  [[nodiscard]] std::optional<std::size_t> pick(fault_kind kind, std::span<const request> rows) {
    if (!due(kind) || rows.size() <= planted_.size()) return std::nullopt;
    std::size_t row = below(rows.size());
    while (std::ranges::find(planted_, row, &planted_fault::row) != planted_.end())
      row = (row + 1) % rows.size();
    return row;
  }

  void plant(fault_kind kind, std::size_t row, kvpage::row_state state, std::size_t position) {
    ++started_[kind];
    ++injected_[kind];
    planted_.push_back({kind, row, state, position});
  }

  // Any entry of the table that holds a page.
  [[nodiscard]] std::size_t held_entry(const request& of) {
    const std::size_t dropped = of.table->dropped_pages();
    return dropped + below(of.table->pages() - dropped);
  }

  // The entries from this one to the last hold pages that the row shares with nobody; pages() if there are
  // none.  To release a shared page takes it from nobody yet.
  [[nodiscard]] std::size_t first_own_entry(const request& of) const {
    std::size_t first = of.table->pages();
    while (first > of.table->dropped_pages() &&
           memory_.pool().is_exclusive(of.table->handles()[first - 1].id())) {
      --first;
    }
    return first;
  }

  // Any of those.
  [[nodiscard]] std::optional<std::size_t> own_entry(const request& of) {
    const std::size_t first = first_own_entry(of);
    if (first == of.table->pages()) return std::nullopt;
    return first + below(of.table->pages() - first);
  }

  [[nodiscard]] std::size_t below(std::size_t bound) { return random_() % bound; }

  Memory& memory_;
  per_fault<std::uint64_t> wanted_;
  std::size_t requests_;
  std::size_t arrived_ = 0;
  std::mt19937_64 random_;

  per_fault<std::uint64_t> started_{};  // injected, and double frees still to come
  per_fault<std::uint64_t> injected_{};
  per_fault<std::uint64_t> detected_{};
  std::vector<planted_fault> planted_;  // in this step
  std::vector<late_release> late_releases_;
};

}  // namespace replay
