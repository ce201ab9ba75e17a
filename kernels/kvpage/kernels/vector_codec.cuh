// kvpage: one vector into a page and out of it, by a warp.  The same results as kvpage/vector_codec.hpp.
//
// Lanes take `Pack` values at a time, in one load or store; Pack divides every length and alignment.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <kvpage/config.hpp>
#include <kvpage/element.hpp>
#include <kvpage/element_convert.hpp>
#include <kvpage/page_shape.hpp>
#include <kvpage/page_storage.hpp>
#include <kvpage/scale.hpp>
#include <kvpage/token_arrays.hpp>

#include <concepts>
#include <cstdint>

namespace kvpage::inline v0::kernels::detail {

inline constexpr std::uint32_t warp_lanes = 32;
inline constexpr std::uint32_t all_lanes = 0xFFFFFFFF;

__device__ inline std::uint32_t lane_index() { return threadIdx.x % warp_lanes; }

template <class T, int Pack>
struct alignas(sizeof(T) * Pack) packed {
  T values[Pack];
};

template <int Pack, class T>
__device__ packed<T, Pack> load_packed(const T* from) {
  return *reinterpret_cast<const packed<T, Pack>*>(from);
}

template <int Pack, class T>
__device__ void store_packed(T* to, const packed<T, Pack>& values) {
  *reinterpret_cast<packed<T, Pack>*>(to) = values;
}

// As encode<T>, by the device's own instructions where it has them: the functions of CUDA's headers, whose
// bits are those of ours.
template <numeric T, int Pack>
__device__ packed<T, Pack> encode_packed(const packed<float, Pack>& from) {
  packed<T, Pack> to;
  if constexpr (Pack % 2 == 0 && (std::same_as<T, fp8_e4m3> || std::same_as<T, fp8_e5m2>)) {
    constexpr auto format = std::same_as<T, fp8_e4m3> ? __NV_E4M3 : __NV_E5M2;
#pragma unroll
    for (int k = 0; k < Pack; k += 2) {
      const std::uint32_t two =
          __nv_cvt_float2_to_fp8x2({from.values[k], from.values[k + 1]}, __NV_SATFINITE, format);
      to.values[k].bits = static_cast<std::uint8_t>(two);
      to.values[k + 1].bits = static_cast<std::uint8_t>(two >> 8);
    }
  } else {
#pragma unroll
    for (int k = 0; k < Pack; ++k) {
      if constexpr (std::same_as<T, bf16>)
        to.values[k].bits = __bfloat16_as_ushort(__float2bfloat16_rn(from.values[k]));
      else if constexpr (std::same_as<T, fp16>)
        to.values[k].bits = __half_as_ushort(__float2half_rn(from.values[k]));
      else
        to.values[k] = convert_value<T>(from.values[k]);
    }
  }
  return to;
}

// Calls visit(i) for this lane's share of [begin, end): the packs that start at i.
template <int Pack, class Visit>
__device__ void for_each_pack(std::uint32_t begin, std::uint32_t end, Visit visit) {
  for (std::uint32_t i = begin + lane_index() * Pack; i < end; i += warp_lanes * Pack) visit(i);
}

// Values outside the pages.
template <numeric T>
struct array_values {
  using value_type = T;
  v0::detail::split_vector<const T> vector;

  [[nodiscard]] __device__ static bool is_plain() { return true; }
  [[nodiscard]] __device__ const T* at(std::uint32_t i) const { return vector.at(i); }

  template <int Pack>
  [[nodiscard]] __device__ packed<float, Pack> load(std::uint32_t i) const {
    const packed<T, Pack> from = load_packed<Pack>(at(i));
    packed<float, Pack> to;
#pragma unroll
    for (int k = 0; k < Pack; ++k) to.values[k] = convert_value<float>(from.values[k]);
    return to;
  }
};

// Values of a vector in a page.
template <element E>
struct page_values {
  using value_type = E;
  const page_shape& shape;
  stored_vector<E> vector;

  [[nodiscard]] __device__ bool is_plain() const { return shape.scales() == scale_rule::none; }
  [[nodiscard]] __device__ const E* at(std::uint32_t i) const { return vector.elements + i; }

  template <int Pack>
  [[nodiscard]] __device__ packed<float, Pack> load(std::uint32_t i) const {
    packed<float, Pack> to;
    if (i >= shape.encoded_dim()) {
      const packed<bf16, Pack> from = load_packed<Pack>(vector.rope + (i - shape.encoded_dim()));
#pragma unroll
      for (int k = 0; k < Pack; ++k) to.values[k] = decode(from.values[k]);
      return to;
    }
    const packed<E, Pack> from = load_packed<Pack>(vector.elements + i);
    const float scale = vector.scale(i / shape.tile_dim(), shape.scale_bytes());
#pragma unroll
    for (int k = 0; k < Pack; ++k) to.values[k] = decode(from.values[k]);
    if (scale != 1.0f) {  // a product would not keep a NaN's bits
#pragma unroll
      for (int k = 0; k < Pack; ++k) to.values[k] *= scale;
    }
    return to;
  }
};

__device__ inline std::int32_t warp_max(std::int32_t value) {
  for (std::uint32_t distance = warp_lanes / 2; distance != 0; distance /= 2) {
    const std::int32_t other = __shfl_xor_sync(all_lanes, value, distance);
    value = other > value ? other : value;
  }
  return value;
}

// The scale that a tile of values is stored with: its own, which is stored here, or the calibrated one.
template <int Pack, element E, class Source>
__device__ float settle_scale(const page_shape& shape, const stored_vector<E>& to, std::uint32_t tile,
                              const Source& from) {
  if (shape.scale_bytes() == 0) return to.calibrated;
  std::int32_t largest = 0;
  for_each_pack<Pack>(tile * shape.tile_dim(), (tile + 1) * shape.tile_dim(), [&](std::uint32_t i) {
    const packed<float, Pack> values = from.template load<Pack>(i);
#pragma unroll
    for (int k = 0; k < Pack; ++k) {
      const std::int32_t magnitude = v0::detail::magnitude_bits(values.values[k]);
      largest = magnitude > largest ? magnitude : largest;
    }
  });
  largest = warp_max(largest);
  float scale = 0;
  if (lane_index() == 0)
    scale = to.set_scale(tile, shape.scale_bytes(), v0::detail::computed_scale<E>(largest));
  return __shfl_sync(all_lanes, scale, 0);
}

// Copies values that need no conversion, from a source or vector to another.
template <int Pack, class From, class To>
__device__ void copy_values(const From& from, const To& to, std::uint32_t count) {
  for_each_pack<Pack>(0, count,
                      [&](std::uint32_t i) { store_packed<Pack>(to.at(i), load_packed<Pack>(from.at(i))); });
}

// Encodes shape.dim() values into a page.
template <int Pack, element E, class Source>
__device__ void store_vector(const page_shape& shape, const stored_vector<E>& to, const Source& from) {
  if constexpr (std::same_as<typename Source::value_type, E>) {
    if (from.is_plain() && shape.scales() == scale_rule::none) {
      copy_values<Pack>(from, v0::detail::split_vector<E>{to.elements}, shape.dim());
      return;
    }
  }
  for (std::uint32_t tile = 0; tile * shape.tile_dim() < shape.encoded_dim(); ++tile) {
    const float scale = settle_scale<Pack>(shape, to, tile, from);
    for_each_pack<Pack>(tile * shape.tile_dim(), (tile + 1) * shape.tile_dim(), [&](std::uint32_t i) {
      packed<float, Pack> values = from.template load<Pack>(i);
      if (scale != 1.0f) {
#pragma unroll
        for (int k = 0; k < Pack; ++k) values.values[k] = v0::detail::divide(values.values[k], scale);
      }
      store_packed<Pack>(to.elements + i, encode_packed<E>(values));
    });
  }
  for_each_pack<Pack>(shape.encoded_dim(), shape.dim(), [&](std::uint32_t i) {
    store_packed<Pack>(to.rope + (i - shape.encoded_dim()), encode_packed<bf16>(from.template load<Pack>(i)));
  });
}

// Decodes a page's vector.
template <int Pack, numeric T, element E>
__device__ void load_vector(const page_shape& shape, const stored_vector<E>& from,
                            const v0::detail::split_vector<T>& to) {
  const page_values<E> source{shape, from};
  if constexpr (std::same_as<T, E>) {
    if (source.is_plain()) {
      copy_values<Pack>(source, to, shape.dim());
      return;
    }
  }
  for_each_pack<Pack>(0, shape.dim(), [&](std::uint32_t i) {
    store_packed<Pack>(to.at(i), encode_packed<T>(source.template load<Pack>(i)));
  });
}

}  // namespace kvpage::inline v0::kernels::detail
