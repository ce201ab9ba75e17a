// kvpage: one page to be copied into another, as copy on write asks for it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "config.hpp"
#include "element.hpp"
#include "integrity.hpp"
#include "page_handle.hpp"

namespace kvpage::inline v0 {

// Trivially copyable, the same for the host compiler and for nvcc.
template <class Handle>
struct page_copy {
  Handle source;
  Handle destination;
  std::uint32_t tokens = 0;  // of the page, that the destination's owner has; 0: nothing to copy
};

static_assert(std::is_trivially_copyable_v<page_copy<page_handle<bf16, tagged>>>);

}  // namespace kvpage::inline v0
