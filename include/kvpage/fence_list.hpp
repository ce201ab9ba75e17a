// kvpage: pages that are given up but must not be reused before a step has retired.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "config.hpp"

namespace kvpage::inline v0::detail {

// Pages linked through their records, first to last.
struct page_chain {
  page_id first = null_page;
  page_id last = null_page;
  std::size_t count = 0;
};

// One chain of pages per step, in ascending order of steps.
//
// Engines have a handful of steps in flight.  Should more than `max_fences` be pending, pages join the
// next later fence: they wait longer than asked, never shorter.
class fence_list {
 public:
  static constexpr std::size_t max_fences = 32;

  // The newest step known to have finished.
  [[nodiscard]] step_number retired() const noexcept { return retired_; }

  // The chain of the pages that wait for `step`, which must be above retired().
  [[nodiscard]] page_chain& at(step_number step) noexcept {
    fence* const end = fences_.data() + count_;
    fence* place =
        std::lower_bound(fences_.data(), end, step, [](const fence& f, step_number s) { return f.step < s; });
    if (place != end && place->step == step) return place->pages;
    if (count_ == max_fences) {
      if (place == end) (--place)->step = step;
      return place->pages;
    }
    std::copy_backward(place, end, end + 1);
    ++count_;
    *place = fence{step, {}};
    return place->pages;
  }

  // Marks every step up to `step` as finished and calls settle(chain) for the chains that waited for one.
  template <class Settle>
  void retire(step_number step, Settle&& settle) noexcept {
    if (step <= retired_) return;
    retired_ = step;
    std::size_t done = 0;
    while (done < count_ && fences_[done].step <= step) settle(fences_[done++].pages);
    std::copy(fences_.data() + done, fences_.data() + count_, fences_.data());
    count_ -= done;
  }

  // Calls visit(chain) for every pending chain.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t i = 0; i < count_; ++i) visit(fences_[i].pages);
  }

 private:
  struct fence {
    step_number step = 0;
    page_chain pages;
  };

  std::array<fence, max_fences> fences_;
  std::size_t count_ = 0;
  step_number retired_ = 0;
};

}  // namespace kvpage::inline v0::detail
