// kvpage: where to look for a page's content.  A hash only: the index compares the content itself.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "config.hpp"

namespace kvpage::inline v0 {

// Multiply and fold, 16 bytes a step.  Collisions cost time, never correctness; where strangers write the
// prompts, a random seed keeps them from choosing prompts that collide.
class prefix_hash {
 public:
  prefix_hash() = default;
  explicit prefix_hash(std::uint64_t seed) noexcept : secret_{seed ^ odd_bits} {}

  // The hash of a page whose prefix hashes to `parent`.
  template <class Symbol>
  requires std::has_unique_object_representations_v<Symbol>
  [[nodiscard]] std::uint64_t operator()(std::uint64_t parent, std::span<const Symbol> page) const noexcept {
    const auto bytes = std::as_bytes(page);
    std::uint64_t state = parent ^ secret_;
    std::size_t at = 0;
    for (; bytes.size() - at >= 16; at += 16)
      state = fold(state ^ load(&bytes[at], 8), load(&bytes[at + 8], 8) ^ secret_);
    const std::size_t left = bytes.size() - at;
    const std::uint64_t first = left == 0 ? 0 : load(&bytes[at], left < 8 ? left : 8);
    const std::uint64_t second = left <= 8 ? 0 : load(&bytes[at + 8], left - 8);
    state = fold(state ^ first, second ^ secret_);
    return fold(state ^ bytes.size(), odd_bits);
  }

 private:
  static constexpr std::uint64_t odd_bits = 0x9e37'79b9'7f4a'7c15;  // 2^64 / golden ratio

  [[nodiscard]] static std::uint64_t load(const std::byte* from, std::size_t count) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, from, count);
    return word;
  }

  // The two halves of the 128-bit product, combined.
  [[nodiscard]] static std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
    __extension__ typedef unsigned __int128 wide;  // NOLINT(modernize-use-using)
    const wide product = wide{a} * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  std::uint64_t secret_ = odd_bits;
};

}  // namespace kvpage::inline v0
