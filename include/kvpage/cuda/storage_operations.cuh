// kvpage: what happens to the bytes in pages, on the device: storage_operations.hpp's operations as
// kernels, with the same results bit for bit.
//
// Storage views and arrays are in device memory.  Pages are named by the ids of exported tables, which the
// verifier has passed or cut off earlier in the stream.  A page or slot that the storage does not have, and
// a write to the null page, is passed over: where the host returns an error and writes nothing, the device
// does the rest of the work.
//
// Each is one launch on `stream` (none if there is nothing to do), allocates nothing, waits for nothing,
// can be captured, and returns the launch's error.  A layer that the storage does not have, and arrays or shapes that
// do not fit, are contract violations.  O(bytes moved) on the device, O(1) on the host.
#pragma once

#include <cuda_runtime.h>
#include <gsl/assert>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <kvpage/kernels/move_pages.cuh>
#include <kvpage/kernels/move_tokens.cuh>

#include "../config.hpp"
#include "../page_copy.hpp"
#include "../page_storage.hpp"
#include "../storage_operations.hpp"
#include "../token_arrays.hpp"
#include "device_batch.cuh"

namespace kvpage::inline v0::cuda {

namespace detail {

inline constexpr std::uint64_t most_storage_blocks = 1u << 16;  // kernels loop over what is left

// Launches `blocks` blocks; nothing for none.
template <class Args>
[[nodiscard]] cudaError_t launch_storage(std::uint64_t blocks, dim3 threads, void (*kernel)(Args),
                                         cudaStream_t stream, const std::type_identity_t<Args>& args) {
  if (blocks == 0) return cudaSuccess;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>((std::min)(blocks, most_storage_blocks)));
  config.blockDim = threads;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, args);
}

// For kernels that take a warp a vector: as many of a token's vectors to a block as it has warps for, and
// as many tokens as then fit.
template <class Args>
[[nodiscard]] cudaError_t launch_for_tokens(std::uint64_t tokens, const page_shape& shape,
                                            std::uint32_t layers, void (*kernel)(Args), cudaStream_t stream,
                                            const std::type_identity_t<Args>& args) {
  constexpr std::uint32_t lanes = kernels::detail::warp_lanes;
  const std::uint32_t warps = (std::min)(shape.vectors(layers), block_threads / lanes);
  const std::uint32_t tokens_per_block = block_threads / lanes / warps;
  return launch_storage((tokens + tokens_per_block - 1) / tokens_per_block,
                        dim3(warps * lanes, tokens_per_block), kernel, stream, args);
}

[[nodiscard]] inline bool divides(std::uint64_t divisor, std::uint64_t number) {
  return number % divisor == 0;
}

// Whether lanes can take four values at a time.  Tiles make up a vector's elements; its other values are 64.
template <element E>
[[nodiscard]] bool packs(const page_storage_view<E>& storage) {
  const page_shape& shape = storage.shape();
  return divides(4, shape.tile_dim()) && divides(16, storage.layout().page_stride()) &&
         divides(16, storage.layout().layer_stride());
}
template <class T>
[[nodiscard]] bool packs(const token_arrays<T>& arrays) {
  const auto aligned = [](const T* array) {
    return divides(4 * sizeof(T), reinterpret_cast<std::uintptr_t>(array));
  };
  return divides(4, arrays.stride) && divides(4, arrays.latent_dim) && divides(4, arrays.rope_stride) &&
         aligned(arrays.keys) && aligned(arrays.values);
}

// Whether whole blocks can be moved in words of `bytes`.
template <element E>
[[nodiscard]] bool moves_in_words_of(std::uint64_t bytes, const page_storage_view<E>& storage) {
  return divides(bytes, storage.shape().block_bytes()) && divides(bytes, storage.layout().page_stride()) &&
         divides(bytes, storage.layout().layer_stride());
}

// Blocks for moving `pages` pages in such words.
template <element E>
[[nodiscard]] std::uint64_t word_blocks(std::uint64_t pages, std::uint64_t bytes,
                                        const page_storage_view<E>& storage) {
  const std::uint64_t per_piece = std::uint64_t{kernels::detail::words_per_thread} * block_threads * bytes;
  return pages * storage.shape().layers() * ((storage.shape().block_bytes() + per_piece - 1) / per_piece);
}

}  // namespace detail

// Writes a step's new tokens of one layer: token t goes to d_slots[t], t < tokens.  d_refused, if given, is increased
// by the number of tokens whose slot was neither in the storage nor skipped.
template <numeric T, element E>
[[nodiscard]] cudaError_t enqueue_append(const page_storage_view<E>& storage, std::uint32_t layer,
                                         const slot_index* d_slots, std::uint64_t tokens,
                                         const token_arrays<const T>& d_from, std::uint32_t* d_refused,
                                         cudaStream_t stream) {
  Expects(layer < storage.shape().layers() && d_from.fits(storage.shape()));
  const bool packs = detail::packs(storage) && detail::packs(d_from);
  return detail::launch_for_tokens(tokens, storage.shape(), 1,
                                   packs ? kernels::append<4, T, E> : kernels::append<1, T, E>, stream,
                                   {storage, layer, d_slots, tokens, d_from, d_refused});
}

// Decodes a request's tokens of one layer into arrays of their own.  d_pages are the request's page ids, one for
// each tokens_per_page of its tokens, rounded up; tokens of pages that the storage does not have become zeros.
template <numeric T, element E>
[[nodiscard]] cudaError_t enqueue_gather(const page_storage_view<E>& storage, std::uint32_t layer,
                                         const std::int32_t* d_pages, std::uint64_t tokens,
                                         const token_arrays<T>& d_to, cudaStream_t stream) {
  Expects(layer < storage.shape().layers() && d_to.fits(storage.shape()));
  const bool packs = detail::packs(storage) && detail::packs(d_to);
  return detail::launch_for_tokens(tokens, storage.shape(), 1,
                                   packs ? kernels::gather<4, T, E> : kernels::gather<1, T, E>, stream,
                                   {storage, layer, d_pages, tokens, d_to});
}

// Copies whole pages, all layers, stored scales included, within one storage: d_copies[copies], without those of no
// tokens.  Destinations are distinct and none of them is a source.
template <element E, integrity_policy P>
[[nodiscard]] cudaError_t enqueue_copy_pages(const page_storage_view<E>& storage,
                                             const page_copy<page_handle<E, P>>* d_copies,
                                             std::uint64_t copies, cudaStream_t stream) {
  const bool wide = detail::moves_in_words_of(sizeof(uint4), storage);
  return detail::launch_storage(detail::word_blocks(copies, wide ? sizeof(uint4) : sizeof(E), storage),
                                dim3(block_threads),
                                wide ? kernels::copy_pages<uint4, E, P> : kernels::copy_pages<E, E, P>,
                                stream, {storage, d_copies, copies});
}

// Moves a request's tokens, all layers, into the pages of another storage; the two shapes have the same
// vectors.  Page ids as in enqueue_gather, by either storage's tokens_per_page.
template <element From, element To>
[[nodiscard]] cudaError_t enqueue_convert_pages(const page_storage_view<From>& from,
                                                const std::int32_t* d_from_pages,
                                                const page_storage_view<To>& to,
                                                const std::int32_t* d_to_pages, std::uint64_t tokens,
                                                cudaStream_t stream) {
  Expects(v0::detail::same_vectors(from.shape(), to.shape()));
  const bool packs = detail::packs(from) && detail::packs(to);
  return detail::launch_for_tokens(
      tokens, from.shape(), from.shape().layers(),
      packs ? kernels::convert_pages<4, From, To> : kernels::convert_pages<1, From, To>, stream,
      {from, to, d_from_pages, d_to_pages, tokens});
}

// Fills the pages d_pages[pages] with zeros, all layers.
template <element E>
[[nodiscard]] cudaError_t enqueue_clear_pages(const page_storage_view<E>& storage,
                                              const std::int32_t* d_pages, std::uint64_t pages,
                                              cudaStream_t stream) {
  const bool wide = detail::moves_in_words_of(sizeof(uint4), storage);
  return detail::launch_storage(
      detail::word_blocks(pages, wide ? sizeof(uint4) : sizeof(E), storage), dim3(block_threads),
      wide ? kernels::clear_pages<uint4, E> : kernels::clear_pages<E, E>, stream, {storage, d_pages, pages});
}

}  // namespace kvpage::inline v0::cuda
