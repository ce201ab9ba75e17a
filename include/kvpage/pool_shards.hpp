// kvpage: the locks of a pool that several threads use.
#pragma once

#include <sched.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "config.hpp"

namespace kvpage::inline v0::detail {

// Spins, then yields: it is held for the length of one call.
class spin_lock {
 public:
  void lock() noexcept {
    for (int attempts = 0; !try_lock(); ++attempts) {
      if (attempts >= 64) (void)sched_yield();  // as std::this_thread::yield; <thread> takes 0.1 s to compile
    }
  }
  [[nodiscard]] bool try_lock() noexcept { return !taken_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_ = false;
};

// A cache line each, so that neighbours do not slow each other down.
struct alignas(64) pool_shard {
  spin_lock lock;
  std::atomic<std::uint32_t> free = 0;  // pages in its stack: changed under the lock, a hint without it
  std::uint32_t retired = 0;
};

using shard_set = std::uint64_t;  // bit s: shard s

// Holds the locks of a set of shards, taken in ascending order: two threads cannot wait in a circle.
class shard_guard {
 public:
  shard_guard(std::span<pool_shard> shards, shard_set set) noexcept : shards_{shards}, set_{set} {
    for (shard_set left = set_; left != 0; left &= left - 1) first_of(left).lock.lock();
  }
  ~shard_guard() {
    for (shard_set left = set_; left != 0; left &= left - 1) first_of(left).lock.unlock();
  }
  shard_guard(const shard_guard&) = delete;
  shard_guard& operator=(const shard_guard&) = delete;

 private:
  [[nodiscard]] pool_shard& first_of(shard_set set) const noexcept {
    return shards_[static_cast<std::size_t>(std::countr_zero(set))];
  }

  std::span<pool_shard> shards_;
  shard_set set_;
};

// Which shard the calling thread tries first, in every pool, modulo the pool's shards.  Threads start at
// different ones, and move on where they meet another.
[[nodiscard]] inline std::size_t& home_of_this_thread() noexcept {
  static std::atomic<std::size_t> next{0};
  thread_local std::size_t home = next.fetch_add(1, std::memory_order_relaxed);
  return home;
}

}  // namespace kvpage::inline v0::detail
