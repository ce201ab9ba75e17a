// A comparison as text for people and as JSON for programs.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "comparison.hpp"

namespace capacity_example {

[[nodiscard]] std::string grouped(std::uint64_t value);       // "70 272"
[[nodiscard]] std::string deployment(const question& asked);  // "kimi-k2.6 on 8 x h200", or "8 GPUs"

// What a change of weights, from one plan to the next, means for one kind of cache.  Two readings of what it
// buys: the tokens in what is freed, and the tokens in the whole pool afterwards.
struct gain {
  std::uint64_t freed_bytes;
  std::uint64_t freed_tokens;  // freed_bytes / bytes per token
  std::uint64_t tokens_after;  // as planned, in whole pages
};
// Nothing, unless both plans fit and the second has the larger pool.
[[nodiscard]] std::optional<gain> gain_between(const comparison& result, std::size_t from, std::size_t to,
                                               std::size_t cache);

void print_text(std::ostream& out, const comparison& result);
void print_json(std::ostream& out, const comparison& result);

}  // namespace capacity_example
