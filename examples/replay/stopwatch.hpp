// kvpage-replay: time spent inside the library, apart from the scheduler's and the oracle's.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>

namespace replay {

// Time over blocks of calls, and how many units of work (pages, entries) those blocks did.  Blocks that did
// none, such as a refused admission, count in the total, not in the time per unit.
class stopwatch {
 public:
  // Runs `block`, which returns the units of work it did.
  template <class Block>
  void measure(Block&& block) {
    const auto start = clock::now();
    const std::uint64_t done = block();
    (done == 0 ? idle_ : working_) += clock::now() - start;
    units_ += done;
  }

  [[nodiscard]] double nanoseconds() const { return in_nanoseconds(working_ + idle_); }
  [[nodiscard]] double nanoseconds_per_unit() const { return nanoseconds_per_unit({*this}); }
  [[nodiscard]] static double nanoseconds_per_unit(std::initializer_list<stopwatch> watches) {
    clock::duration working{};
    std::uint64_t units = 0;
    for (const stopwatch& watch : watches) {
      working += watch.working_;
      units += watch.units_;
    }
    return units == 0 ? 0 : in_nanoseconds(working) / static_cast<double>(units);
  }
  [[nodiscard]] std::uint64_t units() const { return units_; }

 private:
  using clock = std::chrono::steady_clock;

  static double in_nanoseconds(clock::duration time) {
    return std::chrono::duration<double, std::nano>(time).count();
  }

  clock::duration working_{};
  clock::duration idle_{};
  std::uint64_t units_ = 0;
};

}  // namespace replay
