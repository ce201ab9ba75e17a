// Everything that is run against an oracle, as one list of types.
#pragma once

#include <cstdint>

#include "index_subject.hpp"
#include "kv_cache_subject.hpp"
#include "pool_subject.hpp"
#include "table_subject.hpp"

namespace kvpage_model {

using two_grants = kvpage::basic_tagged<std::uint8_t, 2>;  // then a page retires
using four_grants = kvpage::basic_tagged<std::uint8_t, 3>;

template <template <class...> class List>
using subjects =
    List<pool_subject<kvpage::untagged>, pool_subject<kvpage::tagged>, pool_subject<two_grants>,
         table_subject<kvpage::untagged>, table_subject<kvpage::tagged>, table_subject<two_grants>,
         index_subject<kvpage::untagged, kvpage::prefix_hash>,
         index_subject<kvpage::tagged, kvpage::prefix_hash>, index_subject<two_grants, kvpage::prefix_hash>,
         index_subject<kvpage::untagged, always_7>, index_subject<kvpage::tagged, always_7>,
         index_subject<two_grants, always_7>, kv_cache_subject<kvpage::untagged>,
         kv_cache_subject<kvpage::tagged>, kv_cache_subject<four_grants>,
         kv_cache_subject<kvpage::untagged, kvpage::prefix_hash, true>,
         kv_cache_subject<kvpage::tagged, kvpage::prefix_hash, true>>;

}  // namespace kvpage_model
