// kvpage-replay: what a trace's requests say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <kvpage/prompt.hpp>
#include <vector>

#include "trace.hpp"

namespace replay {

// What a request grows to.
[[nodiscard]] inline std::size_t most_tokens(const trace_request& request) {
  return std::size_t{request.input_length} + request.output_length;
}

// Request `id`'s prompt and output, most_tokens() of them, made up: prompts agree as far as their hash_ids
// do, and nothing else agrees with anything.
[[nodiscard]] std::vector<kvpage::token_id> text_of(const trace_request& request, std::uint32_t id);

// What the page with tokens number x page_size and on holds, once computed: the same number for the same
// content only.  Never 0.
[[nodiscard]] std::uint64_t page_content(const trace_request& request, std::uint32_t id, std::size_t number,
                                         std::size_t page_size);

}  // namespace replay
