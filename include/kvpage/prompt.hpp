// kvpage: what tells one request's text from another's, as far as sharing its pages goes.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "config.hpp"

namespace kvpage::inline v0 {

using token_id = std::int32_t;

// What a page holds, told by 128 bits of the engine's making, where there are no tokens to compare (block
// hashes in a recorded trace).  What is given up: pages with equal keys under equal parents and salts are
// taken for equal, so the engine's hash must be one that nobody can find collisions of.
struct page_key {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend bool operator==(const page_key&, const page_key&) = default;
};

// Whatever else than the tokens decides what a page's K and V are, or who may see them.  Prompts share
// pages only if every field is equal, byte by byte; fields are never joined.
struct prefix_salt {
  std::string_view tenant = {};   // whose cache it is
  std::string_view adapter = {};  // which fine-tuned weights
  std::string_view media = {};    // digests of images or audio behind placeholder tokens

  friend bool operator==(const prefix_salt&, const prefix_salt&) = default;
};

// A request's text; refers to the caller's memory (a vector, an array, a span).  A page is told by its
// tokens_per_page token ids, or by one page_key.
template <class Symbol = token_id>
struct prompt;

template <>
struct prompt<token_id> {
  // How many symbols tell a page of `tokens_per_page` tokens.
  static constexpr std::size_t symbols_per_page(std::size_t tokens_per_page) { return tokens_per_page; }

  prompt() = default;
  prompt(std::span<const token_id> all_tokens, const prefix_salt& all_salt = {})
      : symbols{all_tokens}, tokens{all_tokens.size()}, salt{all_salt} {}
  template <class Tokens>
  requires std::convertible_to<const Tokens&, std::span<const token_id>> prompt(
      const Tokens& all_tokens, const prefix_salt& all_salt = {})
      : prompt{std::span<const token_id>{all_tokens}, all_salt} {}

  std::span<const token_id> symbols;
  std::size_t tokens = 0;
  prefix_salt salt;
};

template <>
struct prompt<page_key> {
  static constexpr std::size_t symbols_per_page(std::size_t) { return 1; }

  prompt() = default;
  // One key for each full page, from the first on; pages past the keys are not shared.
  prompt(std::span<const page_key> keys, std::size_t all_tokens, const prefix_salt& all_salt = {})
      : symbols{keys}, tokens{all_tokens}, salt{all_salt} {}

  std::span<const page_key> symbols;
  std::size_t tokens = 0;
  prefix_salt salt;
};

}  // namespace kvpage::inline v0
