// kvpage: who owns which page.
//
// A pool of n pages hands out ids 1 to n - 1; page 0 is the null page.  It manages numbers only: the
// memory behind them is the engine's.  All storage is allocated by the constructor: 8 bytes a page
// untagged, 12 bytes tagged.  One thread owns a pool, as schedulers do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "config.hpp"
#include "error.hpp"
#include "fence_list.hpp"
#include "fixed_array.hpp"
#include "free_list.hpp"
#include "page_audit.hpp"
#include "page_handle.hpp"
#include "page_record.hpp"
#include "page_references.hpp"
#include "tag_journal.hpp"

namespace kvpage::inline v0 {

struct pool_options {
  std::uint64_t pages;  // the null page included: 2 to max_pages_per_pool
  std::uint32_t tokens_per_page = 16;
  reuse_order reuse = reuse_order::lifo;
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
};

template <element E, integrity_policy P>
class page_pool {
 public:
  using element_type = E;
  using policy = P;
  using handle = page_handle<E, P>;

  // Throws std::invalid_argument for options out of range, std::bad_alloc.
  explicit page_pool(const pool_options& options);
  page_pool(const page_pool&) = delete;
  page_pool& operator=(const page_pool&) = delete;

  // Grants out.size() fresh pages with one reference each: all, or none.
  //   exhausted: not enough free pages now; never_fits: more than the pool can ever grant.
  // O(1) a page.
  [[nodiscard]] errc allocate(std::span<handle> out) noexcept;

  // What allocate would return for that many pages, without granting any.  O(1).
  [[nodiscard]] errc check_room(std::size_t pages) const noexcept {
    return pages <= free_.size() ? errc::ok : refuse_grant(pages);
  }

  // Adds one reference to each page, which must be referenced already: all, or none.
  //   stale_handle, double_release (nobody holds it), null_handle, outside_pool, reference_overflow.
  // O(1) a page.
  [[nodiscard]] errc retain(std::span<const handle> pages) noexcept;

  // Drops one reference from each page: all, or none.  A page that loses its last reference changes its
  // tag and is free at once; a published one keeps its tag and is cached.  Either waits, fenced, for a step
  // that another holder of the page has named in release_after and that has not retired yet.
  //   stale_handle, double_release (also: the same page more often than it is referenced), null_handle,
  //   outside_pool.
  // O(1) a page.
  [[nodiscard]] errc release(std::span<const handle> pages) noexcept;

  // As `release`, but pages that lose their last reference stay out of circulation until retire(step):
  // for pages that a launched step, up to number `step`, may still touch.  (Beyond 32 different steps to wait for,
  // pages wait for the next later of them.)
  [[nodiscard]] errc release_after(std::span<const handle> pages, step_number step) noexcept;

  // All steps up to and including `step` have finished on the device: pages fenced until then become free, or
  // cached if they are published.  O(1) a page.
  void retire(step_number step) noexcept;

  // ok if the handle's page is live or published and still of the handle's generation; otherwise the error
  // that `release` would give.  Untagged, the generation cannot be told.  O(1).
  [[nodiscard]] errc check(handle page) const noexcept;

  // The same, for a page that must be referenced: double_release also for a cached one.
  [[nodiscard]] errc check_referenced(handle page) const noexcept;

  // --- Published pages: for prefix_index, which finds them again by their tokens. ---

  // A live page that others may find: it is cached, not freed, when its last reference goes.  As check_referenced.
  [[nodiscard]] errc publish(handle page) noexcept;

  // Ends a page's publication; a cached page is thereby evicted: its tag changes and it is free.  A fenced one
  // changes its tag and stays fenced.  As check.
  [[nodiscard]] errc withdraw(handle page) noexcept;

  // Whether the page is in its last generation: given up, it is retired, not free.  page < size().
  [[nodiscard]] bool is_last_grant(page_id page) const noexcept {
    if constexpr (P::is_tagged)
      return records_[page].tag == P::last_live_tag;
    else
      return false;
  }

  // Takes the first reference to a cached page.  double_release if the page is not cached.
  [[nodiscard]] errc revive(handle page) noexcept;

  // Calls visit(page) for every page that became cached since the last call, in that order.  withdraw and
  // revive must wait until it has returned.
  template <class Visit>
  void drain_newly_cached(Visit&& visit) noexcept;

  // --- For a copy of the tags kept elsewhere: cuda::page_tags. ---

  // From here on `journal` records every page whose tag may have changed, until it is detached, which must
  // come before either of the two is destroyed.  Each copy has a journal of its own.  O(1) a changed page.
  void attach_journal(tag_journal& journal) noexcept requires tagged_policy<P> { journals_.attach(journal); }
  void detach_journal(tag_journal& journal) noexcept requires tagged_policy<P> { journals_.detach(journal); }

  // --- What is known of a page. ---

  // Pages including the null page; ids are below this.
  [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return records_.size() - 1; }
  [[nodiscard]] std::uint32_t tokens_per_page() const noexcept { return tokens_per_page_; }

  // page < size().
  [[nodiscard]] std::uint32_t references(page_id page) const noexcept {
    return records_[page].use.references();
  }
  [[nodiscard]] page_state state(page_id page) const noexcept { return records_[page].use.state(); }
  [[nodiscard]] bool is_published(page_id page) const noexcept { return records_[page].use.is_published(); }

  // Referenced once and not published: whoever holds it may write to it.  page < size().
  [[nodiscard]] bool is_exclusive(page_id page) const noexcept { return records_[page].use.is_exclusive(); }

  // Referenced more than once or published: others may be reading it.  page < size().
  [[nodiscard]] bool is_shared(page_id page) const noexcept {
    return records_[page].use.is_shared() || records_[page].use.is_published();
  }

  // The page's present tag; page < size().  The null page's is 0.
  [[nodiscard]] page_tag tag(page_id page) const noexcept requires tagged_policy<P> {
    return records_[page].tag;
  }

  // Begins to load what is known of a page, for whoever asks for it soon; any id is harmless.
  void prefetch(page_id page) const noexcept {
    // As a number, because a pointer past the array must not even be formed.
    const auto records = reinterpret_cast<std::uintptr_t>(records_.data());
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    __builtin_prefetch(reinterpret_cast<const void*>(records + std::uintptr_t{page} * sizeof(record)));
  }

  // O(1).
  [[nodiscard]] pool_stats stats() const noexcept;

  // Proves that every page is in exactly one state.  O(n); allocates one bit a page.
  [[nodiscard]] pool_audit audit() const;

 private:
  using record = detail::page_record<P>;
  using page_use = detail::page_use;
  using page_chain = detail::page_chain;

  [[nodiscard]] errc check_id(page_id page) const noexcept {
    if (page - 1 < capacity()) [[likely]]  // wraps for the null page
      return errc::ok;
    return page == null_page ? errc::null_handle : errc::outside_pool;
  }
  [[nodiscard]] errc check_generation(handle page) const noexcept;

  [[nodiscard, gnu::noinline]] errc refuse_grant(std::size_t pages) const noexcept;
  [[nodiscard, gnu::noinline]] errc refuse_retain(std::span<const handle> pages,
                                                  std::size_t refused) noexcept;
  [[nodiscard, gnu::noinline]] errc release_from(std::size_t first, std::span<const handle> pages,
                                                 step_number step) noexcept;
  void give_up(const page_chain& pages, step_number step) noexcept;
  void undo_drops(std::span<const handle> pages) noexcept;

  void end_grant(record& page) noexcept;
  void set_free(page_id page) noexcept;
  void settle(page_id page) noexcept;
  void fence(const page_chain& pages, step_number step) noexcept;
  void append(page_chain& chain, page_id page, page_use use) noexcept;
  void splice(page_chain& chain, const page_chain& tail) noexcept;

  detail::fixed_array<record> records_;
  detail::free_list free_;
  detail::fence_list fences_;
  step_number awaited_step_ = 0;  // the newest that any awaited page waits for
  page_chain newly_cached_;
  std::size_t cached_ = 0;
  std::size_t fenced_ = 0;
  std::size_t retired_ = 0;
  std::uint32_t tokens_per_page_;
  [[no_unique_address]] detail::journal_list<P> journals_;
};

// --- Construction, grant, references ---

template <element E, integrity_policy P>
page_pool<E, P>::page_pool(const pool_options& options)
    : records_((detail::require_between("page_pool: pages (the null page included)", options.pages,
                                        std::uint64_t{2}, max_pages_per_pool),
                detail::require_between("page_pool: tokens_per_page", options.tokens_per_page, 1u, 1u << 20),
                options.pages),
               options.memory),
      free_(static_cast<std::uint32_t>(options.pages - 1), options.reuse, options.memory),
      tokens_per_page_{options.tokens_per_page} {
  records_[null_page].use = page_use::retired();
}

template <element E, integrity_policy P>
inline errc page_pool<E, P>::allocate(std::span<handle> out) noexcept {
  const bool granted = free_.take(
      out.size(), [&](std::size_t i, page_id id) { out[i] = detail::grant<handle>(records_[id], id); });
  if (!granted) [[unlikely]]
    return refuse_grant(out.size());
  journals_.record(std::span<const handle>{out});
  return errc::ok;
}

template <element E, integrity_policy P>
errc page_pool<E, P>::refuse_grant(std::size_t pages) const noexcept {
  return pages > capacity() - retired_ ? errc::never_fits : errc::exhausted;
}

template <element E, integrity_policy P>
inline errc page_pool<E, P>::retain(std::span<const handle> pages) noexcept {
  const std::span<record> records{records_};
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (!detail::add_reference(records, pages[i])) [[unlikely]]
      return refuse_retain(pages, i);
  }
  return errc::ok;
}

template <element E, integrity_policy P>
errc page_pool<E, P>::refuse_retain(std::span<const handle> pages, std::size_t refused) noexcept {
  for (const handle& added : pages.first(refused))
    records_[added.id()].use = records_[added.id()].use.fewer();
  KVPAGE_TRY(check_referenced(pages[refused]));
  return errc::reference_overflow;
}

// --- Release.  Checks and changes happen in one pass; the rare error undoes what came before it. ---

template <element E, integrity_policy P>
inline errc page_pool<E, P>::release(std::span<const handle> pages) noexcept {
  const std::span<record> records{records_};
  page_id* const freed = free_.back();
  page_id* end = freed;
  const std::size_t plain = (std::min)(pages.size(), free_.room());
  std::size_t i = 0;
  while (i < plain && detail::drop_reference(records, pages[i], end)) ++i;
  free_.grow(static_cast<std::size_t>(end - freed));
  if (i != pages.size()) [[unlikely]]
    return release_from(i, pages, 0);
  journals_.record(pages);
  return errc::ok;
}

// Releases what release() has refused, and everything that is to wait for `step`.  Pages that lose their last
// reference hang in a chain, as they were, until all have been checked.
template <element E, integrity_policy P>
errc page_pool<E, P>::release_from(std::size_t first, std::span<const handle> pages,
                                   step_number step) noexcept {
  page_chain given_up;
  for (std::size_t i = first; i < pages.size(); ++i) {
    if (const errc code = check_referenced(pages[i]); code != errc::ok) [[unlikely]] {
      undo_drops(pages.first(i));
      return code;
    }
    record& dropped = records_[pages[i].id()];
    if (dropped.use.is_shared())
      dropped.use = dropped.use.fewer();
    else
      append(given_up, pages[i].id(), dropped.use.cached());
  }
  give_up(given_up, step);
  journals_.record(pages);
  return errc::ok;
}

// What becomes of pages that have lost their last reference, and that a step up to `step` may still touch.
template <element E, integrity_policy P>
void page_pool<E, P>::give_up(const page_chain& pages, step_number step) noexcept {
  const step_number awaited_step = (std::max)(step, awaited_step_);
  page_chain fenced, fenced_longer;
  page_id id = pages.first;
  for (std::size_t left = pages.count; left != 0; --left) {
    record& page = records_[id];
    const page_id next = page.use.next();
    const step_number until = page.use.is_awaited() ? awaited_step : step;
    if (!page.use.is_published()) end_grant(page);
    if (until > fences_.retired())
      append(until == step ? fenced : fenced_longer, id, page.use.fenced());
    else
      settle(id);
    id = next;
  }
  fence(fenced, step);
  fence(fenced_longer, awaited_step);
}

template <element E, integrity_policy P>
errc page_pool<E, P>::release_after(std::span<const handle> pages, step_number step) noexcept {
  if (step <= fences_.retired()) return release(pages);
  KVPAGE_TRY(release_from(0, pages, step));
  for (const handle& page : pages) {  // whoever lets go of these last may know nothing of this step
    record& released = records_[page.id()];
    if (released.use.state() != page_state::live) continue;
    released.use = released.use.awaited();
    awaited_step_ = (std::max)(awaited_step_, step);
  }
  return errc::ok;
}

template <element E, integrity_policy P>
void page_pool<E, P>::retire(step_number step) noexcept {
  fences_.retire(step, [&](const page_chain& chain) {
    fenced_ -= chain.count;
    page_id id = chain.first;
    for (std::size_t left = chain.count; left != 0; --left) {
      const page_id next = records_[id].use.next();
      settle(id);
      id = next;
    }
  });
}

// Gives back what a refused release took.  A page that was freed had nothing but its one reference; one that hangs in
// the caller's chain, which is dropped, is otherwise as it was.
template <element E, integrity_policy P>
void page_pool<E, P>::undo_drops(std::span<const handle> pages) noexcept {
  for (const handle& page : pages) {
    record& dropped = records_[page.id()];
    if (dropped.use.has_references(1)) {
      dropped.use = dropped.use.more();
    } else if (dropped.use == page_use::free()) {
      free_.undo_push();
      dropped.use = page_use::once();
      if constexpr (P::is_tagged) dropped.tag = page.tag();
    } else {
      dropped.use = dropped.use.referenced(1);
    }
  }
}

// --- Published pages ---

template <element E, integrity_policy P>
errc page_pool<E, P>::publish(handle page) noexcept {
  KVPAGE_TRY(check_referenced(page));
  records_[page.id()].use = records_[page.id()].use.published();
  return errc::ok;
}

template <element E, integrity_policy P>
errc page_pool<E, P>::withdraw(handle page) noexcept {
  KVPAGE_TRY(check(page));
  record& withdrawn = records_[page.id()];
  withdrawn.use = withdrawn.use.withdrawn();
  if (withdrawn.use.state() == page_state::live) return errc::ok;
  end_grant(withdrawn);
  journals_.record(std::span<const handle>{&page, 1});
  if (withdrawn.use.state() == page_state::fenced) return errc::ok;
  Expects(newly_cached_.count == 0);  // or the page may still hang in that chain
  --cached_;
  set_free(page.id());
  return errc::ok;
}

template <element E, integrity_policy P>
errc page_pool<E, P>::revive(handle page) noexcept {
  KVPAGE_TRY(check_generation(page));
  record& revived = records_[page.id()];
  if (revived.use.state() != page_state::cached) return errc::double_release;
  Expects(newly_cached_.count == 0);  // or the page may still hang in that chain
  revived.use = revived.use.referenced(1);
  --cached_;
  return errc::ok;
}

template <element E, integrity_policy P>
template <class Visit>
void page_pool<E, P>::drain_newly_cached(Visit&& visit) noexcept {
  page_id page = newly_cached_.first;
  for (std::size_t left = newly_cached_.count; left != 0; --left) {
    const page_id next = records_[page].use.next();
    prefetch(next);
    visit(page);
    page = next;
  }
  newly_cached_ = {};
}

// --- Checks ---

// In the pool, and of the handle's generation.
template <element E, integrity_policy P>
errc page_pool<E, P>::check_generation(handle page) const noexcept {
  KVPAGE_TRY(check_id(page.id()));
  if constexpr (P::is_tagged) {
    const page_tag found = records_[page.id()].tag;
    if (found != page.tag()) [[unlikely]]
      return found == detail::next_tag<P>(page.tag()) ? errc::double_release : errc::stale_handle;
  }
  return errc::ok;
}

// ... and referenced by somebody.
template <element E, integrity_policy P>
errc page_pool<E, P>::check_referenced(handle page) const noexcept {
  KVPAGE_TRY(check_generation(page));
  return records_[page.id()].use.references() != 0 ? errc::ok : errc::double_release;
}

template <element E, integrity_policy P>
errc page_pool<E, P>::check(handle page) const noexcept {
  KVPAGE_TRY(check_generation(page));
  const page_use use = records_[page.id()].use;
  return use.references() != 0 || use.is_published() ? errc::ok : errc::double_release;
}

// --- Transitions ---

// The grant is over: every handle of it is stale from here on.
template <element E, integrity_policy P>
void page_pool<E, P>::end_grant([[maybe_unused]] record& page) noexcept {
  if constexpr (P::is_tagged) page.tag = detail::next_tag<P>(page.tag);
}

// Nobody's page becomes grantable again, unless its last generation is used up.
template <element E, integrity_policy P>
void page_pool<E, P>::set_free(page_id page) noexcept {
  if constexpr (P::is_tagged) {
    if (records_[page].tag == 0) [[unlikely]] {
      records_[page].use = page_use::retired();
      ++retired_;
      return;
    }
  }
  records_[page].use = page_use::free();
  free_.push(page);
}

// Nobody holds the page and no step may still touch it: a published one is cached, any other free.
template <element E, integrity_policy P>
void page_pool<E, P>::settle(page_id page) noexcept {
  const page_use use = records_[page].use;
  if (!use.is_published()) return set_free(page);
  append(newly_cached_, page, use.settled().cached());
  ++cached_;
}

template <element E, integrity_policy P>
void page_pool<E, P>::fence(const page_chain& pages, step_number step) noexcept {
  if (pages.count == 0) return;
  splice(fences_.at(step), pages);
  fenced_ += pages.count;
}

template <element E, integrity_policy P>
void page_pool<E, P>::append(page_chain& chain, page_id page, page_use use) noexcept {
  records_[page].use = use;
  splice(chain, page_chain{page, page, 1});
}

template <element E, integrity_policy P>
void page_pool<E, P>::splice(page_chain& chain, const page_chain& tail) noexcept {
  if (tail.count == 0) return;
  if (chain.count == 0) {
    chain = tail;
    return;
  }
  record& last = records_[chain.last];
  last.use = last.use.linked_to(tail.first);
  chain.last = tail.last;
  chain.count += tail.count;
}

// --- Accounts ---

template <element E, integrity_policy P>
pool_stats page_pool<E, P>::stats() const noexcept {
  return {.capacity = capacity(),
          .free = free_.size(),
          .live = capacity() - free_.size() - cached_ - fenced_ - retired_,
          .cached = cached_,
          .fenced = fenced_,
          .retired = retired_};
}

template <element E, integrity_policy P>
pool_audit page_pool<E, P>::audit() const {
  detail::page_auditor<P> auditor(records_);
  free_.for_each([&](page_id page) { auditor.expect_listed(page, page_state::free); });
  fences_.for_each([&](const page_chain& chain) { auditor.expect_chain(chain, page_state::fenced); });
  auditor.expect_chain(newly_cached_, page_state::cached);
  auditor.expect_records(stats());
  return auditor.audit();
}

}  // namespace kvpage::inline v0
