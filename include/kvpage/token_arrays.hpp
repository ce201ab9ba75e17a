// kvpage: keys and values outside the pages, as a model computes them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "config.hpp"
#include "page_shape.hpp"

namespace kvpage::inline v0 {

namespace detail {

// A vector whose values from `split` on lie elsewhere.
template <class T>
struct split_vector {
  T* values;
  T* rest = nullptr;
  std::uint32_t split = 0xFFFF'FFFF;  // none do

  [[nodiscard]] KVPAGE_HOST_DEVICE T* at(std::uint32_t i) const noexcept {
    return i < split ? values + i : rest + (i - split);
  }

  // Calls visit(begin, end) for the parts of [begin, end) that are contiguous.
  template <class Visit>
  void for_each_piece(std::uint32_t begin, std::uint32_t end, Visit visit) const {
    const std::uint32_t middle = std::clamp(split, begin, end);
    if (begin < middle) visit(begin, middle);
    if (middle < end) visit(middle, end);
  }
};

}  // namespace detail

// Token t's K, heads x dim values, starts at keys + t x stride, and its V at values + t x stride.
//
// MLA has one vector a token.  Either `keys` has all of it, and `values` is null; or its first `latent_dim`
// values start at keys + t x stride, and the others, the rotary part, at values + t x rope_stride.
template <class T>
struct token_arrays {
  T* keys;
  T* values;
  std::uint64_t stride;          // in values; heads x dim where tokens follow each other directly
  std::uint32_t latent_dim = 0;  // of MLA in two arrays; otherwise 0
  std::uint64_t rope_stride = 0;

  // Whether a shape's vectors can lie so.
  [[nodiscard]] constexpr bool fits(const page_shape& shape) const noexcept {
    return latent_dim == 0 || (shape.parts() == 1 && shape.heads() == 1 && latent_dim < shape.dim());
  }

  [[nodiscard]] KVPAGE_HOST_DEVICE detail::split_vector<T> vector(const page_shape& shape, std::uint32_t part,
                                                                  std::uint64_t token,
                                                                  std::uint32_t head) const noexcept {
    if (latent_dim != 0) return {keys + token * stride, values + token * rope_stride, latent_dim};
    return {(part == 0 ? keys : values) + token * stride + std::uint64_t{head} * shape.dim()};
  }
};

}  // namespace kvpage::inline v0
