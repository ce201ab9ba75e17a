// kvpage: what a pool remembers of one page: one word of use, and under a tagged policy its tag.
#pragma once

#include <cstdint>

#include "config.hpp"
#include "integrity.hpp"

namespace kvpage::inline v0 {

// The state of a page.  Every page except the null page is in exactly one.
enum class page_state : std::uint8_t {
  free,     // grantable
  live,     // referenced at least once
  cached,   // published and referenced by nobody; its content can still be found
  fenced,   // given up, but a step in flight may still touch it
  retired,  // out of generations; never granted again
};

namespace detail {

// A page's use, in one word:
//
//     31        30      29 ............................ 2        1        0
//     not live  fenced  references, or the next of a chain  awaited  published
//
// A free or live page is below 2^31 and holds its number of references, a free one nothing else; a cached or
// fenced page holds the next page of the chain it hangs in, 0 at the end.  So one signed comparison tells,
// whatever the two flags are, whether a page has at least so many references.
class page_use {
 public:
  static constexpr std::uint32_t max_references = (std::uint32_t{1} << 29) - 1;  // one more is not live

  static constexpr page_use free() noexcept { return page_use{0}; }
  static constexpr page_use once() noexcept { return page_use{one}; }
  static constexpr page_use retired() noexcept { return page_use{awaited_bit}; }  // by nobody: no other is so

  [[nodiscard]] constexpr page_state state() const noexcept {
    if (has_references(1)) return page_state::live;
    if ((word_ & not_live) == 0) return *this == retired() ? page_state::retired : page_state::free;
    return (word_ & fenced_bit) == 0 ? page_state::cached : page_state::fenced;
  }

  // References held; 0 for a page that is not live.
  [[nodiscard]] constexpr std::uint32_t references() const noexcept {
    return has_references(1) ? word_ / one : 0;
  }
  // At least `least` of them, which must not be 0.
  [[nodiscard]] constexpr bool has_references(std::int32_t least) const noexcept {
    return static_cast<std::int32_t>(word_) >= least * static_cast<std::int32_t>(one);
  }
  [[nodiscard]] constexpr bool is_shared() const noexcept { return has_references(2); }
  [[nodiscard]] constexpr bool is_exclusive() const noexcept { return (word_ & ~awaited_bit) == one; }
  [[nodiscard]] constexpr bool is_published() const noexcept { return (word_ & published_bit) != 0; }
  [[nodiscard]] constexpr bool is_awaited() const noexcept { return (word_ & awaited_bit) != 0; }
  [[nodiscard]] constexpr std::uint32_t word() const noexcept { return word_; }
  [[nodiscard]] constexpr page_id next() const noexcept { return (word_ & next_mask) / one; }

  // One more reference: is_shared() then, if the page was live and its count allowed it.
  [[nodiscard]] constexpr page_use more() const noexcept { return page_use{word_ + one}; }
  // One fewer; the caller has checked that there is one.
  [[nodiscard]] constexpr page_use fewer() const noexcept { return page_use{word_ - one}; }

  [[nodiscard]] constexpr page_use published() const noexcept { return page_use{word_ | published_bit}; }
  [[nodiscard]] constexpr page_use withdrawn() const noexcept { return page_use{word_ & ~published_bit}; }

  // A step that one of its former holders was part of may still be in flight.
  [[nodiscard]] constexpr page_use awaited() const noexcept { return page_use{word_ | awaited_bit}; }
  [[nodiscard]] constexpr page_use settled() const noexcept { return page_use{word_ & ~awaited_bit}; }

  // The same page, no longer referenced (cached, fenced) or referenced `references` times; the flags stay.
  [[nodiscard]] constexpr page_use cached() const noexcept { return with(not_live); }
  [[nodiscard]] constexpr page_use fenced() const noexcept { return with(not_live | fenced_bit); }
  [[nodiscard]] constexpr page_use referenced(std::uint32_t references) const noexcept {
    return with(references * one);
  }
  // In its chain, before `next`.
  [[nodiscard]] constexpr page_use linked_to(page_id next) const noexcept {
    return with((word_ & (not_live | fenced_bit)) | next * one);
  }

  friend constexpr bool operator==(page_use, page_use) = default;

 private:
  static constexpr std::uint32_t published_bit = 1;
  static constexpr std::uint32_t awaited_bit = 2;
  static constexpr std::uint32_t flags = published_bit | awaited_bit;
  static constexpr std::uint32_t one = 4;  // reference
  static constexpr std::uint32_t fenced_bit = std::uint32_t{1} << 30;
  static constexpr std::uint32_t not_live = std::uint32_t{1} << 31;
  static constexpr std::uint32_t next_mask = fenced_bit - one;

  constexpr explicit page_use(std::uint32_t word) noexcept : word_{word} {}

  [[nodiscard]] constexpr page_use with(std::uint32_t rest) const noexcept {
    return page_use{rest | (word_ & flags)};
  }

  std::uint32_t word_;
};

// The tag after `tag`; 0 once the last generation has been used up.
template <tagged_policy P>
[[nodiscard]] constexpr page_tag next_tag(page_tag tag) noexcept {
  return (tag + 1) & P::last_live_tag;
}

// Tag and use lie side by side: every check and every change of a page touches one cache line.
template <integrity_policy P>
struct alignas(8) page_record {
  page_use use = page_use::free();
  page_tag tag = 0;
};

template <>
struct page_record<untagged> {
  page_use use = page_use::free();
};

static_assert(sizeof(page_record<tagged>) == 8);
static_assert(sizeof(page_record<untagged>) == 4);

}  // namespace detail
}  // namespace kvpage::inline v0
