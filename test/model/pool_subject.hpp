// A page_pool whose callers also use handles that they have given up, or never had.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "pool_oracle.hpp"

namespace kvpage_model {

template <class Policy>
class pool_subject {
  using pool_type = kvpage::page_pool<kvpage::bf16, Policy>;
  using handle = typename pool_type::handle;
  using errc = kvpage::errc;

 public:
  void apply(const operation& o) {
    const handle one = known_[o.a % known_.size()];
    const std::vector<handle> some = handles(o);
    const kvpage::step_number fence = o.c % 2 == 0 ? 0 : newest_ + o.c % 3;
    switch (o.kind % 11) {
      case 0:
      case 1: allocate(o.b % 7, o.a); break;
      case 2: same(pool_.retain(some), oracle_.retain(some)); break;
      case 3:
      case 4: same(pool_.release(some), oracle_.release(some, 0)); break;
      case 5: same(pool_.release_after(some, fence), oracle_.release(some, fence)); break;
      case 6:
        newest_ += o.a % 2;
        pool_.retire(newest_ - o.b % 2);
        oracle_.retire(newest_ - o.b % 2);
        break;
      case 7: same(pool_.publish(one), oracle_.publish(one)); break;
      case 8:
        pool_.drain_newly_cached([](kvpage::page_id) {});
        same(pool_.withdraw(one), oracle_.withdraw(one));
        break;
      case 9: {
        pool_.drain_newly_cached([](kvpage::page_id) {});
        const errc expected = oracle_.revive(one);
        same(pool_.revive(one), expected);
        break;
      }
      default: same(pool_.check_referenced(one), oracle_.expected(one));
    }
  }

  void compare() {
    oracle_.compare();
    if (++operations_ % 16 == 0) audit();
  }
  void audit() const { require(pool_.audit().clean(), "the audit has a finding"); }

 private:
  static void same(errc found, errc expected) { require(found == expected, "another error than expected"); }

  void allocate(std::size_t count, std::size_t at) {
    std::vector<handle> fresh(count);
    const errc expected = oracle_.expected_grant(count);
    same(pool_.allocate(fresh), expected);
    if (expected != errc::ok) return;
    oracle_.granted(fresh);
    for (const handle& page : fresh) known_[at++ % known_.size()] = page;
  }

  // Up to 3 known handles, some of them perhaps the same.
  std::vector<handle> handles(const operation& o) const {
    std::vector<handle> some;
    for (std::size_t i = 0; i < o.b % 4U; ++i) some.push_back(known_[(o.a + i * (o.c % 4U)) % known_.size()]);
    return some;
  }

  pool_type pool_{kvpage::pool_options{.pages = 13}};
  pool_oracle<pool_type> oracle_{pool_};
  std::array<handle, 16> known_{};
  kvpage::step_number newest_ = 1;
  std::size_t operations_ = 0;
};

}  // namespace kvpage_model
