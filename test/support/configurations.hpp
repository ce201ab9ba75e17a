// Every element type x integrity policy, in both reuse orders, as GoogleTest's type lists.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>

#include "kvpage/element.hpp"
#include "kvpage/integrity.hpp"
#include "kvpage/page_pool.hpp"

namespace kvpage_test {

using tagged8 = kvpage::basic_tagged<std::uint8_t>;
using tagged2 = kvpage::basic_tagged<std::uint8_t, 2>;  // two grants, then a page retires

template <kvpage::element E, kvpage::integrity_policy P, kvpage::reuse_order Reuse>
struct configuration {
  using pool = kvpage::page_pool<E, P>;
  using policy = P;
  static constexpr kvpage::reuse_order reuse = Reuse;

  static std::string name() {
    std::string name{kvpage::element_traits<E>::name};
    if constexpr (!P::is_tagged) {
      name += "_untagged";
    } else {
      name += "_tagged" + std::to_string(std::bit_width(P::last_live_tag));
    }
    return name + (Reuse == kvpage::reuse_order::lifo ? "_lifo" : "_fifo");
  }
};

struct configuration_names {
  template <class Configuration>
  static std::string GetName(int) {
    return Configuration::name();
  }
};

namespace detail {

template <class... Lists>
struct joined;
template <class... A>
struct joined<::testing::Types<A...>> {
  using type = ::testing::Types<A...>;
};
template <class... A, class... B, class... Rest>
struct joined<::testing::Types<A...>, ::testing::Types<B...>, Rest...>
    : joined<::testing::Types<A..., B...>, Rest...> {};

template <class E, kvpage::reuse_order Reuse>
using every_policy =
    ::testing::Types<configuration<E, kvpage::untagged, Reuse>, configuration<E, kvpage::tagged, Reuse>,
                     configuration<E, tagged8, Reuse>, configuration<E, tagged2, Reuse>>;

}  // namespace detail

// The order of reuse does not depend on the element: first in, first out once for each policy will do.  Nor does
// what a sanitizer sees, so that its slow build has KVPAGE_TEST_TWO_ELEMENTS.
#ifdef KVPAGE_TEST_TWO_ELEMENTS
using every_configuration =
    detail::joined<detail::every_policy<kvpage::bf16, kvpage::reuse_order::lifo>,
                   detail::every_policy<kvpage::fp8_e4m3, kvpage::reuse_order::fifo>>::type;
#else
using every_configuration =
    detail::joined<detail::every_policy<kvpage::bf16, kvpage::reuse_order::lifo>,
                   detail::every_policy<kvpage::bf16, kvpage::reuse_order::fifo>,
                   detail::every_policy<kvpage::fp16, kvpage::reuse_order::lifo>,
                   detail::every_policy<kvpage::fp8_e4m3, kvpage::reuse_order::lifo>,
                   detail::every_policy<kvpage::fp8_e5m2, kvpage::reuse_order::lifo>>::type;
#endif

}  // namespace kvpage_test
