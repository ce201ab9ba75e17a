// kvpage: the storage operations that take tokens, a warp for each vector: append, gather, convert.
//
// Page ids and slots come from tables that the verifier has passed or cut off.  Whatever they hold, nothing
// outside the storage is touched and the null page is never written.
#pragma once

#include <kvpage/config.hpp>
#include <kvpage/element.hpp>
#include <kvpage/page_storage.hpp>
#include <kvpage/storage_operations.hpp>
#include <kvpage/token_arrays.hpp>

#include <cstdint>

#include "vector_codec.cuh"

namespace kvpage::inline v0::kernels {

template <numeric T, element E>
struct append_args {
  page_storage_view<E> storage;
  std::uint32_t layer;
  const slot_index* d_slots;  // [tokens]
  std::uint64_t tokens;
  token_arrays<const T> from;
  std::uint32_t* d_refused;  // counts tokens whose slot is neither in the storage nor skipped; may be null
};

template <numeric T, element E>
struct gather_args {
  page_storage_view<E> storage;
  std::uint32_t layer;
  const std::int32_t* d_pages;  // [ceil(tokens / S)]
  std::uint64_t tokens;
  token_arrays<T> to;
};

template <element From, element To>
struct convert_args {
  page_storage_view<From> from;
  page_storage_view<To> to;
  const std::int32_t* d_from_pages;  // [ceil(tokens / from's S)]
  const std::int32_t* d_to_pages;    // [ceil(tokens / to's S)]
  std::uint64_t tokens;
};

namespace detail {

// One vector of a token.
struct vector_index {
  std::uint64_t token;
  std::uint32_t layer;  // of those that the launch is about
  std::uint32_t part;
  std::uint32_t head;
};

// Calls visit(vector_index) for this warp's share of tokens x layers x parts x heads; all lanes together.
// threadIdx.y chooses among a block's tokens, the warps along x among a token's vectors.
template <class Visit>
__device__ void for_each_vector(const page_shape& shape, std::uint64_t tokens, std::uint32_t layers,
                                Visit visit) {
  const std::uint32_t vectors = shape.vectors(layers);
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.y;
  for (std::uint64_t token = std::uint64_t{blockIdx.x} * blockDim.y + threadIdx.y; token < tokens;
       token += step) {
    for (std::uint32_t i = threadIdx.x / warp_lanes; i < vectors; i += blockDim.x / warp_lanes) {
      const std::uint32_t tensor = i / shape.heads();
      const std::uint32_t layer = tensor / shape.parts();
      visit(vector_index{token, layer, tensor - layer * shape.parts(), i - tensor * shape.heads()});
    }
  }
}

// Where a token's vector lies, by the request's page ids; elements is null where the table names a page
// that does not exist, or, if it is to be written, the null page.
template <element E>
__device__ stored_vector<E> vector_in_pages(const page_storage_view<E>& storage, const std::int32_t* d_pages,
                                            const vector_index& index, std::uint32_t layer, bool writes) {
  const std::uint32_t tokens_per_page = storage.shape().tokens_per_page();
  const std::uint64_t entry = index.token / tokens_per_page;
  const auto in_page = static_cast<std::uint32_t>(index.token - entry * tokens_per_page);
  const auto page = static_cast<page_id>(d_pages[entry]);
  if (page >= storage.layout().pages() || (writes && page == null_page)) return {};
  return storage.vector(page, layer, index.part, in_page, index.head);
}

}  // namespace detail

template <int Pack, numeric T, element E>
__global__ void append(const append_args<T, E> args) {
  const page_shape& shape = args.storage.shape();
  detail::for_each_vector(shape, args.tokens, 1, [&](const detail::vector_index& index) {
    const slot_index slot = args.d_slots[index.token];
    if (slot == skipped_slot) return;
    const v0::detail::token_place place = v0::detail::place_of(args.storage, slot);
    if (place.code != errc::ok) {
      const bool first_of_token = index.part == 0 && index.head == 0 && detail::lane_index() == 0;
      if (args.d_refused != nullptr && first_of_token) atomicAdd(args.d_refused, 1);
      return;
    }
    detail::store_vector<Pack>(
        shape, args.storage.vector(place.page, args.layer, index.part, place.token, index.head),
        detail::array_values<T>{args.from.vector(shape, index.part, index.token, index.head)});
  });
}

template <int Pack, numeric T, element E>
__global__ void gather(const gather_args<T, E> args) {
  const page_shape& shape = args.storage.shape();
  detail::for_each_vector(shape, args.tokens, 1, [&](const detail::vector_index& index) {
    const v0::detail::split_vector<T> values = args.to.vector(shape, index.part, index.token, index.head);
    const stored_vector<E> from =
        detail::vector_in_pages(args.storage, args.d_pages, index, args.layer, false);
    if (from.elements != nullptr) {
      detail::load_vector<Pack>(shape, from, values);
    } else {
      detail::for_each_pack<Pack>(0, shape.dim(), [&](std::uint32_t i) {
        detail::store_packed<Pack>(values.at(i), detail::packed<T, Pack>{});
      });
    }
  });
}

template <int Pack, element From, element To>
__global__ void convert_pages(const convert_args<From, To> args) {
  const page_shape& source = args.from.shape();
  detail::for_each_vector(source, args.tokens, source.layers(), [&](const detail::vector_index& index) {
    const auto from = detail::vector_in_pages(args.from, args.d_from_pages, index, index.layer, false);
    const auto to = detail::vector_in_pages(args.to, args.d_to_pages, index, index.layer, true);
    if (from.elements == nullptr || to.elements == nullptr) return;
    detail::store_vector<Pack>(args.to.shape(), to, detail::page_values<From>{source, from});
  });
}

}  // namespace kvpage::inline v0::kernels
