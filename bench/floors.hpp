// The baselines: the least that any page allocator with reference counts can do, written by hand.  They
// check nothing: exhaustion, double release and foreign ids corrupt them in silence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <kvpage/config.hpp>
#include <kvpage/error.hpp>
#include <memory>
#include <span>

namespace bench {

// An array stack of free pages and an array of reference counts: the plain floor.
class plain_floor {
 public:
  using handle = kvpage::page_id;

  explicit plain_floor(std::uint32_t capacity)
      : stack_{std::make_unique<std::uint32_t[]>(capacity)},
        references_{std::make_unique<std::uint32_t[]>(capacity + 1)},
        top_{capacity} {
    for (std::uint32_t i = 0; i < capacity; ++i) stack_[i] = capacity - i;
  }

  kvpage::errc allocate(std::span<handle> out) noexcept {
    for (handle& page : out) {
      page = stack_[--top_];
      references_[page] = 1;
    }
    return kvpage::errc::ok;
  }

  kvpage::errc retain(std::span<const handle> pages) noexcept {
    for (const handle page : pages) ++references_[page];
    return kvpage::errc::ok;
  }

  kvpage::errc release(std::span<const handle> pages) noexcept {
    for (const handle page : pages) {
      if (--references_[page] == 0) stack_[top_++] = page;
    }
    return kvpage::errc::ok;
  }

 private:
  std::unique_ptr<std::uint32_t[]> stack_;
  std::unique_ptr<std::uint32_t[]> references_;
  std::size_t top_;
};

// The same with an array of generations, which change once each time a page changes hands, and are handed
// out but never looked at: the floor.
class floor {
 public:
  struct alignas(8) handle {
    std::uint32_t page;
    std::uint32_t generation;
  };

  explicit floor(std::uint32_t capacity)
      : stack_{std::make_unique<std::uint32_t[]>(capacity)},
        references_{std::make_unique<std::uint32_t[]>(capacity + 1)},
        generations_{std::make_unique<std::uint32_t[]>(capacity + 1)},
        top_{capacity} {
    for (std::uint32_t i = 0; i < capacity; ++i) stack_[i] = capacity - i;
  }

  kvpage::errc allocate(std::span<handle> out) noexcept {
    for (handle& granted : out) {
      const std::uint32_t page = stack_[--top_];
      references_[page] = 1;
      granted = {page, generations_[page]};
    }
    return kvpage::errc::ok;
  }

  kvpage::errc retain(std::span<const handle> pages) noexcept {
    for (const handle& held : pages) ++references_[held.page];
    return kvpage::errc::ok;
  }

  kvpage::errc release(std::span<const handle> pages) noexcept {
    for (const handle& held : pages) {
      if (--references_[held.page] != 0) continue;
      ++generations_[held.page];
      stack_[top_++] = held.page;
    }
    return kvpage::errc::ok;
  }

 private:
  std::unique_ptr<std::uint32_t[]> stack_;
  std::unique_ptr<std::uint32_t[]> references_;
  std::unique_ptr<std::uint32_t[]> generations_;
  std::size_t top_;
};

}  // namespace bench
