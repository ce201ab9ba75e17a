// kvpage-replay: what to replay, and how.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace replay {

// Faults injected on purpose; what each does stands at its injector in faults.hpp.
enum class fault_kind : std::uint8_t {
  stale_table,
  early_free,
  wrong_page,
  out_of_range,
  short_row,
  double_free
};

inline constexpr std::array<std::string_view, 6> fault_names = {"stale_table",  "early_free", "wrong_page",
                                                                "out_of_range", "short_row",  "double_free"};

// One value per kind of fault.
template <class T>
struct per_fault : std::array<T, fault_names.size()> {
  using std::array<T, fault_names.size()>::operator[];
  constexpr T& operator[](fault_kind kind) { return (*this)[static_cast<std::size_t>(kind)]; }
  constexpr const T& operator[](fault_kind kind) const { return (*this)[static_cast<std::size_t>(kind)]; }
};

struct options {
  std::string trace_file;            // empty: a generated trace
  std::optional<std::size_t> limit;  // requests
  std::uint64_t pages = 65536;       // that requests can have: the null page comes on top
  std::uint32_t page_size = 64;      // tokens
  std::size_t max_rows = 256;        // requests in one step
  bool prefix_cache = true;
  std::size_t window = 0;  // tokens that a token attends to; 0: all before it
  std::string backend = "cpu";
  std::string policy = "tagged";
  std::string element = "bf16";
  per_fault<std::uint64_t> faults{};
  std::uint64_t seed = 1;
  bool json = false;
};

// Reads the command line into `into`.  Returns the exit status if the program is to end here: 0 after
// --help, 2 after an error, which is printed on stderr with the wrong value and its bounds.
[[nodiscard]] std::optional<int> parse_options(int argc, const char* const* argv, options& into);

}  // namespace replay
