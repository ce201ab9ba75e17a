#include "kvpage/page_storage.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

using kvpage::bf16;
using kvpage::errc;
using kvpage::fp8_e4m3;
using kvpage::fp8_e5m2;
using kvpage::page_layout;
using kvpage::page_shape;
using kvpage::page_storage;
using kvpage::page_storage_view;
using kvpage::scale_rule;

page_shape shape(std::uint32_t element_bytes, scale_rule scales = scale_rule::none) {
  return page_shape::kv({.layers = 2,
                         .kv_heads = 2,
                         .head_dim = 8,
                         .tokens_per_page = 4,
                         .element_bytes = element_bytes,
                         .scales = scales});
}

TEST(PageStorage, OwnedPagesAreZeroAndAligned) {
  const page_layout layout = page_layout::layer_major(shape(2), 5);
  const page_storage<bf16> storage{shape(2), layout};
  const std::byte* const begin = storage.view().block(0, 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(begin) % 64, 0u);
  EXPECT_TRUE(std::all_of(begin, begin + layout.bytes(), [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(storage.view().block(3, 1) - begin, static_cast<std::ptrdiff_t>(layout.block_offset(3, 1)));
}

TEST(PageStorage, MovingKeepsThePagesWhereTheyAre) {
  page_storage<bf16> first{shape(2), page_layout::layer_major(shape(2), 5)};
  std::byte* const block = first.view().block(1, 0);
  const page_storage<bf16> second{std::move(first)};
  EXPECT_EQ(second.view().block(1, 0), block);
}

TEST(PageStorage, TakesItsMemoryFromTheGivenResource) {
  const page_layout layout = page_layout::layer_major(shape(2), 5);
  alignas(64) std::byte arena[8192];
  std::pmr::monotonic_buffer_resource resource{arena, sizeof arena, std::pmr::null_memory_resource()};
  const page_storage<bf16> storage{shape(2), layout, {}, &resource};
  EXPECT_GE(storage.view().block(0, 0), arena);
  EXPECT_LT(storage.view().block(4, 1), arena + sizeof arena);
}

TEST(PageStorage, CaseJElementAndShapeMustAgree) {
  EXPECT_THROW((page_storage<fp8_e4m3>{shape(2), page_layout::layer_major(shape(2), 5)}),
               std::invalid_argument);
  EXPECT_THROW((page_storage<bf16>{shape(1), page_layout::layer_major(shape(1), 5)}), std::invalid_argument);
  const page_shape published = page_shape::mla_656(1, 64);
  EXPECT_THROW((page_storage<fp8_e5m2>{published, page_layout::layer_major(published, 2)}),
               std::invalid_argument);
}

TEST(PageStorage, WrongMemoryIsRefused) {
  const page_layout layout = page_layout::layer_major(shape(2), 5);
  alignas(16) std::byte memory[5 * 2 * 256 + 16];
  const std::span all{memory};
  EXPECT_NO_THROW((page_storage_view<bf16>{all, shape(2), layout}));
  EXPECT_THROW((page_storage_view<bf16>{all.first(layout.bytes() - 1), shape(2), layout}),
               std::invalid_argument);
  EXPECT_THROW((page_storage_view<bf16>{all.subspan(2), shape(2), layout}), std::invalid_argument);
}

TEST(PageStorage, CaseIALayoutOfAnotherShapeMustHaveRoomForThisOne) {
  const page_shape small =
      page_shape::kv({.layers = 1, .kv_heads = 2, .head_dim = 8, .tokens_per_page = 4, .element_bytes = 2});
  EXPECT_THROW((page_storage<bf16>{shape(2), page_layout::page_major(small, 5)}), std::invalid_argument);
  EXPECT_THROW((page_storage<bf16>{shape(2), page_layout::layer_major(small, 5)}), std::invalid_argument);
  EXPECT_NO_THROW((page_storage<bf16>{small, page_layout::page_major(shape(2), 5)}));
}

TEST(PageStorage, CalibratedScalesMustBeThere) {
  const page_shape scaled = shape(1, scale_rule::per_tensor);
  const page_layout layout = page_layout::layer_major(scaled, 5);
  const std::vector<float> scales{1, 2, 3, 4};
  const page_storage<fp8_e4m3> storage{scaled, layout, scales};
  EXPECT_EQ(storage.view().vector(1, 1, 0, 0, 1).calibrated, 3.0f);
  EXPECT_THROW((page_storage<fp8_e4m3>{scaled, layout}), std::invalid_argument);
  EXPECT_THROW((page_storage<fp8_e4m3>{shape(1), layout, scales}), std::invalid_argument);
}

TEST(PageStorage, AHandleIsCheckedBeforeItGetsAnAddress) {
  using pool_type = kvpage::page_pool<bf16, kvpage::tagged>;
  pool_type pool{{.pages = 4, .tokens_per_page = 4}};
  const page_storage<bf16> storage{shape(2), page_layout::layer_major(shape(2), 3)};
  std::vector<pool_type::handle> pages(3);
  ASSERT_EQ(pool.allocate(pages), errc::ok);

  const auto block = storage.view().block(pool, pages[0], 1);
  ASSERT_TRUE(block);
  EXPECT_EQ(block.value().data(), storage.view().block(pages[0].id(), 1));
  EXPECT_EQ(block.value().size(), 256u);
  EXPECT_EQ(storage.view().block(pool, pool_type::handle{}, 0).error(), errc::null_handle);
  EXPECT_EQ(storage.view().block(pool, pages[0], 2).error(), errc::outside_pool);
  const auto last =
      *std::max_element(pages.begin(), pages.end(), [](auto a, auto b) { return a.id() < b.id(); });
  EXPECT_EQ(storage.view().block(pool, last, 0).error(), errc::outside_pool) << "the pool has a page more";

  const pool_type::handle stale = pages[0];
  ASSERT_EQ(pool.release(std::span{pages}.first(1)), errc::ok);
  EXPECT_NE(storage.view().block(pool, stale, 0).error(), errc::ok);
  ASSERT_EQ(pool.allocate(std::span{pages}.first(1)), errc::ok);
  ASSERT_EQ(pages[0].id(), stale.id());
  EXPECT_EQ(storage.view().block(pool, stale, 0).error(), errc::stale_handle);
  EXPECT_TRUE(storage.view().block(pool, pages[0], 0));
}

}  // namespace
