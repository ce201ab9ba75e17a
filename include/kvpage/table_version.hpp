// kvpage: what has happened to a block table, for whoever keeps a copy of it elsewhere (a device).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "config.hpp"
#include "integrity.hpp"

namespace kvpage::inline v0 {

// How a copy of a block table, kept elsewhere, finds out what it has missed.  Of the same table:
//   at the same revision, entries it has copied have not changed, but for the front dropped meanwhile;
//   one revision on, entries below first_rewritten have not changed, but for the front dropped meanwhile;
//   otherwise, any entry may have.
struct table_version {
  std::uint64_t table = 0;          // no two tables of a process share one; it moves with the pages; never 0
  std::uint64_t revision = 0;       // counts the times that entries were overwritten or removed
  std::size_t first_rewritten = 0;  // the lowest entry concerned by the newest revision

  friend bool operator==(const table_version&, const table_version&) = default;
};

namespace detail {

// The table_version of a table under policy P; nothing at all where there are no tags to verify.
template <integrity_policy P>
class table_history {
 public:
  table_history() noexcept : version_{.table = next_table()} {}
  table_history(table_history&& other) noexcept
      : version_{std::exchange(other.version_, table_version{.table = next_table()})} {}
  table_history& operator=(table_history&&) = delete;

  void rewritten_from(std::size_t entry) noexcept {
    ++version_.revision;
    version_.first_rewritten = entry;
  }
  [[nodiscard]] const table_version& version() const noexcept { return version_; }

 private:
  static std::uint64_t next_table() noexcept {
    static std::atomic<std::uint64_t> newest{0};
    return newest.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  table_version version_;
};

template <>
class table_history<untagged> {
 public:
  void rewritten_from(std::size_t) noexcept {}
};

}  // namespace detail

}  // namespace kvpage::inline v0
