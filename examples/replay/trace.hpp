// kvpage-replay: the requests to replay, from a file or made up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace replay {

inline constexpr std::uint32_t tokens_per_block = 512;  // of hash_ids

struct trace_request {
  double timestamp_ms = 0;              // arrival, since the start of the trace
  std::uint32_t input_length = 0;       // tokens of the prompt, at least 1
  std::uint32_t output_length = 0;      // tokens to decode, at least 1
  std::vector<std::uint64_t> hash_ids;  // one per block of the prompt; equal ids: same prefix

  friend bool operator==(const trace_request&, const trace_request&) = default;
};

// In order of arrival.
using trace = std::vector<trace_request>;

// A trace that cannot be used; what() is "file:line: reason".
struct trace_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Reads a trace in the format of Mooncake's trace release (FAST'25): one JSON object a line, with
// timestamp, input_length, output_length and hash_ids.  At most the first `limit` requests.
// Throws trace_error.
[[nodiscard]] trace read_trace(const std::string& file, std::optional<std::size_t> limit);

// `count` requests whose lengths, bursts of arrivals and shared prefixes resemble Mooncake's conversation
// trace.  The same seed gives the same trace everywhere.
[[nodiscard]] trace generate_trace(std::size_t count, std::uint64_t seed);

}  // namespace replay
