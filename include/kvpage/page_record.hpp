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
//     31-30  29 ............................ 2        1        0
//     kind   references, or the next page of a chain  awaited  published
//
// A page that is counted (free or live) is of kind 0 and holds its number of references; a cached or
// fenced one holds the next page of the chain it hangs in, 0 at the end.  So one comparison tells, whatever
// the two flags are, whether a page has at least so many references.
class page_use {
 public:
  static constexpr std::uint32_t max_references = (std::uint32_t{1} << 28) - 1;

  static constexpr page_use free() noexcept { return page_use{0}; }
  static constexpr page_use once() noexcept { return page_use{one}; }
  static constexpr page_use retired() noexcept { return page_use{kind_retired}; }

  [[nodiscard]] constexpr page_state state() const noexcept {
    switch (word_ & kind_mask) {
      case kind_cached: return page_state::cached;
      case kind_fenced: return page_state::fenced;
      case kind_retired: return page_state::retired;
      default: return references() == 0 ? page_state::free : page_state::live;
    }
  }

  // References held; 0 for a page that is not live.
  [[nodiscard]] constexpr std::uint32_t references() const noexcept {
    return word_ < kind_cached ? word_ / one : 0;
  }
  [[nodiscard]] constexpr bool is_shared() const noexcept { return is_counted_between(2, max_references); }
  [[nodiscard]] constexpr bool can_be_shared() const noexcept {
    return is_counted_between(1, max_references - 1);
  }
  [[nodiscard]] constexpr bool is_exclusive() const noexcept { return (word_ & ~awaited_bit) == one; }
  [[nodiscard]] constexpr bool is_published() const noexcept { return (word_ & published_bit) != 0; }
  [[nodiscard]] constexpr bool is_awaited() const noexcept { return (word_ & awaited_bit) != 0; }
  [[nodiscard]] constexpr std::uint32_t word() const noexcept { return word_; }
  [[nodiscard]] constexpr page_id next() const noexcept { return (word_ & low_mask) / one; }

  // One more and one fewer reference; the caller has checked that the count allows it.
  [[nodiscard]] constexpr page_use more() const noexcept { return page_use{word_ + one}; }
  [[nodiscard]] constexpr page_use fewer() const noexcept { return page_use{word_ - one}; }

  [[nodiscard]] constexpr page_use published() const noexcept { return page_use{word_ | published_bit}; }
  [[nodiscard]] constexpr page_use withdrawn() const noexcept { return page_use{word_ & ~published_bit}; }

  // A step that one of its former holders was part of may still be in flight.
  [[nodiscard]] constexpr page_use awaited() const noexcept { return page_use{word_ | awaited_bit}; }
  [[nodiscard]] constexpr page_use settled() const noexcept { return page_use{word_ & ~awaited_bit}; }

  // The same page, no longer referenced (cached, fenced) or referenced once again; the flags stay.
  [[nodiscard]] constexpr page_use cached() const noexcept { return with(kind_cached, null_page); }
  [[nodiscard]] constexpr page_use fenced() const noexcept { return with(kind_fenced, null_page); }
  [[nodiscard]] constexpr page_use revived() const noexcept { return with(0, 1); }
  [[nodiscard]] constexpr page_use linked_to(page_id next) const noexcept {
    return with(word_ & kind_mask, next);
  }

  friend constexpr bool operator==(page_use, page_use) = default;

 private:
  static constexpr std::uint32_t published_bit = 1;
  static constexpr std::uint32_t awaited_bit = 2;
  static constexpr std::uint32_t flags = published_bit | awaited_bit;
  static constexpr std::uint32_t one = 4;  // reference
  static constexpr std::uint32_t low_mask = max_references * one;
  static constexpr std::uint32_t kind_mask = std::uint32_t{3} << 30;
  static constexpr std::uint32_t kind_cached = std::uint32_t{1} << 30;
  static constexpr std::uint32_t kind_fenced = std::uint32_t{2} << 30;
  static constexpr std::uint32_t kind_retired = std::uint32_t{3} << 30;

  constexpr explicit page_use(std::uint32_t word) noexcept : word_{word} {}

  [[nodiscard]] constexpr page_use with(std::uint32_t kind, std::uint32_t low) const noexcept {
    return page_use{kind | low * one | (word_ & flags)};
  }

  // Counted, with `low` to `high` references: a single comparison, as what lies below `low` wraps.
  [[nodiscard]] constexpr bool is_counted_between(std::uint32_t low, std::uint32_t high) const noexcept {
    return word_ - low * one <= (high - low) * one + flags;
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
