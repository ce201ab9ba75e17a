// kvpage: the integrity policy, a compile-time choice: do pages carry generation tags, or not?
//
// Code asks with `if constexpr (P::is_tagged)`; under `untagged` nothing about tags is compiled.
#pragma once

#include <concepts>
#include <limits>
#include <type_traits>

#include "config.hpp"

namespace kvpage::inline v0 {

// No tags: a handle is a bare page id, a stale one cannot be told from a fresh one, and nothing is paid.
struct untagged {
  static constexpr bool is_tagged = false;
};

// Every page carries a generation of `Bits` bits that changes whenever the page changes hands.  A page
// that has used up its generations is retired for good, so an old handle never becomes valid again.
// Tags take 32 bits wherever they are stored; narrow ones exist to reach the last generation in a test.
template <std::unsigned_integral Int, int Bits = std::numeric_limits<Int>::digits>
struct basic_tagged {
  static_assert(Bits >= 2 && Bits <= std::numeric_limits<Int>::digits && Bits <= 32);
  static constexpr bool is_tagged = true;
  static constexpr page_tag last_live_tag = static_cast<page_tag>((std::uint64_t{1} << Bits) - 1);
};

using tagged = basic_tagged<std::uint32_t>;

template <class P>
concept untagged_policy = std::same_as<P, untagged>;

// Live tags are the odd numbers up to `last_live_tag`, which is 2^n - 1.
template <class P>
concept tagged_policy = std::is_empty_v<P> && requires {
  requires P::is_tagged;
  requires std::same_as<decltype(P::last_live_tag), const page_tag>;
  requires P::last_live_tag % 2 == 1 && (P::last_live_tag & (P::last_live_tag + 1)) == 0;
};

template <class P>
concept integrity_policy = untagged_policy<P> || tagged_policy<P>;

}  // namespace kvpage::inline v0
