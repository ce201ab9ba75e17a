// kvpage: pool, prefix index and admission in one object: what most engines use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory_resource>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "block_table.hpp"
#include "cache_event.hpp"
#include "config.hpp"
#include "error.hpp"
#include "page_copy.hpp"
#include "page_group.hpp"
#include "page_pool.hpp"
#include "prefix_index.hpp"
#include "prompt.hpp"
#include "request_slots.hpp"
#include "written_tokens.hpp"

namespace kvpage::inline v0 {

// Host memory, all of it but salts allocated by the constructor: a page takes 12 bytes (untagged 8), with a prefix
// cache up to 62 more and its symbols (4 bytes a token, or 16 for a page_key); a request slot 8 bytes (untagged 4) for
// each page that it may reach, and up to 200 besides.
struct kv_cache_options {
  // One group for each kind of attention layer; a plain model has one, without a window.
  std::vector<page_group_options> groups;
  std::uint32_t tokens_per_page = 16;
  std::uint32_t max_requests = 256;               // at a time, those that wait for their last step included
  std::size_t max_tokens_per_request = 1u << 17;  // host memory for so long a table is set aside for each
  std::size_t watermark = 0;                      // pages that admission leaves for admitted requests to grow
  bool prefix_cache = true;  // of one group without a window; otherwise nothing is matched
  reuse_order reuse = reuse_order::lifo;
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
};

// What became of a request that asked to be admitted.
struct admission {
  errc code = errc::ok;
  request_handle request = {};    // if admitted
  std::size_t cached_tokens = 0;  // tokens at its front that need not be computed
  std::size_t missing_pages = 0;  // if exhausted: the most that a group lacks; 0: it lacks a slot
};

// Requests, each with a block table in every page group.  Every function is all or nothing, over all
// groups; a request_handle of a request that has ended gives stale_request.
//
// Steps order everything.  The engine says launched(n) when step n is enqueued and retire(n) when it is
// known to have finished; numbers may be left out.  What a launched step may touch is not reused before that
// step has retired: pages given up early are fenced, a finished request keeps its pages (where others can
// still match them), and the slot of a request that ended is not given to another.  Nothing waits for a step
// that has not been launched.  So between reading the tables and copies() for a step and launched(), no
// request may end or shrink.
//
// Events go to `Listener`, a callable that takes a cache_event.  Not for several threads.
template <element E, integrity_policy P, class Listener = ignore_events, class Symbol = token_id,
          class Hash = prefix_hash>
class kv_cache {
 public:
  using pool_type = page_pool<E, P>;
  using handle = typename pool_type::handle;
  using table_type = block_table<pool_type>;
  using prompt_type = prompt<Symbol>;
  using event = cache_event<handle>;

  // Throws std::invalid_argument for options out of range, std::bad_alloc.
  explicit kv_cache(const kv_cache_options& options, Listener listener = Listener{}, Hash hash = Hash{});

  // --- Requests ---

  // Matches the published prefix of `text`, evicts what must go, and grants pages for the rest of it, if
  // there is room for `reserve` more tokens besides (seen to, not granted) and the watermark.
  //   exhausted: not now; never_fits: not even with the cache to itself, or longer than
  //   max_tokens_per_request.
  // O(pages of the text).
  [[nodiscard]] admission admit(const prompt_type& text, std::size_t reserve = 0);

  // Makes room for `tokens` more tokens; may evict, and may add to copies(): if the last page is partly
  // filled, and shared.  A published one that the request alone holds, with nothing published below it, is
  // withdrawn instead, and written in place.
  //   exhausted; never_fits: not even with the cache to itself, or beyond max_tokens_per_request; not_ready: the
  //   page to be copied holds tokens that are the next step's to write (granted since the last launched());
  //   stale_handle, double_release: the shared page is no longer the request's own.
  [[nodiscard]] errc grow(request_handle request, std::size_t tokens);

  // Keeps the first `tokens` tokens, as after rejected speculation.  As block_table::truncate.
  [[nodiscard]] errc truncate(request_handle request, std::size_t tokens);

  // Gives up the pages that no token from position `settled` on attends to; the tokens before it must not
  // be truncated any more.  outside_row: more than the request's tokens.
  [[nodiscard]] errc slide(request_handle request, std::size_t settled);

  // A second request over the same pages; both copy a shared last page before they write to it, once its
  // tokens have been written (see grow).  An engine that spreads a prompt over several steps forks
  // after the last of them, or grows neither request before.
  // Also what a transfer holds while it reads: ending the fork ends the transfer.
  //   exhausted: no slot is free; otherwise as page_pool::retain.
  [[nodiscard]] result<request_handle> fork(request_handle request);

  // Publishes the full pages among the first `computed` tokens: as prefix_index::publish, in the epoch in
  // which the request was admitted, and up to the first page that is yet to be copied to.  0 without a prefix
  // cache.
  [[nodiscard]] result<std::size_t> publish(request_handle request, const prompt_type& text,
                                            std::size_t computed);

  // Publishes, and ends the request; also how to preempt one that shall find its pages again.  A request of
  // an earlier epoch publishes nothing.  Other errors (outside_row, stale_handle, double_release) leave it as it
  // was: abort it.
  [[nodiscard]] errc finish(request_handle request, const prompt_type& text = {}, std::size_t computed = 0);

  // Ends the request, and with it the validity of its handles; publishes nothing.  Pages that are no longer
  // its own are left alone (see block_table::abandon): returns how many.
  [[nodiscard]] result<std::size_t> abort(request_handle request);

  // nullptr for a stale handle.  Valid until the request ends.  Here and below, group < groups().
  [[nodiscard]] const table_type* table(request_handle request, std::size_t group = 0) const noexcept {
    const group_type& owner = group_at(group);
    return slots_.is_current(request) ? &owner.tables[request.slot] : nullptr;
  }

  // --- Steps ---

  // What must be copied, by the step to come, before its tokens are written: in any order.
  [[nodiscard]] std::span<const page_copy<handle>> copies(std::size_t group = 0) const noexcept {
    return group_at(group).copies.view();
  }

  // `step` has been enqueued, copies() before it.  Numbers ascend.
  void launched(step_number step) noexcept;

  // All steps up to and including `step`, which is at most the newest launched, have finished.
  void retire(step_number step) noexcept;

  // --- The prefix cache ---

  // Holds the published prefix of `text` until `holder`, an empty table of pool(), is released: it is not
  // evicted.  Returns its tokens.
  [[nodiscard]] std::size_t pin(const prompt_type& text, table_type& holder) {
    return index_ ? index_->match_and_retain(text, holder) : 0;
  }

  // The weights have changed: nothing that was published or is being computed will be matched.
  void advance_epoch() noexcept {
    if (index_) index_->advance_epoch();
  }

  // --- What is known ---

  [[nodiscard]] std::size_t groups() const noexcept { return groups_.size(); }

  // For tables, verification and copies of the tags; pages come and go through the cache alone.
  [[nodiscard]] pool_type& pool(std::size_t group = 0) noexcept { return group_at(group).pool; }
  [[nodiscard]] const pool_type& pool(std::size_t group = 0) const noexcept { return group_at(group).pool; }

  // Proves, group by group, that every page is in exactly one state and that the index agrees.  O(n).
  [[nodiscard]] pool_audit audit();

 private:
  using group_type = detail::page_group<pool_type>;
  using index_type = prefix_index<pool_type, Symbol, Hash>;

  // What the cache knows of a request besides its tables.
  struct request_state {
    prefix_epoch epoch = 0;  // in which it was admitted
    detail::written_tokens written;
  };

  [[nodiscard]] static const kv_cache_options& checked(const kv_cache_options& options) {
    detail::require_between("kv_cache: groups", options.groups.size(), 1, 64);
    detail::require_between("kv_cache: max_requests", options.max_requests, 1, 1u << 24);
    detail::require_between("kv_cache: max_tokens_per_request", options.max_tokens_per_request, 1,
                            max_tokens_per_row);
    detail::require_between("kv_cache: watermark", options.watermark, 0, max_pages_per_pool);
    return options;
  }

  [[nodiscard]] group_type& group_at(std::size_t group) noexcept {
    Expects(group < groups_.size());
    return groups_[group];
  }
  [[nodiscard]] const group_type& group_at(std::size_t group) const noexcept {
    Expects(group < groups_.size());
    return groups_[group];
  }

  // Pages that could be granted now.  The group with an index is the only one.
  [[nodiscard]] std::size_t grantable(const group_type& group) noexcept {
    return group.pool.stats().free + (index_ ? index_->evictable() : 0);
  }
  // Pages that could be granted if nobody held any.
  [[nodiscard]] static std::size_t most_grantable(const group_type& group) noexcept {
    return group.pool.capacity() - group.pool.stats().retired;
  }
  // Whether the table's last page can be written to because nobody needs it published.
  [[nodiscard]] bool can_withdraw_last(const table_type& table) const noexcept {
    return index_ && index_->can_withdraw(table.handles().back());
  }
  void append(group_type& group, request_handle request, std::size_t tokens);
  void give_up_from(group_type& group, request_handle request, std::size_t tokens);
  void end(request_handle request) noexcept;
  void settle() noexcept;

  void tell(cache_event_kind kind, const group_type& group, request_handle request,
            std::span<const handle> pages) {
    if (pages.empty()) return;
    listener_(event{kind, group.number, request, pages});
  }

  std::size_t max_tokens_;
  std::size_t watermark_;
  step_number launched_ = 0;
  step_number retired_ = 0;
  std::pmr::deque<group_type> groups_;  // a deque, because pools stay where they are
  std::optional<index_type> index_;
  detail::request_slots slots_;
  std::pmr::vector<request_state> states_;  // per slot
  [[no_unique_address]] Listener listener_;
};

template <element E, integrity_policy P, class Listener, class Symbol, class Hash>
kv_cache<E, P, Listener, Symbol, Hash>::kv_cache(const kv_cache_options& options, Listener listener,
                                                 Hash hash)
    : max_tokens_{checked(options).max_tokens_per_request},
      watermark_{options.watermark},
      groups_(options.memory),
      slots_(options.max_requests, options.memory),
      states_(options.max_requests, options.memory),
      listener_{std::move(listener)} {
  for (const page_group_options& group : options.groups) {
    const pool_options pool{group.pages, options.tokens_per_page, options.reuse, options.memory};
    groups_.emplace_back(static_cast<std::uint32_t>(groups_.size()), pool, group.window, options.max_requests,
                         max_tokens_);
  }
  if (options.prefix_cache && groups_.size() == 1 && groups_[0].window == 0)
    index_.emplace(groups_[0].pool, std::move(hash), options.memory);
}

// --- Requests ---

template <element E, integrity_policy P, class Listener, class Symbol, class Hash>
admission kv_cache<E, P, Listener, Symbol, Hash>::admit(const prompt_type& text, std::size_t reserve) {
  if (text.tokens > max_tokens_ || reserve > max_tokens_ - text.tokens) return {.code = errc::never_fits};

  // Look, without touching anything ...
  const auto found = index_ ? index_->find(text) : typename index_type::match{};
  std::size_t missing = 0;
  for (group_type& group : groups_) {
    const std::size_t wanted = pages_for(text.tokens + reserve, group.pool.tokens_per_page()) + watermark_;
    if (wanted > most_grantable(group)) return {.code = errc::never_fits};
    const std::size_t available = found.pages.size() + grantable(group) - found.evictable;
    missing = (std::max)(missing, wanted - (std::min)(wanted, available));
  }
  if (missing != 0) return {.code = errc::exhausted, .missing_pages = missing};
  const auto request = slots_.take();
  if (!request) return {.code = errc::exhausted};

  // ... then take: from here on nothing can fail.
  const std::size_t cached = index_ ? index_->take(found, groups_[0].tables[request->slot]) : 0;
  states_[request->slot] = {index_ ? index_->epoch() : 0, {cached, launched_}};
  for (group_type& group : groups_) append(group, *request, text.tokens - cached);
  return {.request = *request, .cached_tokens = cached};
}

template <element E, integrity_policy P, class Listener, class Symbol, class Hash>
errc kv_cache<E, P, Listener, Symbol, Hash>::grow(request_handle request, std::size_t tokens) {
  if (!slots_.is_current(request)) return errc::stale_request;
  detail::written_tokens& written = states_[request.slot].written;
  const std::size_t held = groups_[0].tables[request.slot].tokens();
  if (tokens > max_tokens_ - held) return errc::never_fits;
  for (group_type& group : groups_) {
    const table_type& table = group.tables[request.slot];
    std::size_t wanted = table.pages_to_append(tokens);
    if (table.writes_shared_page(tokens)) {
      KVPAGE_TRY(group.check(table, table.pages() - 1, 1));
      if (can_withdraw_last(table))
        --wanted;
      else if (!written.are_all(held, launched_))
        return errc::not_ready;
    }
    const std::size_t held_then = pages_for(table.tokens() + tokens, table.tokens_per_page());
    if (held_then - table.dropped_pages() > most_grantable(group)) return errc::never_fits;
    if (wanted > grantable(group)) return errc::exhausted;
  }
  written.before_growth(held, launched_);
  for (group_type& group : groups_) append(group, request, tokens);
  return errc::ok;
}

// Appends what the group is known to have room for.
template <element E, integrity_policy P, class Listener, class Symbol, class Hash>
void kv_cache<E, P, Listener, Symbol, Hash>::append(group_type& group, request_handle request,
                                                    std::size_t tokens) {
  table_type& table = group.tables[request.slot];
  if (table.writes_shared_page(tokens) && can_withdraw_last(table)) {
    tell(cache_event_kind::withdrawn, group, request, table.handles().last(1));
    index_->withdraw(table.handles().back());
  }
  const std::size_t wanted = table.pages_to_append(tokens);
  const std::size_t free = group.pool.stats().free;
  if (wanted > free)
    index_->evict(wanted - free, [&](handle page) {
      tell(cache_event_kind::evicted, group, {}, {&page, 1});
    });
  page_copy<handle> copy;
  const errc code = table.append(tokens, copy);
  Ensures(code == errc::ok);
  if (copy.tokens != 0) {
    tell(cache_event_kind::released, group, request, {&copy.source, 1});
    group.copies.add(group.pool, copy, launched_);
  }
  tell(cache_event_kind::granted, group, request, table.handles().last(wanted));
}

template <element E, integrity_policy P, class Listener, class Symbol, class Hash>
errc kv_cache<E, P, Listener, Symbol, Hash>::truncate(request_handle request, std::size_t tokens) {
  if (!slots_.is_current(request)) return errc::stale_request;
  for (const group_type& group : groups_) {
    const table_type& table = group.tables[request.slot];
    const std::size_t kept = pages_for(tokens, table.tokens_per_page());
    if (tokens > table.tokens() || tokens < table.dropped_pages() * table.tokens_per_page())
      return errc::outside_row;
    KVPAGE_TRY(group.check(table, kept, table.pages() - kept));
  }
  states_[request.slot].written.after_truncation(tokens);
  for (group_type& group : groups_) give_up_from(group, request, tokens);
  return errc::ok;
}

// Truncates the table in a group where that is known to be possible.
template <element E, integrity_policy P, class Listener, class Symbol, class Hash>
void kv_cache<E, P, Listener, Symbol, Hash>::give_up_from(group_type& group, request_handle request,
                                                          std::size_t tokens) {
  table_type& table = group.tables[request.slot];
  tell(cache_event_kind::released, group, request,
       table.handles().subspan(pages_for(tokens, table.tokens_per_page())));
  const errc code = table.truncate(tokens, launched_);
  Ensures(code == errc::ok);
  group.copies.drop_needless(group.pool, launched_);
}

template <element E, integrity_policy P, class Listener, class Symbol, class Hash>
errc kv_cache<E, P, Listener, Symbol, Hash>::slide(request_handle request, std::size_t settled) {
  if (!slots_.is_current(request)) return errc::stale_request;
  if (settled > groups_[0].tables[request.slot].tokens()) return errc::outside_row;
  for (const group_type& group : groups_) {
    const table_type& table = group.tables[request.slot];
    KVPAGE_TRY(group.check(table, table.dropped_pages(), group.pages_to_drop(table, settled)));
  }
  for (group_type& group : groups_) {
    table_type& table = group.tables[request.slot];
    const std::size_t behind = group.pages_to_drop(table, settled);
    tell(cache_event_kind::released, group, request, table.handles().subspan(table.dropped_pages(), behind));
    const errc code = table.drop_front(behind, launched_);
    Ensures(code == errc::ok);
    group.copies.drop_needless(group.pool, launched_);
  }
  return errc::ok;
}

template <element E, integrity_policy P, class Listener, class Symbol, class Hash>
result<request_handle> kv_cache<E, P, Listener, Symbol, Hash>::fork(request_handle request) {
  if (!slots_.is_current(request)) return errc::stale_request;
  for (const group_type& group : groups_) KVPAGE_TRY(group.check_all(request.slot));
  const auto child = slots_.take();
  if (!child) return errc::exhausted;
  states_[child->slot] = states_[request.slot];
  for (group_type& group : groups_) {
    const errc code = group.tables[request.slot].fork(group.tables[child->slot]);
    Ensures(code == errc::ok);
  }
  return *child;
}

template <element E, integrity_policy P, class Listener, class Symbol, class Hash>
result<std::size_t> kv_cache<E, P, Listener, Symbol, Hash>::publish(request_handle request,
                                                                    const prompt_type& text,
                                                                    std::size_t computed) {
  if (!slots_.is_current(request)) return errc::stale_request;
  if (!index_) return std::size_t{0};
  group_type& group = groups_[0];
  const table_type& table = group.tables[request.slot];
  const std::size_t copied = group.copies.pages_before_copy(table.handles());
  if (copied != table.pages() && computed <= table.tokens())
    computed = (std::min)(computed, copied * table.tokens_per_page());
  return index_->publish(table, text, computed, states_[request.slot].epoch, [&](handle page) {
    tell(cache_event_kind::published, group, request, {&page, 1});
  });
}

template <element E, integrity_policy P, class Listener, class Symbol, class Hash>
errc kv_cache<E, P, Listener, Symbol, Hash>::finish(request_handle request, const prompt_type& text,
                                                    std::size_t computed) {
  if (!slots_.is_current(request)) return errc::stale_request;
  for (const group_type& group : groups_) KVPAGE_TRY(group.check_all(request.slot));
  const errc code = publish(request, text, computed).error();
  if (code != errc::ok && code != errc::stale_epoch) return code;
  for (group_type& group : groups_) {  // a page that is yet to be copied to would wait for a step to come
    const table_type& table = group.tables[request.slot];
    const std::size_t copied = group.copies.pages_before_copy(table.handles());
    if (copied != table.pages()) give_up_from(group, request, copied * table.tokens_per_page());
  }
  end(request);
  return errc::ok;
}

template <element E, integrity_policy P, class Listener, class Symbol, class Hash>
result<std::size_t> kv_cache<E, P, Listener, Symbol, Hash>::abort(request_handle request) {
  if (!slots_.is_current(request)) return errc::stale_request;
  std::size_t left_alone = 0;
  for (group_type& group : groups_) {
    table_type& table = group.tables[request.slot];
    left_alone += table.abandon(launched_, [&](std::span<const handle> pages) {
      tell(cache_event_kind::aborted, group, request, pages);
    });
    group.copies.drop_needless(group.pool, launched_);
  }
  end(request);
  return left_alone;
}

// --- Steps ---

// The request is over; its slot, and the pages it still has, wait for the last step that may touch them.
template <element E, integrity_policy P, class Listener, class Symbol, class Hash>
void kv_cache<E, P, Listener, Symbol, Hash>::end(request_handle request) noexcept {
  slots_.end(request.slot, launched_);
  settle();
}

template <element E, integrity_policy P, class Listener, class Symbol, class Hash>
void kv_cache<E, P, Listener, Symbol, Hash>::settle() noexcept {
  slots_.retire(retired_, [this](request_handle request) {
    for (group_type& group : groups_) {
      group.tables[request.slot].abandon(
          0, [&](std::span<const handle> pages) { tell(cache_event_kind::released, group, request, pages); });
    }
  });
}

template <element E, integrity_policy P, class Listener, class Symbol, class Hash>
void kv_cache<E, P, Listener, Symbol, Hash>::launched(step_number step) noexcept {
  Expects(step > launched_);
  launched_ = step;
  for (group_type& group : groups_) group.copies.launched(group.pool, step);
}

template <element E, integrity_policy P, class Listener, class Symbol, class Hash>
void kv_cache<E, P, Listener, Symbol, Hash>::retire(step_number step) noexcept {
  Expects(step <= launched_);
  retired_ = (std::max)(retired_, step);
  for (group_type& group : groups_) group.pool.retire(step);
  settle();
}

// --- Accounts ---

template <element E, integrity_policy P, class Listener, class Symbol, class Hash>
pool_audit kv_cache<E, P, Listener, Symbol, Hash>::audit() {
  pool_audit found;
  for (const group_type& group : groups_) {
    found = group.pool.audit();
    if (!found.clean()) return found;
  }
  if (!index_) return found;
  const pool_audit of_index = index_->audit();
  return of_index.clean() ? found : of_index;
}

}  // namespace kvpage::inline v0
