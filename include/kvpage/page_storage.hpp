// kvpage: the bytes behind the pages.
//
// A `page_storage_view` lays a shape and a layout over memory that the engine has, on the host or on the
// device; it is what operations and kernels receive.  `page_storage` owns host memory.
#pragma once

#include <gsl/assert>

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "config.hpp"
#include "element.hpp"
#include "error.hpp"
#include "page_handle.hpp"
#include "page_layout.hpp"
#include "page_pool.hpp"
#include "page_shape.hpp"
#include "scale.hpp"

namespace kvpage::inline v0 {

// One vector in a page: where its values, its scales and its bf16 values lie.
template <element E>
struct stored_vector {
  E* elements;
  bf16* rope;         // the values that are not elements; unused where dim() == encoded_dim()
  std::byte* scales;  // tiles() of them; unused where none are stored
  float calibrated;   // what every element is multiplied by, where no scale is stored

  // The vector's value number i, decoded; i < shape.dim().
  [[nodiscard]] KVPAGE_HOST_DEVICE float value(const page_shape& shape, std::uint32_t i) const noexcept {
    if (i >= shape.encoded_dim()) return decode(rope[i - shape.encoded_dim()]);
    return decode(elements[i]) * scale(i / shape.tile_dim(), shape.scale_bytes());
  }

  [[nodiscard]] KVPAGE_HOST_DEVICE float scale(std::uint32_t tile, std::uint32_t scale_bytes) const noexcept {
    if (scale_bytes == 0) return calibrated;
    if (scale_bytes == 1) return decode(reinterpret_cast<const ue8m0*>(scales)[tile]);
    return reinterpret_cast<const float*>(scales)[tile];
  }

  // Stores the smallest scale of its format that is not below `wanted`, and returns it.
  KVPAGE_HOST_DEVICE float set_scale(std::uint32_t tile, std::uint32_t scale_bytes,
                                     float wanted) const noexcept {
    if (scale_bytes == 1) {
      const ue8m0 scale = encode_upwards(wanted);
      reinterpret_cast<ue8m0*>(scales)[tile] = scale;
      return decode(scale);
    }
    reinterpret_cast<float*>(scales)[tile] = wanted;
    return wanted;
  }
};

// Does not own its memory; trivially copyable, so that kernels take it by value.  Page 0 is the null page:
// the engine fills it with zeros once, and no operation writes it.
template <element E>
class page_storage_view {
 public:
  using element_type = E;

  // `memory` starts at block (0, 0) and is aligned to 16 bytes.  `calibrated` are the scales that
  // shape.calibrated_scales() counts, finite and positive, at shape.calibrated_index().  Both may be device
  // memory; nothing is read here.
  // Throws std::invalid_argument if E's size is not the shape's, if the shape is a published format and E
  // not e4m3, if blocks of the shape overlap in the layout, and if the memory is misaligned or too small for
  // them, or `calibrated` not of that size.
  page_storage_view(std::span<std::byte> memory, const page_shape& shape, const page_layout& layout,
                    std::span<const float> calibrated = {})
      : memory_{memory.data()},
        calibrated_{calibrated.data()},
        shape_{shape},
        layout_{shape, layout.pages(), layout.page_stride(), layout.layer_stride()} {
    detail::require_between("page_storage: the shape's element_bytes", shape.element_bytes(),
                            std::uint32_t{sizeof(E)}, std::uint32_t{sizeof(E)});
    if (shape.dim() != shape.encoded_dim() && !std::is_same_v<E, fp8_e4m3>)
      throw std::invalid_argument("page_storage: published MLA formats hold fp8_e4m3, not " +
                                  std::string(element_traits<E>::name));
    detail::require_between("page_storage: bytes of memory", std::uint64_t{memory.size()}, layout_.bytes(),
                            detail::max_bytes);
    detail::require_between("page_storage: memory's distance from a 16-byte boundary",
                            reinterpret_cast<std::uintptr_t>(memory.data()) % 16, std::uintptr_t{0},
                            std::uintptr_t{0});
    detail::require_between("page_storage: calibrated scales", std::uint64_t{calibrated.size()},
                            shape.calibrated_scales(), shape.calibrated_scales());
  }

  [[nodiscard]] KVPAGE_HOST_DEVICE const page_shape& shape() const noexcept { return shape_; }
  [[nodiscard]] KVPAGE_HOST_DEVICE const page_layout& layout() const noexcept { return layout_; }

  // ok, null_handle, or outside_pool: may operations write this page at all?
  [[nodiscard]] KVPAGE_HOST_DEVICE errc check(page_id page) const noexcept {
    if (page == null_page) return errc::null_handle;
    return page < layout_.pages() ? errc::ok : errc::outside_pool;
  }

  // One layer of a page, shape().block_bytes() bytes.  page < layout().pages(), layer < shape().layers().
  [[nodiscard]] KVPAGE_HOST_DEVICE std::byte* block(page_id page, std::uint32_t layer) const noexcept {
    return memory_ + layout_.block_offset(page, layer);
  }

  // The same by handle.  Errors as page_pool::check: under `tagged`, a handle whose page has changed hands
  // gets no address.  outside_pool: a page or layer that the storage does not have.  O(1).
  template <integrity_policy P>
  [[nodiscard]] result<std::span<std::byte>> block(const page_pool<E, P>& pool, page_handle<E, P> page,
                                                   std::uint32_t layer) const noexcept {
    KVPAGE_TRY(pool.check(page));
    KVPAGE_TRY(check(page.id()));
    if (layer >= shape_.layers()) return errc::outside_pool;
    return std::span{block(page.id(), layer), static_cast<std::size_t>(shape_.block_bytes())};
  }

  // part < parts(), token < tokens_per_page(), head < heads(); page and layer as above.
  [[nodiscard]] KVPAGE_HOST_DEVICE stored_vector<E> vector(page_id page, std::uint32_t layer,
                                                           std::uint32_t part, std::uint32_t token,
                                                           std::uint32_t head) const noexcept {
    std::byte* const start = block(page, layer);
    return {.elements = reinterpret_cast<E*>(start + shape_.vector_offset(part, token, head)),
            .rope = reinterpret_cast<bf16*>(start + shape_.rope_offset(part, token, head)),
            .scales = start + shape_.scale_offset(part, token, head),
            .calibrated =
                calibrated_ == nullptr ? 1.0f : calibrated_[shape_.calibrated_index(layer, part, head)]};
  }

 private:
  std::byte* memory_;
  const float* calibrated_;
  page_shape shape_;
  page_layout layout_;
};

static_assert(std::is_trivially_copyable_v<page_storage_view<bf16>>);

// Host pages, zero-filled, in memory from a std::pmr resource; move-only.
template <element E>
class page_storage {
 public:
  using element_type = E;

  // Throws as page_storage_view does, and std::bad_alloc.
  page_storage(const page_shape& shape, const page_layout& layout, std::span<const float> calibrated = {},
               std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : lines_((static_cast<std::size_t>(layout.bytes()) + sizeof(line) - 1) / sizeof(line), memory),
        calibrated_(calibrated.begin(), calibrated.end(), memory),
        view_{std::as_writable_bytes(std::span{lines_}), shape, layout, calibrated_} {}

  page_storage(page_storage&&) noexcept = default;  // the memory stays where it is
  page_storage(const page_storage&) = delete;
  page_storage& operator=(page_storage&&) = delete;
  page_storage& operator=(const page_storage&) = delete;
  ~page_storage() = default;

  [[nodiscard]] const page_storage_view<E>& view() const noexcept { return view_; }

 private:
  struct alignas(64) line {
    std::byte bytes[64];
  };

  std::pmr::vector<line> lines_;
  std::pmr::vector<float> calibrated_;
  page_storage_view<E> view_;
};

}  // namespace kvpage::inline v0
