// After construction the hot path takes no memory: not from the program's heap, not from the resources that
// the objects were given.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <span>
#include <vector>

#include "../support/configurations.hpp"
#include "../support/counting_memory.hpp"
#include "kvpage/kvpage.hpp"

namespace {

std::size_t heap_allocations = 0;  // of this program, by operator new

void* counted(std::size_t bytes, std::size_t alignment) {
  ++heap_allocations;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (void* const memory = std::aligned_alloc(alignment, rounded); memory != nullptr) return memory;
  throw std::bad_alloc{};
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {

using kvpage::errc;

template <class Configuration>
struct no_allocation : ::testing::Test {};

TYPED_TEST_SUITE(no_allocation, kvpage_test::every_configuration, kvpage_test::configuration_names);

TEST(no_allocation_counter, sees_an_allocation) {
  const std::size_t before = heap_allocations;
  const std::vector<int> allocated(1);
  EXPECT_EQ(heap_allocations, before + 1);
}

TYPED_TEST(no_allocation, after_construction_on_the_hot_path) {
  using pool_type = typename TypeParam::pool;
  constexpr std::size_t rows = 4;
  kvpage_test::counting_resource memory;
  pool_type pool{{.pages = 65, .reuse = TypeParam::reuse, .memory = &memory}};
  std::vector<kvpage::block_table<pool_type>> tables;
  for (std::size_t row = 0; row < rows; ++row) tables.emplace_back(pool, 8, &memory);
  kvpage::decode_batch<pool_type> batch({.rows = rows + 1, .entries = 64, .slots = 64});
  std::vector<kvpage::verdict> verdicts(rows + 1);
  std::vector<std::int32_t> padded((rows + 1) * 8);
  std::vector<typename pool_type::handle> pages(6);
  const std::size_t heap_before = heap_allocations;
  const std::size_t memory_before = memory.allocations().size();

  bool good = true;
  const auto expect = [&](errc code, errc expected = errc::ok) { good = good && code == expected; };
  for (kvpage::step_number step = 1; step <= 2; ++step) {  // as often as 2-bit tags allow
    expect(pool.allocate(pages));
    expect(pool.retain(pages));
    expect(pool.release(pages));
    expect(pool.publish(pages[0]));
    expect(pool.release_after(pages, step));
    pool.retire(step);
    pool.drain_newly_cached([](kvpage::page_id) {});
    expect(pool.withdraw(pages[0]));
    expect(pool.release(pages), errc::double_release);
    for (auto& table : tables) {
      expect(table.append(40));
      expect(table.append(1));
      expect(table.truncate(33, step));
      expect(table.drop_front(1));
      expect(table.append(100'000), errc::never_fits);
    }
    batch.clear();
    for (const auto& table : tables) expect(batch.add(table, 2));
    expect(batch.add_padding());
    expect(batch.add_padding(), errc::batch_full);
    expect(batch.export_padded(padded, rows + 1, 8));
    good = good && kvpage::verify(batch, pool, step, std::span{verdicts});
    batch.cut_off(0);
    for (auto& table : tables) expect(table.release(step));
    pool.retire(step);
  }

  const std::size_t heap_after = heap_allocations;  // before any expectation allocates
  EXPECT_EQ(heap_after, heap_before);
  EXPECT_EQ(memory.allocations().size(), memory_before);
  EXPECT_TRUE(good);
}

}  // namespace
