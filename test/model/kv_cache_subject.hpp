// A kv_cache with steps in flight.  The oracle knows who holds which page, what each page was written with,
// what is published, and until when a launched step may touch a page: it predicts every result and judges
// every page after every operation.
#pragma once

#include <kvpage/kv_cache.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "operation.hpp"

namespace kvpage_model {

using kvpage::errc;
using kvpage::page_id;
using kvpage::page_state;
using kvpage::request_handle;
using kvpage::step_number;
using kvpage::token_id;

// A second page group, with a window, leaves no prefix cache.
template <class Policy, class Hash = kvpage::prefix_hash, bool TwoGroups = false>
class kv_cache_subject {
 public:
  kv_cache_subject() : cache_(options(), listener{this}) {
    for (std::size_t g = 0; g < cache_.groups(); ++g) groups_.emplace_back(cache_.pool(g).size());
  }

  void apply(const operation& next) {
    const auto [what, a, b, c] = next;
    evicted_.clear();
    ++now_;
    const std::size_t chosen = running_.empty() ? 0 : a % running_.size();
    switch (what % 16) {
      case 0:
      case 1:
      case 2: return admit(text_of(a, b, c), c % 4);
      case 3: return end_dead_request(a);
      case 4: return b % 8 == 0 ? advance_epoch() : pin(text_of(a, b, c));
      case 5:
      case 6: return launch(1 + a % 3);
      case 7: return retire(b);
      default: break;
    }
    if (running_.empty()) return;
    switch (what % 16) {
      case 8:
      case 9: return grow(running_[chosen], 1 + b % 5, c);
      case 10: return truncate(running_[chosen], b % (max_tokens + 2));
      case 11: return slide(running_[chosen], b % (max_tokens + 2));
      case 12: return publish(running_[chosen], b);
      case 13: return finish(chosen);
      case 14: return abort(chosen);
      default: return fork(running_[chosen]);
    }
  }

  // Every page, every table.
  void compare() {
    const bool at_rest = launched_ == retired_;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const auto held = references(g);
      const pool_type& pool = cache_.pool(g);
      for (page_id id = 1; id < pool.size(); ++id) {
        page& known = at(g, id);
        const page_state state = pool.state(id);
        const bool published = g == 0 && is_published(id);
        require(pool.references(id) == held[id], "another number of references");
        require((state == page_state::live) == (held[id] != 0), "live, or not, without reason");
        require(pool.is_published(id) == published, "published, or not, without reason");
        require(state != page_state::cached || published, "cached without being published");
        require(state != page_state::free || !published, "free though published");
        if (held[id] == 0 && known.needed_until > retired_)
          require(state == page_state::fenced, "reusable while a launched step may touch it");
        if (at_rest) require(state != page_state::fenced, "fenced for nothing");
        if (state == page_state::cached && known.state != page_state::cached) known.cached_since = now_;
        known.state = state;
      }
      for (const request& row : running_)
        require(std::ranges::equal(handles(row.name, g), row.pages[g]), "a table has changed");
    }
    note_dead_pages();
    require(cache_.audit().clean(), "the audit finds something");
  }

  // Everything ends, and nothing may be left.
  void audit() {
    while (!running_.empty()) abort(running_.size() - 1);
    pins_.clear();
    retired_ = launched_;
    cache_.retire(retired_);
    settle();
    compare();
    for (std::size_t g = 0; g < groups_.size(); ++g)
      require(cache_.pool(g).stats().live == 0 && cache_.pool(g).stats().fenced == 0, "pages have leaked");
  }

 private:
  using pool_type = kvpage::page_pool<kvpage::bf16, Policy>;
  using handle = typename pool_type::handle;
  using table = kvpage::block_table<pool_type>;
  static constexpr bool is_tagged = Policy::is_tagged;

  struct listener {
    void operator()(const auto& event) const {
      if (event.kind == kvpage::cache_event_kind::evicted)
        for (const handle& page : event.pages) run->evicted_.push_back(page.id());
    }
    kv_cache_subject* run;
  };

  static constexpr std::size_t page_size = 2;
  static constexpr std::size_t window = 5;
  static constexpr std::size_t max_requests = 6;
  static constexpr std::size_t max_tokens = 24;
  static constexpr std::size_t watermark = 1;

  static kvpage::kv_cache_options options() {
    kvpage::kv_cache_options chosen{.groups = {{.pages = 1 + 16}},
                                    .tokens_per_page = page_size,
                                    .max_requests = max_requests,
                                    .max_tokens_per_request = max_tokens,
                                    .watermark = watermark};
    if (TwoGroups) chosen.groups.push_back({.pages = 1 + 12, .window = window});
    return chosen;
  }

  // What K and V of a token are computed from: the salt and every token up to it, a character each.
  using text = std::string;

  struct request {
    request_handle name{};
    text tokens{};             // the salt in front
    std::size_t computed = 0;  // tokens that launched steps have written
    std::size_t epoch = 0;
    std::vector<std::vector<handle>> pages{};  // per group; null: dropped
    step_number settles_at = 0;

    [[nodiscard]] std::size_t size() const { return tokens.size() - 1; }
    [[nodiscard]] std::size_t dropped(std::size_t group) const {
      return static_cast<std::size_t>(
          std::ranges::count_if(pages[group], [](const auto& page) { return page.is_null(); }));
    }
  };

  struct page {
    std::vector<text> written = std::vector<text>(page_size);
    step_number needed_until = 0;  // a step that may touch it
    page_state state = page_state::free;
    std::uint64_t cached_since = 0;
  };
  using group = std::vector<page>;

  // --- Operations ---

  // Few authors and an alphabet of two: texts often share their beginnings.
  static text text_of(std::uint8_t a, std::uint8_t b, std::uint8_t c) {
    text made(1, static_cast<char>('A' + a / 3 % 2));
    for (std::size_t i = 0; i < 1u + b % 22u; ++i) {
      const std::size_t bit = i / (1u + a % 3u) + (i >= c % 32u ? 1u : 0u);
      made.push_back(static_cast<char>('0' + bit % 2));
    }
    return made;
  }

  void admit(const text& asked, std::size_t reserve) {
    const std::size_t tokens = asked.size() - 1;
    const std::vector<page_id> matched = match(asked);
    errc expected = errc::ok;
    std::size_t missing = 0;
    if (tokens + reserve > max_tokens) expected = errc::never_fits;
    for (std::size_t g = 0; g < groups_.size() && expected == errc::ok; ++g) {
      const std::size_t wanted = kvpage::pages_for(tokens + reserve, page_size) + watermark;
      const std::size_t available =
          matched.size() + count(g, page_state::free) + evictable(g, matched).size();
      if (wanted > most_grantable(g)) expected = errc::never_fits;
      missing = (std::max)(missing, wanted - (std::min)(wanted, available));
    }
    if (expected == errc::ok && (missing != 0 || !has_slot())) expected = errc::exhausted;

    const auto admitted = ask([&](const auto& prompt) { return cache_.admit(prompt, reserve); }, asked);
    require(admitted.code == expected, "admit: another result");
    if (expected == errc::exhausted) require(admitted.missing_pages == missing, "admit: other pages missing");
    if (expected != errc::ok) return require(evicted_.empty(), "admit: evicted and then refused");
    require(admitted.cached_tokens == matched.size() * page_size, "admit: matched another prefix");
    judge_evictions(matched);
    request added{
        .name = admitted.request, .tokens = asked, .computed = admitted.cached_tokens, .epoch = epoch_};
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const auto pages = handles(admitted.request, g);
      require(pages.size() == kvpage::pages_for(tokens, page_size), "admit: another number of pages");
      for (std::size_t i = 0; i < pages.size(); ++i) {
        if (g == 0 && i < matched.size()) {
          require(pages[i].id() == matched[i], "admit: another page than the published one");
        } else {
          take_fresh(g, pages[i]);
        }
      }
      added.pages.push_back(pages);
    }
    running_.push_back(added);
  }

  void grow(request& row, std::size_t tokens, std::uint8_t bits) {
    errc expected = row.size() + tokens > max_tokens ? errc::never_fits : errc::ok;
    std::vector<std::size_t> kept(groups_.size());  // entries that stay what they are
    for (std::size_t g = 0; g < groups_.size() && expected == errc::ok; ++g) {
      const std::size_t held = row.pages[g].size(), then = kvpage::pages_for(row.size() + tokens, page_size);
      const bool copies = row.size() % page_size != 0 && is_shared(g, row.pages[g].back().id()) &&
                          !can_withdraw(g, row.pages[g].back().id());
      kept[g] = copies ? held - 1 : held;
      if (copies && row.computed != row.size()) {
        expected = errc::not_ready;
      } else if (then - row.dropped(g) > most_grantable(g)) {
        expected = errc::never_fits;
      } else if (then - kept[g] > count(g, page_state::free) + evictable(g, {}).size()) {
        expected = errc::exhausted;
      }
    }
    require(cache_.grow(row.name, tokens) == expected, "grow: another result");
    if (expected != errc::ok) return require(evicted_.empty(), "grow: evicted and then refused");
    if (row.size() % page_size != 0 && !row.pages[0].empty()) withdraw(row.pages[0].back().id());
    judge_evictions({});
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const auto pages = handles(row.name, g);
      require(std::ranges::equal(std::span(pages).first(kept[g]), std::span(row.pages[g]).first(kept[g])),
              "grow: changed other entries");
      for (const handle& fresh : std::span(pages).subspan(kept[g])) take_fresh(g, fresh);
      row.pages[g] = pages;
    }
    for (std::size_t i = 0; i < tokens; ++i) row.tokens.push_back(static_cast<char>('0' + (bits >> i) % 2));
  }

  void truncate(request& row, std::size_t tokens) {
    bool possible = tokens <= row.size();
    for (std::size_t g = 0; g < groups_.size(); ++g)
      possible = possible && tokens >= row.dropped(g) * page_size;
    require(cache_.truncate(row.name, tokens) == (possible ? errc::ok : errc::outside_row), "truncate");
    if (!possible) return;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const std::size_t kept = kvpage::pages_for(tokens, page_size);
      for (const handle& given_up : std::span(row.pages[g]).subspan(kept)) need(g, given_up.id(), launched_);
      row.pages[g].resize(kept);
    }
    row.tokens.resize(tokens + 1);
    row.computed = (std::min)(row.computed, tokens);
  }

  void slide(request& row, std::size_t settled) {
    if (settled > row.computed && settled <= row.size()) settled = row.computed;  // else it is written behind
    const bool possible = settled <= row.size();
    require(cache_.slide(row.name, settled) == (possible ? errc::ok : errc::outside_row), "slide");
    if (!possible || !TwoGroups) return;
    for (std::size_t i = 0; (i + 1) * page_size + window <= settled + 1; ++i) {
      handle& entry = row.pages[1][i];
      if (!entry.is_null()) need(1, entry.id(), launched_);
      entry = handle{};
    }
  }

  void publish(request& row, std::size_t computed) {
    computed = (std::min)(computed % (max_tokens + 1), row.computed);
    const bool stale = !TwoGroups && row.epoch != epoch_;
    const std::size_t added = stale ? 0 : add_to_index(row, computed);
    const auto got =
        ask([&](const auto& prompt) { return cache_.publish(row.name, prompt, computed); }, row.tokens);
    require(got.error() == (stale ? errc::stale_epoch : errc::ok), "publish: another result");
    if (!stale) require(*got == added, "publish: another number of pages");
  }

  void finish(std::size_t chosen) {
    request& row = running_[chosen];
    if (row.epoch == epoch_) add_to_index(row, row.computed);
    row.settles_at = launched_;
    std::vector<std::size_t> kept(groups_.size());
    for (std::size_t g = 0; g < groups_.size(); ++g) kept[g] = pages_before_copy(g, row);
    const errc code =
        ask([&](const auto& prompt) { return cache_.finish(row.name, prompt, row.computed); }, row.tokens);
    require(code == errc::ok, "finish");
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (const handle& given_up : std::span(row.pages[g]).subspan(kept[g]))
        need(g, given_up.id(), launched_);
      row.pages[g].resize(kept[g]);
    }
    settling_.push_back(row);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(chosen));
    settle();
  }

  void abort(std::size_t chosen) {
    request& row = running_[chosen];
    row.settles_at = launched_;
    const auto left_alone = cache_.abort(row.name);
    require(left_alone.error() == errc::ok && *left_alone == 0, "abort");
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (const handle& given_up : row.pages[g]) need(g, given_up.id(), row.settles_at);
      row.pages[g].clear();
    }
    settling_.push_back(row);  // its slot
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(chosen));
    settle();
  }

  void fork(const request& row) {
    const errc expected = has_slot() ? errc::ok : errc::exhausted;
    const auto child = cache_.fork(row.name);
    require(child.error() == expected, "fork: another result");
    if (expected != errc::ok) return;
    request added = row;
    added.name = *child;
    running_.push_back(added);
  }

  // The copies, side by side; then every row writes its new tokens and reads everything.
  void launch(step_number numbers) {
    launched_ += numbers;  // steps may be left out
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      std::vector<std::vector<text>> sources;
      for (const auto& copy : cache_.copies(g)) {
        sources.push_back(at(g, copy.source.id()).written);
        need(g, copy.source.id(), launched_);
        for (const auto& other : cache_.copies(g))
          require(other.destination != copy.source, "a copy reads what another writes");
        require(cache_.pool(g).references(copy.destination.id()) != 0, "a copy that nobody wants");
      }
      for (std::size_t i = 0; i < sources.size(); ++i) {
        const auto& copy = cache_.copies(g)[i];
        std::copy_n(sources[i].begin(), copy.tokens, at(g, copy.destination.id()).written.begin());
      }
    }
    cache_.launched(launched_);
    for (request& row : running_) {
      for_each_token(row, row.computed, [](text& written, text expected) { written = std::move(expected); });
      row.computed = row.size();
    }
    for (const request& row : running_) {
      for_each_token(row, 0, [](const text& written, const text& expected) {
        require(written == expected, "a row reads what is not its own");
      });
    }
  }

  void retire(std::uint8_t b) {
    retired_ += b % (launched_ - retired_ + 1);
    cache_.retire(retired_);
    settle();
  }

  void pin(const text& asked) {
    if (pins_.size() == 2) {
      require(pins_.front().release() == errc::ok, "unpin");
      pins_.erase(pins_.begin());
      return;
    }
    const std::vector<page_id> matched = match(asked);
    pins_.emplace_back(cache_.pool());
    const auto found = ask([&](const auto& prompt) { return cache_.pin(prompt, pins_.back()); }, asked);
    require(found == matched.size() * page_size, "pin: matched another prefix");
    for (std::size_t i = 0; i < matched.size(); ++i)
      require(pins_.back().handles()[i].id() == matched[i], "pin: another page than the published one");
  }

  void advance_epoch() {
    cache_.advance_epoch();
    if (!TwoGroups) ++epoch_;
    published_.clear();
  }

  // What comes late for a request that has ended reaches nobody.
  void end_dead_request(std::uint8_t a) {
    if (dead_.empty()) return;
    const request_handle late = dead_[a % dead_.size()];
    require(cache_.abort(late).error() == errc::stale_request, "a dead request was aborted");
    require(cache_.grow(late, 1) == errc::stale_request, "a dead request grew");
    require(cache_.table(late) == nullptr, "a dead request has a table");
    if constexpr (is_tagged) {
      for (const handle& gone : dead_pages_)
        require(cache_.pool().release({&gone, 1}) != errc::ok, "a dead handle released a page");
    }
  }

  void settle() {
    while (!settling_.empty() && settling_.front().settles_at <= retired_) {
      dead_.push_back(settling_.front().name);
      settling_.erase(settling_.begin());
    }
  }

  // --- The index, as the model has it: published content, each with its page ---

  [[nodiscard]] static text prefix(const text& of, std::size_t pages) {
    return of.substr(0, 1 + pages * page_size);
  }

  [[nodiscard]] std::vector<page_id> match(const text& asked) const {
    std::vector<page_id> found;
    if (asked.size() == 1) return found;
    while (found.size() < (asked.size() - 2) / page_size) {  // one token is left to compute
      const auto next = published_.find(prefix(asked, found.size() + 1));
      if (next == published_.end()) break;
      if (groups_[0][next->second].state == page_state::fenced) break;
      found.push_back(next->second);
    }
    return found;
  }

  [[nodiscard]] bool is_published(page_id id) const {
    return std::ranges::any_of(published_, [&](const auto& entry) { return entry.second == id; });
  }

  std::size_t add_to_index(const request& row, std::size_t computed) {
    if (TwoGroups) return 0;
    std::size_t added = 0;
    for (std::size_t i = 1; i <= (std::min)(computed / page_size, pages_before_copy(0, row)); ++i) {
      if (published_.contains(prefix(row.tokens, i))) continue;
      const page_id own = row.pages[0][i - 1].id();
      if (is_published(own) || cache_.pool().is_last_grant(own)) break;
      published_.emplace(prefix(row.tokens, i), own);
      ++added;
    }
    return added;
  }

  // Cached pages below which everything is cached, but for `taken`.
  [[nodiscard]] std::set<page_id> evictable(std::size_t g, const std::vector<page_id>& taken) const {
    std::set<page_id> blocked(taken.begin(), taken.end()), can_go;
    if (g != 0) return can_go;
    for (auto entry = published_.rbegin(); entry != published_.rend(); ++entry) {  // longer texts first
      const auto& [content, id] = *entry;
      bool goes = groups_[0][id].state == page_state::cached && !blocked.contains(id);
      for (const auto& [other, below] : published_) {
        const bool is_child = other.size() == content.size() + page_size && other.starts_with(content);
        goes = goes && (!is_child || can_go.contains(below));
      }
      if (goes) can_go.insert(id);
    }
    return can_go;
  }

  // Each was the least recently cached of the leaves.
  void judge_evictions(const std::vector<page_id>& taken) {
    for (const page_id id : evicted_) {
      const auto victim =
          std::ranges::find_if(published_, [&](const auto& entry) { return entry.second == id; });
      require(victim != published_.end() && evictable(0, taken).contains(id), "evicted a page in use");
      const auto is_leaf = [&](const text& content) {
        return std::ranges::none_of(published_, [&](const auto& entry) {
          return entry.first.size() > content.size() && entry.first.starts_with(content);
        });
      };
      require(is_leaf(victim->first), "evicted a page before those below it");
      for (const auto& [content, other] : published_) {
        if (is_leaf(content) && evictable(0, taken).contains(other))
          require(groups_[0][id].cached_since <= groups_[0][other].cached_since, "evicted a younger page");
      }
      published_.erase(victim);
      groups_[0][id].state = page_state::free;
    }
  }

  // --- Pages ---

  void take_fresh(std::size_t g, handle taken) {
    page& granted = at(g, taken.id());
    require(granted.state == page_state::free, "granted a page that was not free");
    require(granted.needed_until <= retired_, "granted a page that a launched step may touch");
    require(ever_granted_.insert({g, taken}).second || !is_tagged, "granted a handle twice");
    granted = {.state = page_state::live};
  }

  void need(std::size_t g, page_id id, step_number until) {
    if (id != kvpage::null_page) at(g, id).needed_until = (std::max)(at(g, id).needed_until, until);
  }

  [[nodiscard]] std::vector<std::uint32_t> references(std::size_t g) const {
    std::vector<std::uint32_t> held(groups_[g].size());
    for (const auto* requests : {&running_, &settling_})
      for (const request& row : *requests)
        for (const handle& entry : row.pages[g]) ++held[entry.id()];
    if (g == 0)
      for (const table& pin : pins_)
        for (const handle& entry : pin.handles()) ++held[entry.id()];
    for (const auto& copy : cache_.copies(g)) ++held[copy.source.id()];
    return held;
  }

  [[nodiscard]] bool is_shared(std::size_t g, page_id id) const {
    return references(g)[id] > 1 || (g == 0 && is_published(id));
  }

  // Published, but held once, with nothing published below.
  [[nodiscard]] bool can_withdraw(std::size_t g, page_id id) const {
    if (g != 0 || references(0)[id] != 1) return false;
    const auto own = std::ranges::find_if(published_, [&](const auto& entry) { return entry.second == id; });
    return own != published_.end() && std::ranges::none_of(published_, [&](const auto& entry) {
             return entry.first.size() > own->first.size() && entry.first.starts_with(own->first);
           });
  }
  void withdraw(page_id id) {
    if (can_withdraw(0, id)) std::erase_if(published_, [&](const auto& entry) { return entry.second == id; });
  }

  void note_dead_pages() {
    if constexpr (is_tagged) {
      dead_pages_.clear();
      for (const auto& [g, granted] : ever_granted_)
        if (g == 0 && cache_.pool().tag(granted.id()) != granted.tag()) dead_pages_.push_back(granted);
    }
  }

  // --- Small things ---

  // Calls the library with a text as tokens.
  template <class Call>
  static auto ask(Call&& call, const text& asked) {
    const std::vector<token_id> tokens(asked.begin() + 1, asked.end());
    return call(kvpage::prompt<>(tokens, {.tenant = asked.substr(0, 1)}));
  }

  // visit(what the page has there, what was to be written there) for tokens from `first` on that are held.
  template <class Visit>
  void for_each_token(const request& row, std::size_t first, Visit visit) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::size_t i = (std::max)(first, row.dropped(g) * page_size); i < row.size(); ++i)
        visit(at(g, row.pages[g][i / page_size].id()).written[i % page_size], row.tokens.substr(0, i + 2));
    }
  }

  [[nodiscard]] std::vector<handle> handles(request_handle of, std::size_t g) const {
    const table* found = cache_.table(of, g);
    require(found != nullptr, "no table");
    return {found->handles().begin(), found->handles().end()};
  }

  [[nodiscard]] page& at(std::size_t g, page_id id) { return groups_[g].at(id); }
  [[nodiscard]] std::size_t count(std::size_t g, page_state state) const {
    return static_cast<std::size_t>(std::count_if(groups_[g].begin() + 1, groups_[g].end(),
                                                  [&](const page& p) { return p.state == state; }));
  }
  [[nodiscard]] std::size_t most_grantable(std::size_t g) const {
    return groups_[g].size() - 1 - count(g, page_state::retired);
  }
  [[nodiscard]] bool has_slot() const { return running_.size() + settling_.size() < max_requests; }
  [[nodiscard]] std::size_t pages_before_copy(std::size_t g, const request& row) const {
    std::size_t pages = 0;
    for (; pages < row.pages[g].size(); ++pages)
      for (const auto& copy : cache_.copies(g))
        if (copy.destination == row.pages[g][pages]) return pages;
    return pages;
  }

  struct by_id_and_tag {
    bool operator()(const std::pair<std::size_t, handle>& x, const std::pair<std::size_t, handle>& y) const {
      return key(x) < key(y);
    }
    static auto key(const std::pair<std::size_t, handle>& of) {
      std::uint64_t tag = 0;
      if constexpr (is_tagged) tag = of.second.tag();
      return std::tuple(of.first, of.second.id(), tag);
    }
  };

  std::vector<page_id> evicted_;  // by the operation under way
  kvpage::kv_cache<kvpage::bf16, Policy, listener, token_id, Hash> cache_;
  std::vector<group> groups_;
  std::vector<request> running_, settling_;
  std::vector<table> pins_;
  std::vector<request_handle> dead_;
  std::map<text, page_id> published_;
  std::set<std::pair<std::size_t, handle>, by_id_and_tag> ever_granted_;
  std::vector<handle> dead_pages_;
  std::size_t epoch_ = 0;
  step_number launched_ = 0, retired_ = 0;
  std::uint64_t now_ = 0;  // operations
};

}  // namespace kvpage_model
