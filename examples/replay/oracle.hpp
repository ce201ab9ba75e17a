// kvpage-replay: the truth about who reads what, kept apart from the library that it judges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace replay {

// Stands for the cache itself: instead of K and V, a written page holds whose tokens it has, as
// (request, logical page).  A read that finds anything else is a foreign read.
class oracle {
 public:
  // `pages`, the null page included.
  explicit oracle(std::size_t pages) : content_(pages) {}

  void write(std::size_t page, std::uint32_t request, std::size_t logical_page) {
    content_[page] = stamp(request, logical_page);
  }

  // Reads a row's pages, in order, on behalf of `request`.  Returns how many were not its own.
  [[nodiscard]] std::uint64_t read(std::span<const std::int32_t> pages, std::uint32_t request) const {
    std::uint64_t foreign = 0;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const auto page = static_cast<std::uint32_t>(pages[i]);
      foreign += page >= content_.size() || content_[page] != stamp(request, i);
    }
    return foreign;
  }

 private:
  // Never 0, which is what an unwritten page holds.
  static constexpr std::uint64_t stamp(std::uint32_t request, std::size_t logical_page) {
    return (std::uint64_t{request} + 1) << 32 | logical_page;
  }

  std::vector<std::uint64_t> content_;
};

}  // namespace replay
