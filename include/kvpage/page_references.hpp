// kvpage: what a grant, a further reference and a release do to a page's record in the usual case.
//
// The loops over these are the pool's speed.  Whatever is unusual (an error, a published page, a page's last
// generation) is refused here, with nothing changed, and left to the pool.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "config.hpp"
#include "integrity.hpp"
#include "page_record.hpp"

namespace kvpage::inline v0::detail {

// A record (use, tag) or a handle (id, tag), assembled in one register and stored at once.  Compilers store
// the halves one by one, and that shows: a grant that follows a release at once has to wait for both.
template <class Pair>
[[nodiscard]] constexpr Pair in_one_word(std::uint32_t first, page_tag tag) noexcept {
  static_assert(std::endian::native == std::endian::little);
  return std::bit_cast<Pair>(std::uint64_t{tag} << 32 | first);
}

// Grants a free page: its handle.
template <class Handle, integrity_policy P>
[[nodiscard]] inline Handle grant(page_record<P>& page, page_id id) noexcept {
  if constexpr (P::is_tagged) {
    const page_tag tag = page.tag + 1;  // even to odd: a free page always has a live tag left
    page = in_one_word<page_record<P>>(page_use::once().word(), tag);
    return in_one_word<Handle>(id, tag);
  } else {
    page.use = page_use::once();
    return Handle{id};
  }
}

// Adds a reference to a page that has one.
template <integrity_policy P, class Handle>
[[nodiscard]] inline bool add_reference(std::span<page_record<P>> records, Handle page) noexcept {
  if (page.id() >= records.size()) [[unlikely]]
    return false;
  page_record<P>& added = records[page.id()];
  if constexpr (P::is_tagged) {
    if (added.tag != page.tag()) [[unlikely]]
      return false;
  }
  const page_use more = added.use.more();
  if (!more.is_shared()) [[unlikely]]
    return false;
  added.use = more;
  return true;
}

// Drops a reference, of a page that stays live, or that becomes free and is then written to *freed++.
template <integrity_policy P, class Handle>
[[nodiscard]] inline bool drop_reference(std::span<page_record<P>> records, Handle page,
                                         page_id*& freed) noexcept {
  if (page.id() >= records.size()) [[unlikely]]
    return false;
  page_record<P>& dropped = records[page.id()];
  if constexpr (P::is_tagged) {
    if (dropped.tag != page.tag()) [[unlikely]]
      return false;
  }
  if (dropped.use == page_use::once()) [[likely]] {
    if constexpr (P::is_tagged) {
      const page_tag next = next_tag<P>(page.tag());
      if (next == 0) [[unlikely]]
        return false;
      dropped = in_one_word<page_record<P>>(page_use::free().word(), next);
    } else {
      dropped.use = page_use::free();
    }
    *freed++ = page.id();
    return true;
  }
  if (!dropped.use.is_shared()) [[unlikely]]
    return false;
  dropped.use = dropped.use.fewer();
  return true;
}

}  // namespace kvpage::inline v0::detail
