// kvpage: a page pool that several threads use at once, as a scheduler and its transfer threads do.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>

#include "config.hpp"
#include "error.hpp"
#include "fixed_array.hpp"
#include "page_audit.hpp"
#include "page_handle.hpp"
#include "page_record.hpp"
#include "page_references.hpp"
#include "pool_shards.hpp"

namespace kvpage::inline v0 {

struct concurrent_pool_options {
  std::uint64_t pages;  // the null page included: 2 to max_pages_per_pool
  std::uint32_t tokens_per_page = 16;
  std::uint32_t shards = 4;  // 1 to 64, about the number of threads; rounded down to a power of two
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
};

// page_pool's grants, references and checks, with the same meanings and errors, for several threads.
//
// Pages are dealt to shards by their number; each shard has a lock and a stack of its free pages (LIFO).
// A thread allocates from the shard it used last while that has enough and nobody else is there, from any
// other otherwise, and from all of them before it reports `exhausted`: that answer is as exact as page_pool's.
// Whoever releases a page takes the lock of the page's shard; nothing is kept for a thread, so a thread that
// ends leaves nothing behind.  Memory a page: as page_pool, and a few hundred bytes.
//
// Not here, because they belong to the scheduler's own pool: fences, published pages, tag journals.  A
// transfer holds a reference instead.
template <element E, integrity_policy P>
class concurrent_page_pool {
 public:
  using element_type = E;
  using policy = P;
  using handle = page_handle<E, P>;

  // Throws std::invalid_argument for options out of range, std::bad_alloc.
  explicit concurrent_page_pool(const concurrent_pool_options& options);
  concurrent_page_pool(const concurrent_page_pool&) = delete;
  concurrent_page_pool& operator=(const concurrent_page_pool&) = delete;

  // As page_pool::allocate, retain, release and check.  O(1) a page, and a lock for each shard concerned.
  [[nodiscard]] errc allocate(std::span<handle> out) noexcept;
  [[nodiscard]] errc retain(std::span<const handle> pages) noexcept;
  [[nodiscard]] errc release(std::span<const handle> pages) noexcept;
  [[nodiscard]] errc check(handle page) const noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return records_.size() - 1; }
  [[nodiscard]] std::uint32_t tokens_per_page() const noexcept { return tokens_per_page_; }

  // A moment's truth, under all locks.  O(shards).
  [[nodiscard]] pool_stats stats() const noexcept;

  // Proves that every page is in exactly one state, under all locks.  O(n); allocates one bit a page.
  [[nodiscard]] pool_audit audit() const;

 private:
  using record = detail::page_record<P>;
  using page_use = detail::page_use;
  using shard_set = detail::shard_set;

  [[nodiscard]] detail::shard_guard lock(shard_set set) const noexcept { return {shards_, set}; }
  [[nodiscard]] shard_set all_shards() const noexcept { return ~shard_set{0} >> (64 - shards_.size()); }

  // Dealt in blocks whose records fill whole cache lines: two shards never write to the same one.  Ids
  // outside the pool have a shard too, and are refused under its lock.
  static constexpr std::size_t block = 64 / sizeof(std::uint32_t);
  [[nodiscard]] std::size_t shard_of(page_id page) const noexcept {
    return page / block & (shards_.size() - 1);
  }
  [[nodiscard]] shard_set shards_of(std::span<const handle> pages) const noexcept {
    shard_set set = 0;
    for (const handle& page : pages) set |= shard_set{1} << shard_of(page.id());
    return set;
  }

  [[nodiscard]] page_id* stack_of(std::size_t s) noexcept {
    return stacks_.data() + s * (stacks_.size() / shards_.size());
  }
  [[nodiscard]] const page_id* stack_of(std::size_t s) const noexcept {
    return stacks_.data() + s * (stacks_.size() / shards_.size());
  }

  void take(std::size_t s, std::span<handle> out) noexcept;
  [[nodiscard]] errc allocate_from_several(std::span<handle> out) noexcept;
  [[nodiscard]] errc release_from_several(std::span<const handle> pages) noexcept;
  [[nodiscard]] std::size_t drop_in_shard(std::size_t s, std::span<const handle> pages) noexcept;
  [[nodiscard]] bool drop_last_generation(handle page) noexcept;
  void undo_drops(std::span<const handle> pages) noexcept;
  [[nodiscard]] errc why_refused(handle page) const noexcept;
  [[nodiscard]] pool_stats stats_locked() const noexcept;

  detail::fixed_array<record> records_;
  mutable detail::fixed_array<detail::pool_shard> shards_;
  detail::fixed_array<page_id> stacks_;  // one after the other, each with room for all of its shard's pages
  std::uint32_t tokens_per_page_;
};

// --- Construction ---

template <element E, integrity_policy P>
concurrent_page_pool<E, P>::concurrent_page_pool(const concurrent_pool_options& options)
    : records_(
          (detail::require_between("concurrent_page_pool: pages (the null page included)", options.pages,
                                   std::uint64_t{2}, max_pages_per_pool),
           detail::require_between("concurrent_page_pool: tokens_per_page", options.tokens_per_page, 1u,
                                   1u << 20),
           detail::require_between("concurrent_page_pool: shards", options.shards, 1u, 64u), options.pages),
          options.memory),
      shards_(std::bit_floor(options.shards), options.memory),
      stacks_(((options.pages - 1) / (block * shards_.size()) + 1) * block * shards_.size(), options.memory),
      tokens_per_page_{options.tokens_per_page} {
  records_[null_page].use = page_use::retired();
  for (page_id page = static_cast<page_id>(size()); --page != null_page;) {  // the lowest ends up on top
    const std::size_t s = shard_of(page);
    const std::uint32_t free = shards_[s].free.load(std::memory_order_relaxed);
    stack_of(s)[free] = page;
    shards_[s].free.store(free + 1, std::memory_order_relaxed);
  }
}

// --- Grant ---

template <element E, integrity_policy P>
errc concurrent_page_pool<E, P>::allocate(std::span<handle> out) noexcept {
  std::size_t& home = detail::home_of_this_thread();
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const std::size_t s = (home + i) % shards_.size();
    detail::pool_shard& tried = shards_[s];
    if (tried.free.load(std::memory_order_relaxed) < out.size() || !tried.lock.try_lock()) continue;
    const bool enough = tried.free.load(std::memory_order_relaxed) >= out.size();
    if (enough) take(s, out);
    tried.lock.unlock();
    if (!enough) continue;
    home = s;
    return errc::ok;
  }
  return allocate_from_several(out);
}

// Grants out.size() pages of a shard that has them and is locked.
template <element E, integrity_policy P>
void concurrent_page_pool<E, P>::take(std::size_t s, std::span<handle> out) noexcept {
  const std::uint32_t free = shards_[s].free.load(std::memory_order_relaxed);
  const page_id* const top = stack_of(s) + free - 1;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const page_id page = *(top - i);
    out[i] = detail::grant<handle>(records_[page], page);
  }
  shards_[s].free.store(free - static_cast<std::uint32_t>(out.size()), std::memory_order_relaxed);
}

template <element E, integrity_policy P>
errc concurrent_page_pool<E, P>::allocate_from_several(std::span<handle> out) noexcept {
  const auto locked = lock(all_shards());
  const pool_stats now = stats_locked();
  if (out.size() > now.free)
    return out.size() > capacity() - now.retired ? errc::never_fits : errc::exhausted;
  for (std::size_t s = 0; !out.empty(); ++s) {
    const std::size_t count =
        (std::min)(out.size(), std::size_t{shards_[s].free.load(std::memory_order_relaxed)});
    take(s, out.first(count));
    out = out.subspan(count);
  }
  return errc::ok;
}

// --- References ---

template <element E, integrity_policy P>
errc concurrent_page_pool<E, P>::retain(std::span<const handle> pages) noexcept {
  const auto locked = lock(shards_of(pages));
  const std::span<record> records{records_};
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (detail::add_reference(records, pages[i])) [[likely]]
      continue;
    for (const handle& added : pages.first(i)) records[added.id()].use = records[added.id()].use.fewer();
    const errc refusal = why_refused(pages[i]);
    return refusal == errc::ok ? errc::reference_overflow : refusal;
  }
  return errc::ok;
}

template <element E, integrity_policy P>
errc concurrent_page_pool<E, P>::release(std::span<const handle> pages) noexcept {
  if (pages.empty()) return errc::ok;
  {  // the pages of one grant lie in one shard, but for the last grants before the pool is exhausted
    const std::size_t s = shard_of(pages[0].id());
    const auto locked = lock(shard_set{1} << s);
    const std::size_t done = drop_in_shard(s, pages);
    if (done == pages.size()) return errc::ok;
    undo_drops(pages.first(done));
  }
  return release_from_several(pages);
}

template <element E, integrity_policy P>
errc concurrent_page_pool<E, P>::release_from_several(std::span<const handle> pages) noexcept {
  const auto locked = lock(shards_of(pages));
  std::size_t done = 0;
  while (done < pages.size()) {
    const std::size_t dropped = drop_in_shard(shard_of(pages[done].id()), pages.subspan(done));
    done += dropped;
    if (dropped != 0) continue;
    if (drop_last_generation(pages[done])) {
      ++done;
      continue;
    }
    const errc refusal = why_refused(pages[done]);
    undo_drops(pages.first(done));
    return refusal;
  }
  return errc::ok;
}

// Drops a reference of each of the first pages that lie in shard `s`, up to one that is refused.  Returns how
// many.
template <element E, integrity_policy P>
std::size_t concurrent_page_pool<E, P>::drop_in_shard(std::size_t s, std::span<const handle> pages) noexcept {
  const std::span<record> records{records_};
  page_id* const stack = stack_of(s);
  page_id* top = stack + shards_[s].free.load(std::memory_order_relaxed);
  std::size_t i = 0;
  while (i < pages.size() && shard_of(pages[i].id()) == s && detail::drop_reference(records, pages[i], top)) {
    ++i;
  }
  shards_[s].free.store(static_cast<std::uint32_t>(top - stack), std::memory_order_relaxed);
  return i;
}

// Retires the page if this is the last reference of its last generation.
template <element E, integrity_policy P>
bool concurrent_page_pool<E, P>::drop_last_generation([[maybe_unused]] handle page) noexcept {
  if constexpr (P::is_tagged) {
    if (why_refused(page) != errc::ok || page.tag() != P::last_live_tag) return false;
    record& retired = records_[page.id()];
    retired.use = page_use::retired();
    retired.tag = 0;
    ++shards_[shard_of(page.id())].retired;
    return true;
  } else {
    return false;
  }
}

// Gives back what release() took: the pages freed last lie on top of their stacks.
template <element E, integrity_policy P>
void concurrent_page_pool<E, P>::undo_drops(std::span<const handle> pages) noexcept {
  for (const handle& page : pages) {
    record& dropped = records_[page.id()];
    detail::pool_shard& its_shard = shards_[shard_of(page.id())];
    switch (dropped.use.state()) {
      case page_state::live: dropped.use = dropped.use.more(); continue;
      case page_state::free: its_shard.free.fetch_sub(1, std::memory_order_relaxed); break;
      default: --its_shard.retired;
    }
    dropped.use = page_use::once();
    if constexpr (P::is_tagged) dropped.tag = page.tag();
  }
}

// What stands against a reference to the page; ok: nothing.
template <element E, integrity_policy P>
errc concurrent_page_pool<E, P>::why_refused(handle page) const noexcept {
  if (page.id() == null_page) return errc::null_handle;
  if (page.id() >= size()) return errc::outside_pool;
  const record& found = records_[page.id()];
  if constexpr (P::is_tagged) {
    if (found.tag != page.tag())
      return found.tag == detail::next_tag<P>(page.tag()) ? errc::double_release : errc::stale_handle;
  }
  return found.use.references() != 0 ? errc::ok : errc::double_release;
}

template <element E, integrity_policy P>
errc concurrent_page_pool<E, P>::check(handle page) const noexcept {
  const auto locked = lock(shards_of({&page, 1}));
  return why_refused(page);
}

// --- Accounts ---

template <element E, integrity_policy P>
pool_stats concurrent_page_pool<E, P>::stats_locked() const noexcept {
  pool_stats stats{.capacity = capacity()};
  for (const detail::pool_shard& s : shards_) {
    stats.free += s.free.load(std::memory_order_relaxed);
    stats.retired += s.retired;
  }
  stats.live = stats.capacity - stats.free - stats.retired;
  return stats;
}

template <element E, integrity_policy P>
pool_stats concurrent_page_pool<E, P>::stats() const noexcept {
  const auto locked = lock(all_shards());
  return stats_locked();
}

template <element E, integrity_policy P>
pool_audit concurrent_page_pool<E, P>::audit() const {
  const auto locked = lock(all_shards());
  detail::page_auditor<P> auditor(records_);
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    for (std::uint32_t i = 0; i < shards_[s].free.load(std::memory_order_relaxed); ++i)
      auditor.expect_listed(stack_of(s)[i], page_state::free);
  }
  auditor.expect_records(stats_locked());
  return auditor.audit();
}

}  // namespace kvpage::inline v0
