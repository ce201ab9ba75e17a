// kvpage: the proof of a grant: which page, and which generation of it.
#pragma once

#include <type_traits>

#include "config.hpp"
#include "element.hpp"
#include "integrity.hpp"

namespace kvpage::inline v0 {

// Names one page of a pool of element type E, as it was when it was granted.  A default-constructed
// handle is the null page's: id 0, tag 0.  Trivially copyable; 4 bytes untagged, 8 bytes tagged (id
// first), the same for the host compiler and for nvcc.  Handles of different element types or policies
// do not convert into each other.
template <element E, integrity_policy P>
class page_handle;

template <element E>
class page_handle<E, untagged> {
 public:
  using element_type = E;
  using policy = untagged;

  page_handle() = default;
  KVPAGE_HOST_DEVICE constexpr explicit page_handle(page_id id) noexcept : id_{id} {}

  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr page_id id() const noexcept { return id_; }
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr bool is_null() const noexcept { return id_ == null_page; }

  friend bool operator==(const page_handle&, const page_handle&) = default;

 private:
  page_id id_ = null_page;
};

template <element E, tagged_policy P>
class alignas(8) page_handle<E, P> {
 public:
  using element_type = E;
  using policy = P;

  page_handle() = default;
  KVPAGE_HOST_DEVICE constexpr page_handle(page_id id, page_tag tag) noexcept : id_{id}, tag_{tag} {}

  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr page_id id() const noexcept { return id_; }
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr page_tag tag() const noexcept { return tag_; }
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr bool is_null() const noexcept { return id_ == null_page; }

  friend bool operator==(const page_handle&, const page_handle&) = default;

 private:
  page_id id_ = null_page;
  page_tag tag_ = 0;
};

static_assert(sizeof(page_handle<bf16, untagged>) == 4);
static_assert(sizeof(page_handle<bf16, tagged>) == 8);
static_assert(std::is_trivially_copyable_v<page_handle<fp8_e4m3, untagged>>);
static_assert(std::is_trivially_copyable_v<page_handle<fp8_e4m3, tagged>>);

}  // namespace kvpage::inline v0
