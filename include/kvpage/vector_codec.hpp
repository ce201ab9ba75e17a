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

// A source of values has transform_to(begin, end, out, operation), which puts operation(value) of its values
// as floats to `out`; and, for elements that need no decoding, is_plain() and copy(begin, end, out).

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

  template <class To, class Operation>
  void transform_to(std::uint32_t begin, std::uint32_t end, To* out, Operation operation) const noexcept {
    vector.for_each_piece(begin, end, [&](std::uint32_t from, std::uint32_t to) {
      out = transform(vector.at(from), out, to - from,
                      [operation](T value) { return operation(convert_value<float>(value)); });
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

  template <class To, class Operation>
  void transform_to(std::uint32_t begin, std::uint32_t end, To* out, Operation operation) const noexcept {
    const std::uint32_t encoded_end = (std::min)(end, shape.encoded_dim());
    while (begin < encoded_end) {
      const std::uint32_t tile = begin / shape.tile_dim();
      const std::uint32_t tile_end = (std::min)(encoded_end, (tile + 1) * shape.tile_dim());
      const float scale = vector.scale(tile, shape.scale_bytes());
      const E* const elements = vector.elements + begin;
      const std::uint32_t count = tile_end - begin;
      if (scale == 1.0f)  // a product would not keep a NaN's bits on every machine
        out = transform(elements, out, count, [=](E value) { return operation(decode(value)); });
      else
        out = transform(elements, out, count, [=](E value) { return operation(decode(value) * scale); });
      begin = tile_end;
    }
    if (begin < end)
      transform(vector.rope + (begin - shape.encoded_dim()), out, end - begin,
                [=](bf16 value) { return operation(decode(value)); });
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
  constexpr std::uint32_t most = 256;  // at a time, so that no memory is allocated for them
  float values[most];
  std::int32_t largest = 0;
  const std::uint32_t tile_end = (tile + 1) * shape.tile_dim();
  for (std::uint32_t begin = tile * shape.tile_dim(); begin < tile_end; begin += most) {
    const std::uint32_t end = (std::min)(begin + most, tile_end);
    from.transform_to(begin, end, values, [](float value) { return value; });
    largest = (std::max)(largest, largest_magnitude(values, end - begin));
  }
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
    const std::uint32_t begin = tile * shape.tile_dim(), end = begin + shape.tile_dim();
    if (scale == 1.0f)
      from.transform_to(begin, end, to.elements + begin, [](float value) { return encode<E>(value); });
    else
      from.transform_to(begin, end, to.elements + begin,
                        [scale](float value) { return encode<E>(divide(value, scale)); });
  }
  from.transform_to(shape.encoded_dim(), shape.dim(), to.rope,
                    [](float value) { return encode<bf16>(value); });
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
  from.transform_to(begin, end, to, [](float value) { return convert_value<T>(value); });
}

// Decodes a page's vector.
template <numeric T, element E>
void load_vector(const page_shape& shape, const stored_vector<E>& from, const split_vector<T>& to) {
  to.for_each_piece(0, shape.dim(), [&](std::uint32_t begin, std::uint32_t end) {
    load_values(page_values<E>{shape, from}, begin, end, to.at(begin));
  });
}

}  // namespace kvpage::inline v0::detail
