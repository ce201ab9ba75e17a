// kvpage: what a kv_cache tells its listener.
#pragma once

#include <cstdint>
#include <span>

#include "config.hpp"
#include "request_slots.hpp"

namespace kvpage::inline v0 {

enum class cache_event_kind : std::uint8_t {
  granted,    // fresh pages went to a request
  published,  // a request's pages can be found by others from now on
  withdrawn,  // a request is about to write to its own published page: nobody finds it any more
  evicted,    // cached pages are gone; `request` names none
  released,   // a request gave up pages: those of a finished one after its last step, others at once
  aborted,    // a request that was aborted gave up its pages
};

// `pages` are the handles concerned, valid during the call.  A request's pages that were no longer its own
// when it ended are not among them.
template <class Handle>
struct cache_event {
  cache_event_kind kind;
  std::uint32_t group;
  request_handle request;
  std::span<const Handle> pages;
};

// The listener that is none: compiles to nothing.
struct ignore_events {
  constexpr void operator()(const auto& /*event*/) const noexcept {}
};

}  // namespace kvpage::inline v0
