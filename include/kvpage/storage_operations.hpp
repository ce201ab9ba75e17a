// kvpage: what happens to the bytes in pages, on the host.  cuda/storage_operations.cuh has the same
// operations as kernels, with the same results bit for bit.
//
// Pages are named by handle and checked by their pool: under `tagged`, a page that has changed hands is
// neither read nor written.  On an error nothing has been written.
#pragma once

#include <gsl/assert>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "block_table.hpp"
#include "config.hpp"
#include "element_convert.hpp"
#include "error.hpp"
#include "page_copy.hpp"
#include "page_handle.hpp"
#include "page_pool.hpp"
#include "page_storage.hpp"
#include "token_arrays.hpp"
#include "vector_codec.hpp"

namespace kvpage::inline v0 {

namespace detail {

// Granted still, and in the storage.
template <element E, integrity_policy P>
[[nodiscard]] errc check_page(const page_storage_view<E>& storage, const page_pool<E, P>& pool,
                              page_handle<E, P> page) noexcept {
  KVPAGE_TRY(pool.check(page));
  return storage.check(page.id());
}

}  // namespace detail

// The first `tokens` tokens of a request, as they lie in pages: entry k of `pages`, the handles of a block
// table, holds tokens k x S to k x S + S - 1.
template <element E, integrity_policy P>
struct paged_tokens {
  page_storage_view<E> storage;
  const page_pool<E, P>& pool;
  std::span<const page_handle<E, P>> pages;
  std::size_t tokens;

  paged_tokens(const page_storage_view<E>& of, const page_pool<E, P>& owner,
               std::type_identity_t<std::span<const page_handle<E, P>>> granted, std::size_t count)
      : storage{of}, pool{owner}, pages{granted}, tokens{count} {
    Expects(storage.shape().tokens_per_page() == pool.tokens_per_page());
  }

  // outside_row: fewer pages than the tokens need; otherwise as page_pool::check.  O(pages).
  [[nodiscard]] errc check() const noexcept {
    const std::size_t needed = pages_for(tokens, pool.tokens_per_page());
    if (needed > pages.size()) return errc::outside_row;
    for (const page_handle<E, P>& page : pages.first(needed)) {
      KVPAGE_TRY(detail::check_page(storage, pool, page));
    }
    return errc::ok;
  }

  [[nodiscard]] stored_vector<E> vector(std::size_t token, std::uint32_t layer, std::uint32_t part,
                                        std::uint32_t head) const noexcept {
    const std::size_t page = token / pool.tokens_per_page();
    const auto in_page = static_cast<std::uint32_t>(token % pool.tokens_per_page());
    return storage.vector(pages[page].id(), layer, part, in_page, head);
  }
};

namespace detail {

// Calls visit(part, head) for each vector that a token has in a layer.
template <class Visit>
void for_each_vector(const page_shape& shape, Visit visit) {
  for (std::uint32_t part = 0; part < shape.parts(); ++part)
    for (std::uint32_t head = 0; head < shape.heads(); ++head) visit(part, head);
}

// Where a slot (other than skipped_slot) lies.  code: null_handle or outside_pool if it must not be written.
struct token_place {
  errc code;
  page_id page;
  std::uint32_t token;
};

template <element E>
[[nodiscard]] KVPAGE_HOST_DEVICE token_place place_of(const page_storage_view<E>& storage,
                                                      slot_index slot) noexcept {
  const std::uint32_t tokens_per_page = storage.shape().tokens_per_page();
  const auto unsigned_slot = static_cast<std::uint64_t>(slot);  // huge, if negative
  const std::uint64_t page = unsigned_slot / tokens_per_page;
  if (page >= storage.layout().pages()) return {errc::outside_pool, 0, 0};
  return {page == null_page ? errc::null_handle : errc::ok, static_cast<page_id>(page),
          static_cast<std::uint32_t>(unsigned_slot - page * tokens_per_page)};
}

// Vectors of one shape can be stored as the other; tokens per page and order may differ.
KVPAGE_HOST_DEVICE constexpr bool same_vectors(const page_shape& a, const page_shape& b) noexcept {
  return a.layers() == b.layers() && a.parts() == b.parts() && a.heads() == b.heads() && a.dim() == b.dim();
}

}  // namespace detail

// Writes a step's new tokens of one layer: token t goes to slots[t] (see decode_batch), or nowhere if that
// is skipped_slot.  Values are encoded by the shape's scale rule.  Slots are distinct.
//   outside_pool: a slot that the storage does not have; null_handle: one in the null page.
// O(slots x vectors).
template <numeric T, element E>
[[nodiscard]] errc append(const page_storage_view<E>& storage, std::uint32_t layer,
                          std::span<const slot_index> slots, const token_arrays<const T>& from) {
  const page_shape& shape = storage.shape();
  Expects(layer < shape.layers() && from.fits(shape));
  for (const slot_index slot : slots) {
    if (slot != skipped_slot) KVPAGE_TRY(detail::place_of(storage, slot).code);
  }
  for (std::size_t token = 0; token < slots.size(); ++token) {
    if (slots[token] == skipped_slot) continue;
    const detail::token_place place = detail::place_of(storage, slots[token]);
    detail::for_each_vector(shape, [&](std::uint32_t part, std::uint32_t head) {
      detail::store_vector(shape, storage.vector(place.page, layer, part, place.token, head),
                           detail::array_values<T>{from.vector(shape, part, token, head)});
    });
  }
  return errc::ok;
}

// Decodes a request's tokens of one layer into arrays of their own.  Errors as paged_tokens::check.
// O(tokens x vectors).
template <numeric T, element E, integrity_policy P>
[[nodiscard]] errc gather(const paged_tokens<E, P>& from, std::uint32_t layer, const token_arrays<T>& to) {
  const page_shape& shape = from.storage.shape();
  Expects(layer < shape.layers() && to.fits(shape));
  KVPAGE_TRY(from.check());
  for (std::size_t token = 0; token < from.tokens; ++token) {
    detail::for_each_vector(shape, [&](std::uint32_t part, std::uint32_t head) {
      detail::load_vector(shape, from.vector(token, layer, part, head), to.vector(shape, part, token, head));
    });
  }
  return errc::ok;
}

// Copies whole pages, all layers, stored scales included, within one storage: the list that copy on write
// makes.  Destinations are distinct and none of them is a source; copies of no tokens are passed over.  Errors
// as page_pool::check.  O(bytes).
template <element E, integrity_policy P>
[[nodiscard]] errc copy_pages(const page_storage_view<E>& storage, const page_pool<E, P>& pool,
                              std::type_identity_t<std::span<const page_copy<page_handle<E, P>>>> copies) {
  for (const page_copy<page_handle<E, P>>& copy : copies) {
    if (copy.tokens == 0) continue;
    KVPAGE_TRY(detail::check_page(storage, pool, copy.source));
    KVPAGE_TRY(detail::check_page(storage, pool, copy.destination));
  }
  for (const page_copy<page_handle<E, P>>& copy : copies) {
    if (copy.tokens == 0) continue;
    for (std::uint32_t layer = 0; layer < storage.shape().layers(); ++layer)
      std::memcpy(storage.block(copy.destination.id(), layer), storage.block(copy.source.id(), layer),
                  storage.shape().block_bytes());
  }
  return errc::ok;
}

// Moves a request's tokens, all layers, into the pages of another pool: other element type, scale rule,
// order, tokens per page.  The two have the same vectors and token count.  Errors as paged_tokens::check of
// either.  O(tokens x vectors).
template <element From, element To, integrity_policy FromPolicy, integrity_policy ToPolicy>
[[nodiscard]] errc convert_pages(const paged_tokens<From, FromPolicy>& from,
                                 const paged_tokens<To, ToPolicy>& to) {
  const page_shape& source = from.storage.shape();
  const page_shape& target = to.storage.shape();
  Expects(detail::same_vectors(source, target) && from.tokens == to.tokens);
  KVPAGE_TRY(from.check());
  KVPAGE_TRY(to.check());
  for (std::uint32_t layer = 0; layer < source.layers(); ++layer) {
    for (std::size_t token = 0; token < from.tokens; ++token) {
      detail::for_each_vector(source, [&](std::uint32_t part, std::uint32_t head) {
        detail::store_vector(target, to.vector(token, layer, part, head),
                             detail::page_values<From>{source, from.vector(token, layer, part, head)});
      });
    }
  }
  return errc::ok;
}

// Fills pages with zeros, all layers.  With the handles that a grant gave, it keeps what earlier owners
// left (NaN bytes, say) from the new one's masked arithmetic.  Errors as page_pool::check.  O(bytes).
template <element E, integrity_policy P>
[[nodiscard]] errc clear_pages(const page_storage_view<E>& storage, const page_pool<E, P>& pool,
                               std::type_identity_t<std::span<const page_handle<E, P>>> pages) {
  for (const page_handle<E, P>& page : pages) {
    KVPAGE_TRY(detail::check_page(storage, pool, page));
  }
  for (const page_handle<E, P>& page : pages) {
    for (std::uint32_t layer = 0; layer < storage.shape().layers(); ++layer)
      std::memset(storage.block(page.id(), layer), 0, storage.shape().block_bytes());
  }
  return errc::ok;
}

}  // namespace kvpage::inline v0
