// kvpage: how many of a request's tokens lie in its pages, as far as launched steps have seen to it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "config.hpp"

namespace kvpage::inline v0::detail {

// A step writes all the tokens that its requests have when it is launched; those they get later are up to
// the next one.  `newest` is the newest step launched at the time of the call, `tokens` how many the
// request has then.
class written_tokens {
 public:
  written_tokens() = default;
  written_tokens(std::size_t cached, step_number newest) noexcept : written_{cached}, newest_{newest} {}

  void before_growth(std::size_t tokens, step_number newest) noexcept {
    if (newest_ != newest) *this = {tokens, newest};
  }
  void after_truncation(std::size_t tokens) noexcept { written_ = (std::min)(written_, tokens); }

  [[nodiscard]] bool are_all(std::size_t tokens, step_number newest) const noexcept {
    return newest_ != newest || written_ == tokens;
  }

 private:
  std::size_t written_ = 0;  // when ...
  step_number newest_ = 0;   // ... this was the newest step
};

}  // namespace kvpage::inline v0::detail
