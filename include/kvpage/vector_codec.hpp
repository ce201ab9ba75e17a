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

namespace kvpage::inline v0::detail {

// Vectors pass through a buffer of this many floats, so that no memory is allocated for them.
inline constexpr std::uint32_t codec_chunk = 256;

// Calls visit(begin, count) for the pieces of [begin, end) that fit the buffer.
template <class Visit>
void for_each_chunk(std::uint32_t begin, std::uint32_t end, Visit visit) {
  for (; begin < end; begin += codec_chunk) visit(begin, (std::min)(codec_chunk, end - begin));
}

// A source of values is anything with load(begin, count, floats) and plain(): the values themselves where
// they lie one after the other and unscaled, otherwise null.

// Values outside the pages.
template <numeric T>
struct array_values {
  using value_type = T;
  const T* values;

  [[nodiscard]] const T* plain() const noexcept { return values; }

  void load(std::uint32_t begin, std::uint32_t count, float* out) const noexcept {
    transform(values + begin, out, count, [](T value) { return convert_value<float>(value); });
  }
};

// Values of a vector in a page.
template <element E>
struct page_values {
  using value_type = E;
  const page_shape& shape;
  stored_vector<E> vector;

  [[nodiscard]] const E* plain() const noexcept {
    return shape.scales() == scale_rule::none ? vector.elements : nullptr;
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
    if (const E* const plain = from.plain(); plain != nullptr && shape.scales() == scale_rule::none) {
      std::copy_n(plain, shape.dim(), to.elements);
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

// Decodes a page's vector into shape.dim() values.
template <numeric T, element E>
void load_vector(const page_shape& shape, const stored_vector<E>& from, T* to) {
  const page_values<E> source{shape, from};
  if constexpr (std::same_as<T, E>) {
    if (source.plain() != nullptr) {
      std::copy_n(source.plain(), shape.dim(), to);
      return;
    }
  }
  for_each_chunk(0, shape.dim(), [&](std::uint32_t begin, std::uint32_t count) {
    float values[codec_chunk];
    source.load(begin, count, values);
    transform(values, to + begin, count, [](float value) { return convert_value<T>(value); });
  });
}

}  // namespace kvpage::inline v0::detail
