// kvpage: sizes that must fit, in 64 bits.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "config.hpp"

namespace kvpage::inline v0::detail {

// The largest distance that pointers can have.
inline constexpr std::uint64_t max_bytes = (std::numeric_limits<std::int64_t>::max)();

// a x b and a + b; throw std::invalid_argument past max_bytes, naming what was too large.
constexpr std::uint64_t checked_product(const char* what, std::uint64_t a, std::uint64_t b) {
  if (b == 0 || a <= max_bytes / b) return a * b;
  throw std::invalid_argument(std::string(what) + ": " + std::to_string(a) + " x " + std::to_string(b) +
                              " bytes do not fit 63 bits");
}
constexpr std::uint64_t checked_sum(const char* what, std::uint64_t a, std::uint64_t b) {
  if (a <= max_bytes && b <= max_bytes - a) return a + b;
  throw std::invalid_argument(std::string(what) + ": " + std::to_string(a) + " + " + std::to_string(b) +
                              " bytes do not fit 63 bits");
}

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace kvpage::inline v0::detail
