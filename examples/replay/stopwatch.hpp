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
    add(clock::now() - start, done);
  }

  // A block whose time was taken elsewhere.
  void add(std::chrono::duration<double, std::nano> time, std::uint64_t done) {
    (done == 0 ? idle_ : working_) += time;
    units_ += done;
  }

  [[nodiscard]] double nanoseconds() const { return (working_ + idle_).count(); }
  [[nodiscard]] double nanoseconds_per_unit() const { return nanoseconds_per_unit({*this}); }
  [[nodiscard]] static double nanoseconds_per_unit(std::initializer_list<stopwatch> watches) {
    std::chrono::duration<double, std::nano> working{};
    std::uint64_t units = 0;
    for (const stopwatch& watch : watches) {
      working += watch.working_;
      units += watch.units_;
    }
    return units == 0 ? 0 : working.count() / static_cast<double>(units);
  }
  [[nodiscard]] std::uint64_t units() const { return units_; }

 private:
  using clock = std::chrono::steady_clock;

  std::chrono::duration<double, std::nano> working_{};
  std::chrono::duration<double, std::nano> idle_{};
  std::uint64_t units_ = 0;
};

}  // namespace replay
