// kvpage: the published pages as a tree of prefixes, with the order in which they may be evicted.
//
// Knows page ids and content, not ownership: prefix_index keeps it in step with the pool.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "config.hpp"
#include "error.hpp"
#include "page_audit.hpp"
#include "page_buckets.hpp"

namespace kvpage::inline v0::detail {

// What a page hangs from: the page before it in its prefix, or the root of its salt.
class prefix_parent {
 public:
  static constexpr prefix_parent page(page_id id) noexcept { return prefix_parent{id}; }
  static constexpr prefix_parent root(std::uint32_t number) noexcept {
    return prefix_parent{number | root_bit};
  }

  [[nodiscard]] constexpr bool is_root() const noexcept { return (word_ & root_bit) != 0; }
  [[nodiscard]] constexpr std::uint32_t number() const noexcept {
    return word_ & ~root_bit;
  }  // page id or root

  friend bool operator==(const prefix_parent&, const prefix_parent&) = default;

 private:
  static constexpr std::uint32_t root_bit = std::uint32_t{1} << 31;
  constexpr explicit prefix_parent(std::uint32_t word) noexcept : word_{word} {}

  std::uint32_t word_;
};

// One node per page of the pool, allocated once: 32 bytes, its content, and its share of the buckets.
//
// Eviction is leaf first, least recently cached first, O(1) amortised: a page with children that comes up
// for eviction leaves the list and comes back, as the oldest, with the loss of its last child.
template <class Handle, class Symbol>
class prefix_tree {
 public:
  prefix_tree(std::size_t pages, std::size_t symbols_per_page, std::pmr::memory_resource* memory)
      : nodes_(pages, memory),
        symbols_(pages * symbols_per_page, memory),
        buckets_(pages, memory),
        symbols_per_page_{symbols_per_page} {
    nodes_[null_page].newer = null_page;
  }

  // The page with this content below `parent`; null_page if there is none.
  [[nodiscard]] page_id find(prefix_parent parent, std::uint32_t hash,
                             std::span<const Symbol> content) const noexcept {
    return buckets_.find(hash,
                         [&](page_id page) { return nodes_[page].parent == parent && holds(page, content); });
  }

  // Begin to load a page; what find() will read for a hash: its bucket, and once that is there the page, if any.
  void prefetch(page_id page) const noexcept { __builtin_prefetch(&nodes_[page]); }
  void prefetch_bucket(std::uint32_t hash) const noexcept { buckets_.prefetch(hash); }
  page_id prefetch_found(std::uint32_t hash) const noexcept {
    const page_id page = buckets_.find(hash, [](page_id) { return true; });
    prefetch(page);
    const auto symbols = content(page);
    for (std::size_t i = 0; i < symbols.size(); i += symbols_per_line) __builtin_prefetch(&symbols[i]);
    return page;
  }

  // Adds a referenced page, which is not in the tree yet.
  void insert(Handle handle, prefix_parent parent, std::uint32_t hash,
              std::span<const Symbol> content) noexcept {
    const page_id page = handle.id();
    Expects(!contains(page));
    nodes_[page] = {.handle = handle, .hash = hash, .parent = parent};
    buckets_.insert(hash, page);
    std::ranges::copy(content, symbols_.begin() + static_cast<std::ptrdiff_t>(page * symbols_per_page_));
    ++size_;
    if (!parent.is_root()) {
      ++nodes_[parent.number()].children;
      if (nodes_[parent.number()].blocking_children++ == 0 && is_cached(parent.number()))
        become_unevictable(parent.number());
    }
  }

  // Nobody references the page any more: it may be evicted once its children have been.
  void mark_cached(page_id page) noexcept {
    Expects(contains(page));
    link(page, newest());
    if (nodes_[page].blocking_children == 0) become_evictable(page);
  }

  // Somebody references the page again.
  void mark_referenced(page_id page) noexcept {
    unlink(page);
    nodes_[page].newer = not_cached;
    if (nodes_[page].blocking_children == 0) become_unevictable(page);
  }

  // The page to evict next; null_page if there is none.
  [[nodiscard]] page_id next_victim() noexcept {
    while (oldest() != null_page && nodes_[oldest()].children != 0) unlink(oldest());
    const page_id victim = oldest();
    const node& following = nodes_[nodes_[victim].newer];  // fetched when this victim came up
    prefetch_bucket(following.hash);
    if (following.newer < unlisted) prefetch(following.newer);
    return victim;
  }
  // The page that comes up after it, if it has no children.
  [[nodiscard]] page_id second_oldest() const noexcept { return nodes_[oldest()].newer; }

  // Removes a page without children.
  void erase(page_id page) noexcept {
    node& erased = nodes_[page];
    Expects(contains(page) && erased.children == 0);
    buckets_.erase(erased.hash, page);
    unlink(page);
    --size_;
    if (is_cached(page))
      --evictable_;
    else
      unblock(erased.parent);
    if (!erased.parent.is_root()) {
      const page_id parent = erased.parent.number();
      if (--nodes_[parent].children == 0 && nodes_[parent].newer == unlisted) link(parent, null_page);
    }
    erased = {};
  }

  void clear() noexcept {
    std::ranges::fill(nodes_, node{});
    nodes_[null_page].newer = null_page;
    buckets_.clear();
    size_ = evictable_ = 0;
  }

  [[nodiscard]] bool contains(page_id page) const noexcept { return !nodes_[page].handle.is_null(); }
  [[nodiscard]] Handle handle(page_id page) const noexcept { return nodes_[page].handle; }
  [[nodiscard]] prefix_parent parent(page_id page) const noexcept { return nodes_[page].parent; }
  [[nodiscard]] std::uint32_t hash(page_id page) const noexcept { return nodes_[page].hash; }
  [[nodiscard]] bool holds(page_id page, std::span<const Symbol> wanted) const noexcept {
    return std::ranges::equal(content(page), wanted);
  }

  [[nodiscard]] bool is_leaf(page_id page) const noexcept { return nodes_[page].children == 0; }
  [[nodiscard]] bool is_cached(page_id page) const noexcept { return nodes_[page].newer != not_cached; }

  // Whether the page is cached and so is everything below it.
  [[nodiscard]] bool is_evictable(page_id page) const noexcept {
    return is_cached(page) && nodes_[page].blocking_children == 0;
  }

  // The first page whose links, counts or bucket are wrong, if any.  O(n); allocates 8 bytes a page.
  [[nodiscard]] pool_audit audit() const {
    std::vector<std::uint32_t> children(nodes_.size()), blocking(nodes_.size());
    std::size_t present = 0, evictable = 0, listed = 0;
    for (page_id page = 1; page < nodes_.size(); ++page) {
      if (!contains(page)) continue;
      const node& n = nodes_[page];
      ++present;
      evictable += is_evictable(page);
      listed += is_listed(page);
      if (!n.parent.is_root()) {
        if (!contains(n.parent.number())) return {page, "its parent has left the index"};
        ++children[n.parent.number()];
        blocking[n.parent.number()] += !is_evictable(page);
      }
      if (buckets_.find(n.hash, [=](page_id found) { return found == page; }) != page)
        return {page, "not to be found by its hash"};
      if (is_listed(page) && !is_cached(page)) return {page, "up for eviction while referenced"};
      if (is_cached(page) && !is_listed(page) && n.children == 0)
        return {page, "cached, but never evicted: leaked"};
    }
    for (page_id page = 1; page < nodes_.size(); ++page) {
      if (nodes_[page].children != children[page] || nodes_[page].blocking_children != blocking[page])
        return {page, "its children are miscounted"};
    }
    for (page_id page = oldest(); page != null_page && listed != 0; page = nodes_[page].newer) --listed;
    if (listed != 0 || present != size_ || evictable != evictable_)
      return {null_page, "the index's counters do not agree with its pages"};
    return {};
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t evictable() const noexcept { return evictable_; }

 private:
  // What `newer` says of a page that is not in the list.
  static constexpr page_id not_cached = ~page_id{0};
  static constexpr page_id unlisted = not_cached - 1;  // cached, and waiting for its children to go

  static constexpr std::size_t symbols_per_line = sizeof(Symbol) < 64 ? 64 / sizeof(Symbol) : 1;

  struct alignas(32) node {  // half a cache line
    Handle handle;           // null: the page is not in the tree
    std::uint32_t hash = 0;
    prefix_parent parent = prefix_parent::root(0);
    page_id older = null_page;  // the list of cached pages; node 0 closes the ring
    page_id newer = not_cached;
    std::uint32_t children = 0;
    std::uint32_t blocking_children = 0;  // those that are not evictable
  };

  [[nodiscard]] std::span<const Symbol> content(page_id page) const noexcept {
    return std::span{symbols_}.subspan(page * symbols_per_page_, symbols_per_page_);
  }

  [[nodiscard]] bool is_listed(page_id page) const noexcept { return nodes_[page].newer < unlisted; }
  [[nodiscard]] page_id oldest() const noexcept { return nodes_[null_page].newer; }
  [[nodiscard]] page_id newest() const noexcept { return nodes_[null_page].older; }

  void link(page_id page, page_id after) noexcept {
    const page_id before = nodes_[after].newer;
    nodes_[page].older = after;
    nodes_[page].newer = before;
    nodes_[after].newer = nodes_[before].older = page;
  }

  void unlink(page_id page) noexcept {
    if (!is_listed(page)) return;
    nodes_[nodes_[page].older].newer = nodes_[page].newer;
    nodes_[nodes_[page].newer].older = nodes_[page].older;
    nodes_[page].newer = unlisted;
  }

  // Nothing blocks the cached page any more; nor, perhaps, its ancestors.
  void become_evictable(page_id page) noexcept {
    ++evictable_;
    unblock(nodes_[page].parent);
  }
  void unblock(prefix_parent parent) noexcept {
    while (!parent.is_root()) {
      node& unblocked = nodes_[parent.number()];
      if (--unblocked.blocking_children != 0 || unblocked.newer == not_cached) return;
      ++evictable_;
      parent = unblocked.parent;
    }
  }

  // The reverse.
  void become_unevictable(page_id page) noexcept {
    for (;;) {
      --evictable_;
      if (nodes_[page].parent.is_root()) return;
      page = nodes_[page].parent.number();
      if (nodes_[page].blocking_children++ != 0 || !is_cached(page)) return;
    }
  }

  std::pmr::vector<node> nodes_;
  std::pmr::vector<Symbol> symbols_;
  page_buckets buckets_;
  std::size_t symbols_per_page_;
  std::size_t size_ = 0;
  std::size_t evictable_ = 0;
};

}  // namespace kvpage::inline v0::detail
