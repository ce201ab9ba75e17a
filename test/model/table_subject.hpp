// Rows that grow, fork, copy on write, shrink and slide.  The oracle is what each row must read: memory is
// a token for each slot, and no operation on one row may change what another one finds there.
#pragma once

#include <kvpage/block_table.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "pool_oracle.hpp"

namespace kvpage_model {

template <class Policy>
class table_subject {
  using pool_type = kvpage::page_pool<kvpage::bf16, Policy>;
  using table_type = kvpage::block_table<pool_type>;
  using handle = typename pool_type::handle;
  using errc = kvpage::errc;
  static constexpr std::size_t page_size = 3, pages = 21, rows = 5;

 public:
  void apply(const operation& o) {
    const std::size_t i = o.a % rows;
    table_type& row = tables_[i];
    const std::size_t tokens = o.b % (2 * page_size);
    const kvpage::step_number fence = o.c % 2 == 0 ? 0 : newest_ + o.c % 3;
    const std::vector<handle> held(row.handles().begin(), row.handles().end());
    switch (o.kind % 10) {
      case 0:
      case 1:
      case 2: append(i, tokens, fence); break;
      case 3: {
        const bool shared = row.writes_shared_page(tokens);
        if (shared) require(row.append(tokens) == errc::shared_page, "a shared page is written to");
        break;
      }
      case 4: fork(i, o.b % rows); break;
      case 5: {
        const std::size_t kept = tokens + row.dropped_pages() * page_size;
        const bool in_row = kept <= row.tokens();
        require(row.truncate(kept, fence) == (in_row ? errc::ok : errc::outside_row), "truncate");
        if (!in_row) break;
        give_up(std::span{held}.subspan(row.pages()), fence);
        texts_[i].resize(kept);
        break;
      }
      case 6: {
        const std::size_t dropped = row.dropped_pages(), more = o.b % 3U;
        const bool in_row = more <= row.tokens() / page_size - dropped;
        require(row.drop_front(more, fence) == (in_row ? errc::ok : errc::outside_row), "drop_front");
        if (in_row) give_up(std::span{held}.subspan(dropped, more), fence);
        break;
      }
      case 7: {
        const std::size_t dropped = row.dropped_pages();
        require(row.release(fence) == errc::ok, "release");
        give_up(std::span{held}.subspan(dropped), fence);
        texts_[i].clear();
        break;
      }
      case 8: {
        const std::size_t to = o.b % rows;
        std::swap(tables_[i], tables_[to]);
        std::swap(texts_[i], texts_[to]);
        break;
      }
      default:
        newest_ += o.b % 2;
        pool_.retire(newest_);
        oracle_.retire(newest_);
    }
  }

  void compare() {
    oracle_.compare();
    for (std::size_t i = 0; i < rows; ++i) {
      const table_type& row = tables_[i];
      require(row.tokens() == texts_[i].size(), "lengths differ");
      for (std::size_t at = 0; at < row.tokens(); ++at) {
        const auto slot = row.slot(at);
        require(bool{slot} == (at >= row.dropped_pages() * page_size), "slot");
        if (slot)
          require(memory_[static_cast<std::size_t>(*slot)] == texts_[i][at], "a row reads other tokens");
      }
    }
    if (++operations_ % 16 == 0) audit();
  }
  void audit() const { require(pool_.audit().clean(), "the audit has a finding"); }

 private:
  void append(std::size_t i, std::size_t tokens, kvpage::step_number fence) {
    table_type& row = tables_[i];
    const std::size_t before = row.tokens(), wanted = row.pages_to_append(tokens);
    const errc expected = oracle_.expected_grant(wanted);
    kvpage::page_copy<handle> copy;
    require(row.append(tokens, copy) == expected, "append");
    if (expected != errc::ok) return;
    oracle_.granted(row.handles().last(wanted));
    if (copy.tokens != 0) {
      std::copy_n(memory_.begin() + at(copy.source), copy.tokens, memory_.begin() + at(copy.destination));
      require(pool_.release_after({&copy.source, 1}, fence) == errc::ok, "release of a copy's source");
      give_up({&copy.source, 1}, fence);
    }
    for (std::size_t k = before; k < row.tokens(); ++k) {
      memory_[static_cast<std::size_t>(*row.slot(k))] = ++newest_token_;
      texts_[i].push_back(newest_token_);
    }
  }

  void fork(std::size_t from, std::size_t to) {
    if (tables_[to].pages() != 0) return;
    require(tables_[from].fork(tables_[to]) == errc::ok, "fork");
    const std::size_t dropped = tables_[from].dropped_pages();
    require(oracle_.retain(tables_[from].handles().subspan(dropped)) == errc::ok, "fork's references");
    texts_[to] = texts_[from];
  }

  void give_up(std::span<const handle> given, kvpage::step_number fence) {
    require(oracle_.release(given, fence) == errc::ok, "a row gave up what it did not have");
  }

  static std::ptrdiff_t at(handle page) { return static_cast<std::ptrdiff_t>(page.id() * page_size); }

  pool_type pool_{kvpage::pool_options{.pages = pages, .tokens_per_page = page_size}};
  pool_oracle<pool_type> oracle_{pool_};
  std::vector<table_type> tables_ = [this] {
    std::vector<table_type> tables;
    for (std::size_t i = 0; i < rows; ++i) tables.emplace_back(pool_);
    return tables;
  }();
  std::vector<std::vector<std::size_t>> texts_ = std::vector<std::vector<std::size_t>>(rows);
  std::vector<std::size_t> memory_ = std::vector<std::size_t>(pages * page_size);
  std::size_t newest_token_ = 0;
  kvpage::step_number newest_ = 1;
  std::size_t operations_ = 0;
};

}  // namespace kvpage_model
