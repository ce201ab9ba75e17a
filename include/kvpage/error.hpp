// kvpage: what can go wrong in a running engine, as values.
//
// Every function that returns an `errc` or a `result` leaves its object unchanged unless it returns
// `errc::ok`.  Impossible options throw from constructors instead; calls that no correct program makes
// (a programming error) are GSL contracts.
#pragma once

#include <gsl/assert>

#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "config.hpp"

namespace kvpage::inline v0 {

// Ignoring one is a compiler warning.
enum class [[nodiscard]] errc : std::uint8_t;

enum class errc : std::uint8_t {
  ok = 0,
  exhausted,           // not enough free pages (or slots) now; may succeed after others have released theirs
  never_fits,          // more than there can ever be room for: retrying is pointless
  stale_handle,        // the page has changed hands since this handle was granted
  double_release,      // this grant has been given up already, or more often than it was taken
  null_handle,         // the null page cannot be owned
  outside_pool,        // a page id at or above the pool's size
  reference_overflow,  // more references to one page than its counter holds
  outside_row,         // a token position or count that the row does not have
  shared_page,         // the row's last page is in use elsewhere: writing to it takes a copy first
  stale_request,       // the request has ended; its slot may be another's by now
  stale_epoch,         // computed before the epoch advanced (other weights): not publishable any more
  batch_full,          // more rows, entries or slots than the batch has room for
  row_too_long,        // a row has more pages than the exported table is wide
  row_in_batch,        // the row has been added to the batch, and stays as it is until that is staged
  not_ready,         // has to wait for a step to write or read what this depends on; may succeed a step later
  buffer_too_small,  // the caller's buffer holds fewer elements than the call writes
};

[[nodiscard]] constexpr std::string_view to_string(errc code) noexcept {
  switch (code) {
    case errc::ok: return "ok";
    case errc::exhausted: return "exhausted: too few free pages or slots at the moment";
    case errc::never_fits: return "never fits: more than there can ever be room for";
    case errc::stale_handle: return "stale handle: the page has changed hands";
    case errc::double_release: return "double release: this grant was already given up";
    case errc::null_handle: return "null handle: page 0 cannot be owned";
    case errc::outside_pool: return "outside pool: no such page id";
    case errc::reference_overflow: return "reference overflow: too many references to one page";
    case errc::outside_row: return "outside row: no such token position";
    case errc::shared_page: return "shared page: the row's last page must be copied before it is written";
    case errc::stale_request: return "stale request: it has ended";
    case errc::stale_epoch: return "stale epoch: computed before the epoch advanced";
    case errc::batch_full: return "batch full: more rows, entries or slots than planned";
    case errc::row_too_long: return "row too long: more pages than the table is wide";
    case errc::row_in_batch: return "row in batch: it must not change before the step is staged";
    case errc::not_ready: return "not ready: a step has yet to write or read what this depends on";
    case errc::buffer_too_small: return "buffer too small";
  }
  return "unknown error";
}

// A value, or the reason why there is none.  Reading the value of a failed result is a contract
// violation.
template <class T>
class [[nodiscard]] result {
 public:
  constexpr result(T value) : value_{std::move(value)} {}
  constexpr result(errc code) : code_{code} { Expects(code != errc::ok); }

  [[nodiscard]] constexpr explicit operator bool() const noexcept { return code_ == errc::ok; }
  [[nodiscard]] constexpr errc error() const noexcept { return code_; }
  [[nodiscard]] constexpr const T& value() const {
    Expects(code_ == errc::ok);
    return value_;
  }
  [[nodiscard]] constexpr const T& operator*() const { return value(); }
  [[nodiscard]] constexpr const T* operator->() const { return &value(); }

 private:
  T value_{};
  errc code_ = errc::ok;
};

namespace detail {

// Refuses a constructor's option, naming the value and its bounds (inclusive).
template <std::integral Value>
constexpr void require_between(const char* what, Value value, std::type_identity_t<Value> low,
                               std::type_identity_t<Value> high) {
  if (value >= low && value <= high) return;
  throw std::invalid_argument(std::string(what) + " is " + std::to_string(value) + "; it must be between " +
                              std::to_string(low) + " and " + std::to_string(high));
}

}  // namespace detail
}  // namespace kvpage::inline v0

// Returns early with the error, if `expression` (an errc) is one.
#define KVPAGE_TRY(expression)                                                              \
  do {                                                                                      \
    if (const ::kvpage::errc kvpage_code = (expression); kvpage_code != ::kvpage::errc::ok) \
      return kvpage_code;                                                                   \
  } while (false)
