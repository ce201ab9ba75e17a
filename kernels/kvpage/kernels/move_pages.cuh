// kvpage: the storage operations that take whole pages: copy and clear.
#pragma once

#include <kvpage/config.hpp>
#include <kvpage/element.hpp>
#include <kvpage/page_copy.hpp>
#include <kvpage/page_storage.hpp>

#include <cstdint>

namespace kvpage::inline v0::kernels {

template <element E, integrity_policy P>
struct copy_args {
  page_storage_view<E> storage;
  const page_copy<page_handle<E, P>>* d_copies;
  std::uint64_t copies;
};

template <element E>
struct clear_args {
  page_storage_view<E> storage;
  const std::int32_t* d_pages;
  std::uint64_t pages;
};

namespace detail {

// A block of threads takes a layer of a page in pieces of this many words, so that a few large pages
// spread over the device as many small ones do.
inline constexpr std::uint32_t words_per_thread = 4;

// Calls visit(page, layer, word) for this thread's share of pages x layers x words_per_block.
template <class Visit>
__device__ void for_each_word(std::uint64_t pages, std::uint32_t layers, std::uint64_t words_per_block,
                              Visit visit) {
  const std::uint64_t words_per_piece = std::uint64_t{words_per_thread} * blockDim.x;
  const std::uint64_t pieces = (words_per_block + words_per_piece - 1) / words_per_piece;
  for (std::uint64_t i = blockIdx.x; i < pages * layers * pieces; i += gridDim.x) {
    const std::uint64_t page = i / (layers * pieces);
    const auto layer = static_cast<std::uint32_t>(i / pieces % layers);
    const std::uint64_t first = i % pieces * words_per_piece + threadIdx.x;
#pragma unroll
    for (std::uint32_t k = 0; k < words_per_thread; ++k) {
      const std::uint64_t word = first + std::uint64_t{k} * blockDim.x;
      if (word < words_per_block) visit(page, layer, word);
    }
  }
}

}  // namespace detail

// Word divides the size and the alignment of every block.
template <class Word, element E, integrity_policy P>
__global__ void copy_pages(const copy_args<E, P> args) {
  const page_shape& shape = args.storage.shape();
  const std::uint64_t words = shape.block_bytes() / sizeof(Word);
  detail::for_each_word(args.copies, shape.layers(), words,
                        [&](std::uint64_t i, std::uint32_t layer, std::uint64_t word) {
                          const page_copy<page_handle<E, P>>& copy = args.d_copies[i];
                          const page_id source = copy.source.id();
                          const page_id destination = copy.destination.id();
                          if (copy.tokens == 0 || args.storage.check(source) != errc::ok ||
                              args.storage.check(destination) != errc::ok)
                            return;
                          reinterpret_cast<Word*>(args.storage.block(destination, layer))[word] =
                              reinterpret_cast<const Word*>(args.storage.block(source, layer))[word];
                        });
}

template <class Word, element E>
__global__ void clear_pages(const clear_args<E> args) {
  const page_shape& shape = args.storage.shape();
  const std::uint64_t words = shape.block_bytes() / sizeof(Word);
  detail::for_each_word(args.pages, shape.layers(), words,
                        [&](std::uint64_t i, std::uint32_t layer, std::uint64_t word) {
                          const auto page = static_cast<page_id>(args.d_pages[i]);
                          if (args.storage.check(page) == errc::ok)
                            reinterpret_cast<Word*>(args.storage.block(page, layer))[word] = Word{};
                        });
}

}  // namespace kvpage::inline v0::kernels
