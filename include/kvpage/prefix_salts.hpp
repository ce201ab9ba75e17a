// kvpage: the salts in use, each a root that first pages hang from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "config.hpp"
#include "prompt.hpp"

namespace kvpage::inline v0::detail {

// Numbers salts from 0 on, exactly: equal numbers, equal salts.  A number is free for another salt when
// nothing hangs from it any more.  Allocates for a salt that it does not know yet.
class salt_table {
 public:
  using root = std::uint32_t;

  explicit salt_table(std::pmr::memory_resource* memory) : numbers_(memory), roots_(memory) {}

  // O(log salts).
  [[nodiscard]] std::optional<root> find(const prefix_salt& salt) const noexcept {
    const auto found = numbers_.find(salt);
    if (found == numbers_.end()) return std::nullopt;
    return found->second;
  }

  // The salt's root, which the caller must hang something from.
  [[nodiscard]] root find_or_add(const prefix_salt& salt) {
    if (const auto known = find(salt)) return *known;
    if (first_unused_ == none) {
      roots_.emplace_back();
      first_unused_ = static_cast<root>(roots_.size() - 1);
    }
    const root number = first_unused_;
    roots_[number].place = numbers_.emplace(salt, number).first;
    first_unused_ = std::exchange(roots_[number].next_unused, none);
    return number;
  }

  void hang(root number) noexcept { ++roots_[number].children; }

  // Forgets the salt with its last child.
  void unhang(root number) noexcept {
    if (--roots_[number].children != 0) return;
    numbers_.erase(roots_[number].place);
    roots_[number].next_unused = first_unused_;
    first_unused_ = number;
  }

  void clear() noexcept {
    numbers_.clear();
    roots_.clear();
    first_unused_ = none;
  }

  [[nodiscard]] std::size_t size() const noexcept { return numbers_.size(); }

 private:
  struct stored_salt {
    explicit stored_salt(const prefix_salt& salt)
        : tenant(salt.tenant), adapter(salt.adapter), media(salt.media) {}

    std::string tenant, adapter, media;
  };

  struct by_field {
    using is_transparent = void;

    static auto fields(const auto& salt) noexcept {
      return std::tuple<std::string_view, std::string_view, std::string_view>(salt.tenant, salt.adapter,
                                                                              salt.media);
    }
    bool operator()(const auto& a, const auto& b) const noexcept { return fields(a) < fields(b); }
  };

  using number_map = std::pmr::map<stored_salt, root, by_field>;
  static constexpr root none = ~root{0};

  struct root_record {
    number_map::iterator place;
    std::uint32_t children = 0;
    root next_unused = none;
  };

  number_map numbers_;
  std::pmr::vector<root_record> roots_;
  root first_unused_ = none;
};

}  // namespace kvpage::inline v0::detail
