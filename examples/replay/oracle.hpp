// kvpage-replay: the truth about who reads what, kept apart from the library that it judges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace replay {

// Stands for the cache itself: instead of K and V, a written page holds what it was computed from, as
// page_content() tells it.  A read that finds anything else is a foreign read.
class oracle {
 public:
  // `pages`, the null page included.
  explicit oracle(std::size_t pages) : content_(pages) {}

  void write(std::size_t page, std::uint64_t content) { content_[page] = content; }

  // Whether `page`, any number, holds something other than `content`.
  [[nodiscard]] bool reads_foreign(std::int32_t page, std::uint64_t content) const {
    const auto index = static_cast<std::uint32_t>(page);
    return index >= content_.size() || content_[index] != content;
  }

 private:
  std::vector<std::uint64_t> content_;  // 0: unwritten
};

}  // namespace replay
