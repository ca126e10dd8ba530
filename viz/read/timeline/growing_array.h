#pragma once

#include <cassert>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <new>
#include <type_traits>
#include <utility>

namespace lockstep {

/// The part of std::vector that a timeline needs, for plain data. It grows with std::realloc, which
/// moves a large block's pages instead of copying them. A std::vector, in contrast, holds both its
/// old and its new elements in memory while it grows.
template <class T>
class GrowingArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  GrowingArray() = default;
  GrowingArray(std::initializer_list<T> elements) {
    insert(end(), elements.begin(), elements.end());
  }
  GrowingArray(GrowingArray&& other) noexcept { *this = std::move(other); }
  GrowingArray& operator=(GrowingArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  GrowingArray(const GrowingArray&) = delete;
  GrowingArray& operator=(const GrowingArray&) = delete;
  ~GrowingArray() { std::free(data_); }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& front() { return data_[0]; }
  const T& front() const { return data_[0]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  iterator begin() { return data_; }
  iterator end() { return data_ + size_; }
  const_iterator begin() const { return data_; }
  const_iterator end() const { return data_ + size_; }
  auto rbegin() const { return std::make_reverse_iterator(end()); }
  auto rend() const { return std::make_reverse_iterator(begin()); }

  void push_back(const T& element) {
    const T copy = element;  // which may be an element of this array
    if (size_ == capacity_) grow(size_ + 1);
    data_[size_++] = copy;
  }
  /// Appends elements of another array; `at` must be end().
  template <class Iterator>
  void insert([[maybe_unused]] const_iterator at, Iterator from, Iterator to) {
    assert(at == end());
    const auto count = static_cast<std::size_t>(to - from);
    if (size_ + count > capacity_) grow(size_ + count);
    for (; from != to; ++from) data_[size_++] = *from;
  }
  /// Removes the last elements; `to` must be end().
  void erase(const_iterator from, [[maybe_unused]] const_iterator to) {
    assert(to == end());
    size_ = static_cast<std::size_t>(from - data_);
  }

 private:
  // Out of line, because GCC 12 mistakes an index computed before realloc for a pointer used after.
  [[gnu::noinline]] void grow(std::size_t least) {
    const std::size_t capacity = least + least / 2 + 16;
    void* moved = std::realloc(static_cast<void*>(data_), capacity * sizeof(T));
    if (moved == nullptr) throw std::bad_alloc{};
    data_ = static_cast<T*>(moved);
    capacity_ = capacity;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace lockstep
