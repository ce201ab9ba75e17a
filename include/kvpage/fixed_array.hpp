// kvpage: an array that keeps its length and its place.
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <type_traits>

namespace kvpage::inline v0::detail {

// `size` value-initialised elements from a memory resource.  Unlike a vector's, its size is read, not
// computed from two pointers: one instruction in every check of an index.
template <class T>
class fixed_array {
 public:
  static_assert(std::is_trivially_destructible_v<T>);

  fixed_array(std::size_t size, std::pmr::memory_resource* memory)
      : data_{std::pmr::polymorphic_allocator<T>(memory).allocate(size)}, size_{size}, memory_{memory} {
    std::uninitialized_value_construct_n(data_, size);
  }
  ~fixed_array() { std::pmr::polymorphic_allocator<T>(memory_).deallocate(data_, size_); }
  fixed_array(const fixed_array&) = delete;
  fixed_array& operator=(const fixed_array&) = delete;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] T* data() noexcept { return data_; }
  [[nodiscard]] const T* data() const noexcept { return data_; }
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return data_[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return data_[i]; }
  [[nodiscard]] T* begin() noexcept { return data_; }
  [[nodiscard]] T* end() noexcept { return data_ + size_; }
  [[nodiscard]] const T* begin() const noexcept { return data_; }
  [[nodiscard]] const T* end() const noexcept { return data_ + size_; }

 private:
  T* data_;
  std::size_t size_;
  std::pmr::memory_resource* memory_;
};

}  // namespace kvpage::inline v0::detail
