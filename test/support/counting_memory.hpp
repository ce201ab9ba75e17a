// Memory that counts: a pmr resource for one object, and operator new for the whole program.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <vector>

namespace kvpage_test {

// Passes every request on and remembers it.
class counting_resource final : public std::pmr::memory_resource {
 public:
  struct block {
    void* address;
    std::size_t bytes;
  };

  // Every allocation ever made, in order; freed ones stay listed.
  [[nodiscard]] const std::vector<block>& allocations() const { return allocations_; }
  [[nodiscard]] std::size_t bytes_held() const { return bytes_held_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* const address = std::pmr::new_delete_resource()->allocate(bytes, alignment);
    allocations_.push_back({address, bytes});
    bytes_held_ += bytes;
    return address;
  }
  void do_deallocate(void* address, std::size_t bytes, std::size_t alignment) override {
    bytes_held_ -= bytes;
    std::pmr::new_delete_resource()->deallocate(address, bytes, alignment);
  }
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::vector<block> allocations_;
  std::size_t bytes_held_ = 0;
};

}  // namespace kvpage_test
