// kvpage: where the blocks of a pool's pages lie in one stretch of memory.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "checked_math.hpp"
#include "config.hpp"
#include "error.hpp"
#include "page_shape.hpp"

namespace kvpage::inline v0 {

// Block (page, layer) starts page x page_stride + layer x layer_stride bytes into the memory.  Strides may
// be larger than what they step over; the padding between is never touched.
//
//   layer_major   | layer 0: page 0, page 1, ... | layer 1: page 0, page 1, ... | ...
//                 one tensor a layer, [pages, 2, S, H, D]: FlashInfer, vLLM
//   page_major    | page 0: layer 0, layer 1, ... | page 1: layer 0, layer 1, ... | ...
//                 a page is contiguous over its layers: what transfers want
//
// An engine whose layers are unrelated allocations has one storage, of a one-layer shape, for each.
class page_layout {
 public:
  // The smallest stride.
  static constexpr std::uint64_t dense = 0;

  // Each throws std::invalid_argument for pages out of range, for a stride that lets blocks overlap or
  // that is not a multiple of the shape's alignment, and where the whole does not fit 63 bits.
  static constexpr page_layout layer_major(const page_shape& shape, std::uint64_t pages,
                                           std::uint64_t page_stride = dense) {
    const std::uint64_t page = page_stride == dense ? shape.block_bytes() : page_stride;
    return {shape, pages, page, detail::checked_product("page_layout: a layer", pages, page)};
  }
  static constexpr page_layout page_major(const page_shape& shape, std::uint64_t pages,
                                          std::uint64_t page_stride = dense) {
    return {shape, pages, page_stride == dense ? shape.page_bytes() : page_stride, shape.block_bytes()};
  }

  // Any strides by which no two blocks overlap.
  constexpr page_layout(const page_shape& shape, std::uint64_t pages, std::uint64_t page_stride,
                        std::uint64_t layer_stride)
      : pages_{pages}, page_stride_{page_stride}, layer_stride_{layer_stride} {
    const char* const what = "page_layout: the pages";
    detail::require_between("page_layout: pages (the null page included)", pages, std::uint64_t{1},
                            max_pages_per_pool);
    require_aligned("page_layout: page_stride", page_stride, shape.alignment());
    require_aligned("page_layout: layer_stride", layer_stride, shape.alignment());
    const std::uint64_t to_last_page = detail::checked_product(what, pages - 1, page_stride);
    const std::uint64_t to_last_layer = detail::checked_product(what, shape.layers() - 1, layer_stride);
    bytes_ = detail::checked_sum(what, detail::checked_sum(what, to_last_page, to_last_layer),
                                 shape.block_bytes());
    // The smaller stride steps over a block, the larger one over all that the smaller one reaches.
    if (page_stride > layer_stride) {
      require_room("page_layout: layer_stride", shape.layers(), layer_stride, shape.block_bytes());
      require_room("page_layout: page_stride", pages, page_stride, to_last_layer + shape.block_bytes());
    } else {
      require_room("page_layout: page_stride", pages, page_stride, shape.block_bytes());
      require_room("page_layout: layer_stride", shape.layers(), layer_stride,
                   to_last_page + shape.block_bytes());
    }
  }

  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint64_t pages() const noexcept { return pages_; }
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint64_t page_stride() const noexcept {
    return page_stride_;
  }
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint64_t layer_stride() const noexcept {
    return layer_stride_;
  }
  // From the first block's first byte to the last one's end.
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint64_t bytes() const noexcept { return bytes_; }

  // page < pages(), layer < the shape's layers().
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint64_t block_offset(page_id page,
                                                                        std::uint32_t layer) const noexcept {
    return page * page_stride_ + layer * layer_stride_;
  }

 private:
  // A stride that is never taken may be anything.
  static constexpr void require_room(const char* what, std::uint64_t count, std::uint64_t stride,
                                     std::uint64_t bytes) {
    if (count > 1) detail::require_between(what, stride, bytes, detail::max_bytes);
  }

  static constexpr void require_aligned(const char* what, std::uint64_t stride, std::uint32_t alignment) {
    if (stride % alignment == 0) return;
    throw std::invalid_argument(std::string(what) + " is " + std::to_string(stride) +
                                "; it must be a multiple of " + std::to_string(alignment));
  }

  std::uint64_t pages_;
  std::uint64_t page_stride_;
  std::uint64_t layer_stride_;
  std::uint64_t bytes_ = 0;
};

}  // namespace kvpage::inline v0
