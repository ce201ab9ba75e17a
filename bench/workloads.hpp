// The four ways of using a page allocator that the benchmarks compare.  A workload is built on an
// allocator, takes what it holds throughout, and repeats step(), which returns how many pages it granted or
// retained.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <kvpage/error.hpp>
#include <random>
#include <span>
#include <vector>

namespace bench {

inline void require_ok(kvpage::errc code) {
  if (code != kvpage::errc::ok) [[unlikely]]
    std::abort();
}

// Grants half of the allocator's `capacity` pages and releases them in shuffled order, as after a long run.
template <class Allocator>
void shuffle_free_pages(Allocator& allocator, std::size_t capacity) {
  std::vector<typename Allocator::handle> pages(capacity / 2);
  require_ok(allocator.allocate(pages));
  std::shuffle(pages.begin(), pages.end(), std::mt19937_64{1});
  require_ok(allocator.release(pages));
}

// One page granted, the oldest released: a quarter of the allocator's pages is held throughout.
template <class Allocator>
class single {
 public:
  single(Allocator& allocator, std::size_t capacity) : allocator_{allocator}, live_(capacity / 4) {
    require_ok(allocator_.allocate(live_));
  }

  std::size_t step() {
    constexpr std::size_t pages = 1024;
    for (std::size_t i = 0; i < pages; ++i) {
      handle page;
      require_ok(allocator_.allocate({&page, 1}));
      benchmark::
          ClobberMemory();  // an engine's calls stand alone: no registers are kept from one to the next
      require_ok(allocator_.release({&live_[oldest_], 1}));
      benchmark::ClobberMemory();
      live_[oldest_] = page;
      if (++oldest_ == live_.size()) oldest_ = 0;
    }
    return pages;
  }

 private:
  using handle = typename Allocator::handle;

  Allocator& allocator_;
  std::vector<handle> live_;
  std::size_t oldest_ = 0;
};

// 144 pages granted and released again.
template <class Allocator>
class batch {
 public:
  batch(Allocator& allocator, std::size_t) : allocator_{allocator}, pages_(144) {}

  std::size_t step() {
    require_ok(allocator_.allocate(pages_));
    require_ok(allocator_.release(pages_));
    return pages_.size();
  }

 private:
  Allocator& allocator_;
  std::vector<typename Allocator::handle> pages_;
};

// 64 requests that start with 128 pages, grow a page every 64 decode steps, and leave with 144; their starts
// are spread evenly.  A step() is 64 decode steps: every request grows by a page, and 1 in 16 is replaced.
template <class Allocator>
class churn {
 public:
  churn(Allocator& allocator, std::size_t) : allocator_{allocator}, requests_(64) {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      requests_[i].pages.resize(longest);
      requests_[i].used = shortest + i % (longest - shortest);
      require_ok(allocator_.allocate(std::span{requests_[i].pages}.first(requests_[i].used)));
    }
  }

  std::size_t step() {
    std::size_t granted = 0;
    for (request& r : requests_) {
      if (r.used == longest) {
        require_ok(allocator_.release(r.pages));
        require_ok(allocator_.allocate(std::span{r.pages}.first(shortest)));
        r.used = shortest;
        granted += shortest;
      }
      require_ok(allocator_.allocate(std::span{r.pages}.subspan(r.used++, 1)));
      ++granted;
    }
    return granted;
  }

 private:
  static constexpr std::size_t shortest = 128;
  static constexpr std::size_t longest = 144;

  struct request {
    std::vector<typename Allocator::handle> pages;
    std::size_t used = 0;
  };

  Allocator& allocator_;
  std::vector<request> requests_;
};

// 64 requests that share 128 pages and have 16 of their own; a step() replaces the oldest by a new one.
template <class Allocator>
class shared {
 public:
  shared(Allocator& allocator, std::size_t) : allocator_{allocator}, common_(128), requests_(64) {
    require_ok(allocator_.allocate(common_));
    for (auto& own : requests_) {
      own.resize(16);
      start(own);
    }
  }

  std::size_t step() {
    auto& own = requests_[oldest_];
    require_ok(allocator_.release(common_));
    require_ok(allocator_.release(own));
    start(own);
    if (++oldest_ == requests_.size()) oldest_ = 0;
    return common_.size() + own.size();
  }

 private:
  using handles = std::vector<typename Allocator::handle>;

  void start(handles& own) {
    require_ok(allocator_.retain(common_));
    require_ok(allocator_.allocate(own));
  }

  Allocator& allocator_;
  handles common_;
  std::vector<handles> requests_;
  std::size_t oldest_ = 0;
};

}  // namespace bench
