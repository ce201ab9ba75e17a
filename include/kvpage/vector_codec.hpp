// kvpage: one vector into a page and out of it, on the host: encoding, scales, bf16 rotary parts.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>

#include "config.hpp"
#include "element.hpp"
#include "element_convert.hpp"
#include "page_shape.hpp"
#include "page_storage.hpp"
#include "scale.hpp"
#include "token_arrays.hpp"

namespace kvpage::inline v0::detail {

// Vectors pass through a buffer of this many floats, so that no memory is allocated for them.
inline constexpr std::uint32_t codec_chunk = 256;

// Calls visit(begin, count) for the pieces of [begin, end) that fit the buffer.
template <class Visit>
void for_each_chunk(std::uint32_t begin, std::uint32_t end, Visit visit) {
  for (; begin < end; begin += codec_chunk) visit(begin, (std::min)(codec_chunk, end - begin));
}

// A source of values is anything with load(begin, count, floats); and, for elements that need no decoding,
// is_plain() and copy(begin, end, elements).

// Values outside the pages.
template <numeric T>
struct array_values {
  using value_type = T;
  split_vector<const T> vector;

  [[nodiscard]] static bool is_plain() noexcept { return true; }

  void copy(std::uint32_t begin, std::uint32_t end, T* out) const noexcept {
    vector.for_each_piece(begin, end, [&](std::uint32_t from, std::uint32_t to) {
      out = std::copy_n(vector.at(from), to - from, out);
    });
  }

  void load(std::uint32_t begin, std::uint32_t count, float* out) const noexcept {
    vector.for_each_piece(begin, begin + count, [&](std::uint32_t from, std::uint32_t to) {
      out = transform(vector.at(from), out, to - from, [](T value) { return convert_value<float>(value); });
    });
  }
};

// Values of a vector in a page.
template <element E>
struct page_values {
  using value_type = E;
  const page_shape& shape;
  stored_vector<E> vector;

  [[nodiscard]] bool is_plain() const noexcept { return shape.scales() == scale_rule::none; }

  void copy(std::uint32_t begin, std::uint32_t end, E* out) const noexcept {
    std::copy_n(vector.elements + begin, end - begin, out);
  }

  void load(std::uint32_t begin, std::uint32_t count, float* out) const noexcept {
    const std::uint32_t end = begin + count;
    while (begin < (std::min)(end, shape.encoded_dim())) {
      const std::uint32_t tile = begin / shape.tile_dim();
      const std::uint32_t tile_end = (std::min)(end, (tile + 1) * shape.tile_dim());
      const float scale = vector.scale(tile, shape.scale_bytes());
      const E* const elements = vector.elements + begin;
      const std::uint32_t length = tile_end - begin;
      out = scale == 1.0f  // a product would not keep a NaN's bits on every machine
                ? transform(elements, out, length, [](E value) { return decode(value); })
                : transform(elements, out, length, [scale](E value) { return decode(value) * scale; });
      begin = tile_end;
    }
    if (begin < end)
      transform(vector.rope + (begin - shape.encoded_dim()), out, end - begin,
                [](bf16 value) { return decode(value); });
  }
};

[[nodiscard]] inline std::int32_t largest_magnitude(const float* values, std::uint32_t count) noexcept {
  constexpr std::uint32_t lanes = 16;  // a maximum for each, so that none waits for the one before it
  std::int32_t largest[lanes] = {};
  const auto raise = [&largest](std::uint32_t lane, float value) {
    const std::int32_t magnitude = magnitude_bits(value);
    largest[lane] = magnitude > largest[lane] ? magnitude : largest[lane];
  };
  run_vectorised([=] {
    const std::uint32_t in_blocks = count - count % lanes;
    for (std::uint32_t done = 0; done < in_blocks; done += lanes)
      for (std::uint32_t lane = 0; lane < lanes; ++lane) raise(lane, values[done + lane]);
    for (std::uint32_t i = in_blocks; i < count; ++i) raise(0, values[i]);
  });
  return *std::max_element(largest, largest + lanes);
}

// The scale that a tile of values is stored with: its own, which is stored here, or the calibrated one.
template <element E, class Source>
float settle_scale(const page_shape& shape, const stored_vector<E>& to, std::uint32_t tile,
                   const Source& from) {
  if (shape.scale_bytes() == 0) return to.calibrated;
  std::int32_t largest = 0;
  for_each_chunk(tile * shape.tile_dim(), (tile + 1) * shape.tile_dim(),
                 [&](std::uint32_t begin, std::uint32_t count) {
                   float values[codec_chunk];
                   from.load(begin, count, values);
                   largest = (std::max)(largest, largest_magnitude(values, count));
                 });
  return to.set_scale(tile, shape.scale_bytes(), computed_scale<E>(largest));
}

// Encodes shape.dim() values into a page.
template <element E, class Source>
void store_vector(const page_shape& shape, const stored_vector<E>& to, const Source& from) {
  if constexpr (std::same_as<typename Source::value_type, E>) {
    if (from.is_plain() && shape.scales() == scale_rule::none) {
      from.copy(0, shape.dim(), to.elements);
      return;
    }
  }
  for (std::uint32_t tile = 0; tile * shape.tile_dim() < shape.encoded_dim(); ++tile) {
    const float scale = settle_scale(shape, to, tile, from);
    for_each_chunk(tile * shape.tile_dim(), (tile + 1) * shape.tile_dim(),
                   [&](std::uint32_t begin, std::uint32_t count) {
                     float values[codec_chunk];
                     from.load(begin, count, values);
                     if (scale == 1.0f)
                       transform(values, to.elements + begin, count,
                                 [](float value) { return encode<E>(value); });
                     else
                       transform(values, to.elements + begin, count,
                                 [scale](float value) { return encode<E>(divide(value, scale)); });
                   });
  }
  for_each_chunk(shape.encoded_dim(), shape.dim(), [&](std::uint32_t begin, std::uint32_t count) {
    float values[codec_chunk];
    from.load(begin, count, values);
    transform(values, to.rope + (begin - shape.encoded_dim()), count,
              [](float value) { return encode<bf16>(value); });
  });
}

// Decodes values [begin, end) of a page's vector.
template <numeric T, element E>
void load_values(const page_values<E>& from, std::uint32_t begin, std::uint32_t end, T* to) {
  if constexpr (std::same_as<T, E>) {
    if (from.is_plain()) {
      from.copy(begin, end, to);
      return;
    }
  }
  for_each_chunk(begin, end, [&](std::uint32_t first, std::uint32_t count) {
    float values[codec_chunk];
    from.load(first, count, values);
    to = transform(values, to, count, [](float value) { return convert_value<T>(value); });
  });
}

// Decodes a page's vector.
template <numeric T, element E>
void load_vector(const page_shape& shape, const stored_vector<E>& from, const split_vector<T>& to) {
  to.for_each_piece(0, shape.dim(), [&](std::uint32_t begin, std::uint32_t end) {
    load_values(page_values<E>{shape, from}, begin, end, to.at(begin));
  });
}

}  // namespace kvpage::inline v0::detail
