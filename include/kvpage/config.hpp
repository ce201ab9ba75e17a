// kvpage: the few names every other header needs, and the one macro that lets a header serve both
// the host compiler and nvcc.
#pragma once

#include <cstddef>
#include <cstdint>

#if __cplusplus < 202002L
#error "kvpage is written in C++20: compile with -std=c++20 or newer"
#endif

// Marks functions that kernels may call too.  Empty for a plain C++ compiler.
#if defined(__CUDACC__)
#define KVPAGE_HOST_DEVICE __host__ __device__
#else
#define KVPAGE_HOST_DEVICE
#endif

namespace kvpage::inline v0 {

// Number of a page in its pool.  Exported tables hold the same number as int32.
using page_id = std::uint32_t;

// Generation of a page: odd while the page is live, even while it is free.
using page_tag = std::uint32_t;

// Number of a decode step, counted from 1 by the engine.  Step 0 lies before the first launch and has
// always retired, so "fenced until step 0" means "not fenced".
using step_number = std::uint64_t;

// Where a token's K and V go: page id x tokens_per_page + offset in the page.  64 bits, as engines'
// slot mappings have it: 2^27 pages of 16 tokens already leave 31 bits.
using slot_index = std::int64_t;

// Never granted, never written, zero-filled: what unused table entries point to.
inline constexpr page_id null_page = 0;

// A token that must not be written anywhere.
inline constexpr slot_index skipped_slot = -1;

// A pool, its null page included, numbers its pages below this bound: 28 bits, so that a page's
// reference count or chain link shares one word with its state.
inline constexpr std::uint64_t max_pages_per_pool = std::uint64_t{1} << 28;

// A row's tokens; lengths are exported as int32.
inline constexpr std::size_t max_tokens_per_row = 0x7fff'ffff;

// Pages that `tokens` tokens occupy.
[[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::size_t pages_for(std::size_t tokens,
                                                                 std::size_t tokens_per_page) noexcept {
  return tokens / tokens_per_page + (tokens % tokens_per_page != 0);
}

// Tokens in the last of those pages: 1 to tokens_per_page, or 0 for no tokens at all.
[[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::size_t last_page_len_for(
    std::size_t tokens, std::size_t tokens_per_page) noexcept {
  return tokens == 0 ? 0 : (tokens - 1) % tokens_per_page + 1;
}

}  // namespace kvpage::inline v0
