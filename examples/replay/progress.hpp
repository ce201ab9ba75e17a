// kvpage-replay: one line on stderr, rewritten while a replay runs on a terminal.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>

namespace replay {

class progress_line {
 public:
  progress_line() = default;
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;
  ~progress_line() {
    if (on_terminal_) std::fputs("\r\033[K", stderr);
  }

  void update(std::uint64_t settled, std::uint64_t requests, std::uint64_t steps, std::uint64_t live_pages) {
    if (!on_terminal_) return;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    next_ = now + std::chrono::milliseconds(100);
    std::fprintf(stderr, "\r\033[K%ju of %ju requests settled, step %ju, %ju pages live",
                 std::uintmax_t{settled}, std::uintmax_t{requests}, std::uintmax_t{steps},
                 std::uintmax_t{live_pages});
  }

 private:
  bool on_terminal_ = isatty(STDERR_FILENO) == 1;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace replay
