// kvpage: published pages, found again by what they hold.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "block_table.hpp"
#include "config.hpp"
#include "error.hpp"
#include "page_pool.hpp"
#include "prefix_hash.hpp"
#include "prefix_salts.hpp"
#include "prefix_tree.hpp"
#include "prompt.hpp"

namespace kvpage::inline v0 {

// Counts the weights that pages were computed with; see prefix_index::advance_epoch.
using prefix_epoch = std::uint64_t;

// The index of one pool: the only one that publishes its pages.  A page is found by its own content, the
// page before it and the salt, all compared exactly; hashes only say where to look.
//
// A published page that nobody references stays cached until evict() takes it, leaf first, least recently
// released first.  A prefix is pinned by holding the table that match_and_retain filled.  Pages under a
// fence (see page_pool::release_after) are not matched until the step has retired.
//
// Memory, all of it allocated by the constructor but for salts: per page of the pool 51 to 62 bytes and its
// symbols.  Not for several threads, no more than the pool.
template <class Pool, class Symbol = token_id, class Hash = prefix_hash>
class prefix_index {
 public:
  using pool_type = Pool;
  using handle = typename Pool::handle;
  using prompt_type = prompt<Symbol>;

  explicit prefix_index(Pool& pool, Hash hash = Hash{},
                        std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : pool_{&pool},
        hash_{std::move(hash)},
        salts_(memory),
        tree_(pool.size(), prompt_type::symbols_per_page(pool.tokens_per_page()), memory),
        path_(pool.size(), memory) {}

  prefix_index(const prefix_index&) = delete;
  prefix_index& operator=(const prefix_index&) = delete;
  ~prefix_index() { clear(); }

  // Fills `table`, which must be empty, with the longest published prefix of `text` and takes a reference
  // to each of its pages.  Returns its tokens: a multiple of the page size that leaves at least one token
  // of the text to compute.
  // O(pages); allocates only if the table's reserved pages do not suffice.
  [[nodiscard]] std::size_t match_and_retain(const prompt_type& text, block_table<Pool>& table) {
    return take(find(text), table);
  }

  // The two halves of match_and_retain, for a caller that decides in between whether to take: nothing may
  // be done to the index or the pool's references from find() to take(), which enforces this.
  struct match {
    std::span<const handle> pages = {};
    std::size_t evictable = 0;  // how many of them would no longer be among evictable()
    std::uint64_t change = 0;
  };
  [[nodiscard]] match find(const prompt_type& text) noexcept;
  [[nodiscard]] std::size_t take(const match& found, block_table<Pool>& table);

  // Publishes the full pages among the first `computed` tokens of a table that holds `text`: tokens whose
  // K and V have been written, or will have been before any later step reads them.  Content that is
  // published already stays where it is, and the table's own page stays the table's; a page that the table
  // has dropped, that is published as something else, or that is in its last generation (evicted, it would
  // not be free), ends it.  Returns how many pages are new.
  //   outside_row: more than the table's tokens; stale_epoch: the table was begun in an `epoch` that is
  //   over; as page_pool::check, where the table's pages are no longer its own.
  // O(computed pages), of which those up to the last that is the table's own and published are not looked at
  // again; allocates for a salt that is new.
  template <class OnPublished>
  [[nodiscard]] result<std::size_t> publish(const block_table<Pool>& table, const prompt_type& text,
                                            std::size_t computed, prefix_epoch epoch,
                                            OnPublished&& on_published);
  [[nodiscard]] result<std::size_t> publish(const block_table<Pool>& table, const prompt_type& text,
                                            std::size_t computed, prefix_epoch epoch) {
    return publish(table, text, computed, epoch, [](handle) {});
  }

  // Frees up to `pages` cached pages, and says how many: all of `pages` if evictable() allows it.  Calls
  // on_evicted(handle) for each.  O(1) a page, amortised.
  template <class OnEvicted>
  std::size_t evict(std::size_t pages, OnEvicted&& on_evicted) noexcept;
  std::size_t evict(std::size_t pages) noexcept {
    return evict(pages, [](handle) {});
  }

  // Ends the publication of a page that whoever holds its only reference wants to write to, unless other
  // pages are published below it.  Returns whether it could.  O(1).
  bool withdraw(handle page) noexcept;
  [[nodiscard]] bool can_withdraw(handle page) const noexcept {
    return pool_->check_referenced(page) == errc::ok && pool_->references(page.id()) == 1 &&
           tree_.contains(page.id()) && tree_.is_leaf(page.id());
  }

  // Forgets every page: cached ones become free, referenced ones will with their last reference.  O(n).
  void clear() noexcept;

  // The weights have changed: forgets every page, and refuses those of tables begun before.  O(n).
  prefix_epoch advance_epoch() noexcept {
    clear();
    return ++epoch_;
  }
  [[nodiscard]] prefix_epoch epoch() const noexcept { return epoch_; }

  // Published pages, and those among them that evict() could take.  O(pages cached since the last call).
  [[nodiscard]] std::size_t pages() const noexcept { return tree_.size(); }
  [[nodiscard]] std::size_t evictable() noexcept {
    sync();
    return tree_.evictable();
  }

  // Proves that the index and the pool agree on every page.  O(n); allocates.
  [[nodiscard]] pool_audit audit();

 private:
  using parent_type = detail::prefix_parent;

  // A walk down the tree along a text, page by page.
  struct walk {
    parent_type parent;
    std::uint32_t hash;
  };
  [[nodiscard]] std::uint32_t hash_after(const walk& at, std::span<const Symbol> page) const noexcept {
    const std::uint64_t hash = hash_(at.hash, page);
    return static_cast<std::uint32_t>(hash ^ (hash >> 32));
  }
  // How many pages before their lookup find() hashes them, and loads what the lookup reads.
  static constexpr std::size_t hashed_ahead = 4, loaded_ahead = 2;
  [[nodiscard]] static walk begin(detail::salt_table::root root) noexcept {
    return {parent_type::root(root), root};
  }
  [[nodiscard]] std::span<const Symbol> content(const prompt_type& text, std::size_t page) const noexcept {
    return text.symbols.subspan(page * symbols_per_page(), symbols_per_page());
  }
  [[nodiscard]] std::size_t symbols_per_page() const noexcept {
    return prompt_type::symbols_per_page(pool_->tokens_per_page());
  }
  // Full pages among the text's first `tokens` tokens.
  [[nodiscard]] std::size_t full_pages(const prompt_type& text, std::size_t tokens) const noexcept {
    return (std::min)(tokens / pool_->tokens_per_page(), text.symbols.size() / symbols_per_page());
  }

  [[nodiscard]] bool is_takeable(page_id page) const noexcept {
    const page_state state = pool_->state(page);
    return (state == page_state::cached ||
            (state == page_state::live && pool_->references(page) < detail::page_use::max_references)) &&
           pool_->check(tree_.handle(page)) == errc::ok;
  }

  template <class OnPublished>
  void publish_below(walk at, std::size_t i, std::span<const handle> pages, const prompt_type& text,
                     OnPublished& on_published);
  void erase(handle page) noexcept;

  // Hears of the pages that lost their last reference.  Each is marked while the next one is being loaded.
  void sync() noexcept {
    page_id page = null_page;
    const auto mark_page = [&] {
      if (page == null_page) return;
      tree_.mark_cached(page);
      ++change_;
    };
    pool_->drain_newly_cached([&](page_id next) {
      tree_.prefetch(next);
      mark_page();
      page = next;
    });
    mark_page();
  }

  Pool* pool_;
  [[no_unique_address]] Hash hash_;
  detail::salt_table salts_;
  detail::prefix_tree<handle, Symbol> tree_;
  std::pmr::vector<handle> path_;  // what find() found
  prefix_epoch epoch_ = 1;
  std::uint64_t change_ = 0;
};

template <class Pool, class Symbol, class Hash>
auto prefix_index<Pool, Symbol, Hash>::find(const prompt_type& text) noexcept -> match {
  sync();
  ++change_;  // path_ is overwritten: what was found before can no longer be taken
  const auto root = salts_.find(text.salt);
  if (!root || text.tokens == 0) return {.change = change_};
  const std::size_t most = full_pages(text, text.tokens - 1);
  std::size_t count = 0, evictable = 0;
  // Hashes depend on the text alone: they run ahead of the lookups, so that what those read is on its way.
  // A prompt whose first page is not found costs one hash.
  std::array<std::uint32_t, hashed_ahead> hashes{};
  std::size_t hashed = 0;
  walk ahead = begin(*root);
  for (parent_type parent = ahead.parent; count < most; ++count) {
    const std::size_t to_hash = count == 0 ? 1 : (std::min)(count + hashed_ahead, most);
    for (; hashed < to_hash; ++hashed) {
      ahead.hash = hash_after(ahead, content(text, hashed));
      hashes[hashed % hashed_ahead] = ahead.hash;
      tree_.prefetch_bucket(ahead.hash);
    }
    if (count + loaded_ahead < hashed)
      pool_->prefetch(tree_.prefetch_found(hashes[(count + loaded_ahead) % hashed_ahead]));
    const page_id page = tree_.find(parent, hashes[count % hashed_ahead], content(text, count));
    if (page == null_page || !is_takeable(page)) break;
    path_[count] = tree_.handle(page);
    evictable += tree_.is_evictable(page);
    parent = parent_type::page(page);
  }
  return {std::span{path_}.first(count), evictable, change_};
}

template <class Pool, class Symbol, class Hash>
std::size_t prefix_index<Pool, Symbol, Hash>::take(const match& found, block_table<Pool>& table) {
  sync();
  Expects(found.change == change_ && table.pages() == 0);
  table.adopt(found.pages);  // first, because it may throw
  for (const handle& page : found.pages) {
    const bool is_cached = pool_->state(page.id()) == page_state::cached;
    if (is_cached) tree_.mark_referenced(page.id());
    const errc code = is_cached ? pool_->revive(page) : pool_->retain({&page, 1});
    Ensures(code == errc::ok);  // find() has checked
  }
  ++change_;
  return table.tokens();
}

template <class Pool, class Symbol, class Hash>
template <class OnPublished>
result<std::size_t> prefix_index<Pool, Symbol, Hash>::publish(const block_table<Pool>& table,
                                                              const prompt_type& text, std::size_t computed,
                                                              prefix_epoch epoch,
                                                              OnPublished&& on_published) {
  if (epoch != epoch_) return errc::stale_epoch;
  if (computed > table.tokens()) return errc::outside_row;
  const std::span<const handle> pages = table.handles().first(full_pages(text, computed));
  std::size_t known = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (pages[i].is_null()) continue;
    KVPAGE_TRY(pool_->check(pages[i]));
    if (pool_->is_published(pages[i].id())) known = i + 1;
  }
  if (known == pages.size()) return std::size_t{0};
  sync();
  const std::size_t before = tree_.size();
  ++change_;
  if (known != 0) {
    const page_id last = pages[known - 1].id();
    if (tree_.holds(last, content(text, known - 1)))
      publish_below({parent_type::page(last), tree_.hash(last)}, known, pages, text, on_published);
  } else {
    const detail::salt_table::root root = salts_.find_or_add(text.salt);
    salts_.hang(root);  // so that the salt stays known while nothing is published under it yet
    publish_below(begin(root), 0, pages, text, on_published);
    salts_.unhang(root);
  }
  return tree_.size() - before;
}

// Goes on along the text with page `i`, from where it has come.
template <class Pool, class Symbol, class Hash>
template <class OnPublished>
void prefix_index<Pool, Symbol, Hash>::publish_below(walk at, std::size_t i, std::span<const handle> pages,
                                                     const prompt_type& text, OnPublished& on_published) {
  for (; i < pages.size(); ++i) {
    at.hash = hash_after(at, content(text, i));
    page_id page = tree_.find(at.parent, at.hash, content(text, i));
    if (page == null_page) {
      const handle own = pages[i];
      if (own.is_null() || tree_.contains(own.id()) || pool_->is_last_grant(own.id())) break;
      const errc code = pool_->publish(own);
      Ensures(code == errc::ok);  // checked above
      tree_.insert(own, at.parent, at.hash, content(text, i));
      if (at.parent.is_root()) salts_.hang(at.parent.number());
      on_published(own);
      page = own.id();
    }
    at.parent = parent_type::page(page);
  }
}

template <class Pool, class Symbol, class Hash>
template <class OnEvicted>
std::size_t prefix_index<Pool, Symbol, Hash>::evict(std::size_t pages, OnEvicted&& on_evicted) noexcept {
  sync();
  ++change_;
  std::size_t evicted = 0;
  while (evicted < pages) {
    const page_id victim = tree_.next_victim();
    if (victim == null_page) break;
    pool_->prefetch(tree_.second_oldest());
    const handle page = tree_.handle(victim);
    erase(page);
    on_evicted(page);
    ++evicted;
  }
  return evicted;
}

template <class Pool, class Symbol, class Hash>
bool prefix_index<Pool, Symbol, Hash>::withdraw(handle page) noexcept {
  if (!can_withdraw(page)) return false;
  ++change_;
  erase(page);
  return true;
}

// Takes a leaf out of the tree, its salt with the last of its pages, and the page out of publication.
template <class Pool, class Symbol, class Hash>
void prefix_index<Pool, Symbol, Hash>::erase(handle page) noexcept {
  const parent_type parent = tree_.parent(page.id());
  tree_.erase(page.id());
  if (parent.is_root()) salts_.unhang(parent.number());
  const errc code = pool_->withdraw(page);
  Ensures(code == errc::ok);
}

template <class Pool, class Symbol, class Hash>
void prefix_index<Pool, Symbol, Hash>::clear() noexcept {
  sync();
  ++change_;
  for (page_id page = 1; page < pool_->size(); ++page) {
    if (!tree_.contains(page)) continue;
    const errc code = pool_->withdraw(tree_.handle(page));
    Ensures(code == errc::ok);
  }
  tree_.clear();
  salts_.clear();
}

template <class Pool, class Symbol, class Hash>
pool_audit prefix_index<Pool, Symbol, Hash>::audit() {
  sync();
  for (page_id page = 1; page < pool_->size(); ++page) {
    if (pool_->is_published(page) != tree_.contains(page))
      return {page, "published, but not in the index, or the reverse"};
    if (!tree_.contains(page)) continue;
    if (pool_->check(tree_.handle(page)) != errc::ok) return {page, "in the index under another generation"};
    if (tree_.is_cached(page) != (pool_->state(page) == page_state::cached))
      return {page, "the index and the pool disagree on whether it is referenced"};
  }
  return tree_.audit();
}

}  // namespace kvpage::inline v0
