// kvpage: an array that keeps its length and its place.
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <type_traits>

namespace kvpage::inline v0::detail {

// `size` value-initialised elements from a memory resource.  Unlike a vector's, its size is read, not
// computed from two pointers: one instruction in every check of an index.  Begins at a cache line.
template <class T>
class fixed_array {
 public:
  static_assert(std::is_trivially_destructible_v<T>);

  fixed_array(std::size_t size, std::pmr::memory_resource* memory)
      : data_{static_cast<T*>(memory->allocate(size * sizeof(T), alignment))}, size_{size}, memory_{memory} {
    std::uninitialized_value_construct_n(data_, size);
  }
  ~fixed_array() { memory_->deallocate(data_, size_ * sizeof(T), alignment); }
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
  static constexpr std::size_t alignment = alignof(T) < 64 ? 64 : alignof(T);

  T* data_;
  std::size_t size_;
  std::pmr::memory_resource* memory_;
};

}  // namespace kvpage::inline v0::detail
