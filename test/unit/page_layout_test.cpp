#include "kvpage/page_layout.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <stdexcept>
#include <vector>

namespace {

using kvpage::page_layout;
using kvpage::page_shape;

constexpr page_shape small_shape(std::uint32_t layers) {
  return page_shape::kv({.layers = layers,
                         .kv_heads = 2,
                         .head_dim = 3,
                         .tokens_per_page = 4,
                         .element_bytes = 2});  // 96-byte blocks
}

// Every block inside the layout's bytes, no byte in two blocks; returns how many bytes are in none.
std::uint64_t padding_of(const page_shape& shape, const page_layout& layout) {
  std::vector<int> claims(layout.bytes());
  for (kvpage::page_id page = 0; page < layout.pages(); ++page)
    for (std::uint32_t layer = 0; layer < shape.layers(); ++layer)
      for (std::uint64_t byte = 0; byte < shape.block_bytes(); ++byte)
        ++claims.at(layout.block_offset(page, layer) + byte);
  std::uint64_t untouched = 0;
  for (const int count : claims) {
    EXPECT_LE(count, 1);
    untouched += count == 0;
  }
  return untouched;
}

TEST(PageLayout, BlocksDoNotOverlap) {
  for (const std::uint32_t layers : {1u, 2u, 5u})
    for (const std::uint64_t pages : {1u, 2u, 7u}) {
      const page_shape shape = small_shape(layers);
      EXPECT_EQ(padding_of(shape, page_layout::layer_major(shape, pages)), 0u);
      EXPECT_EQ(padding_of(shape, page_layout::page_major(shape, pages)), 0u);
      EXPECT_EQ(page_layout::layer_major(shape, pages).bytes(), pages * shape.page_bytes());
      EXPECT_EQ(page_layout::page_major(shape, pages).bytes(), pages * shape.page_bytes());
    }
}

TEST(PageLayout, PaddingBetweenPagesIsLegal) {
  const page_shape shape = small_shape(2);
  EXPECT_EQ(padding_of(shape, page_layout::layer_major(shape, 3, 100)), 5u * 4);
  EXPECT_EQ(padding_of(shape, page_layout::page_major(shape, 3, 200)), 2u * 8);
  EXPECT_EQ(padding_of(shape, page_layout(shape, 3, 96, 400)), 400u - 288);
}

TEST(PageLayout, LayerMajorIsOneTensorALayer) {
  const page_layout layout = page_layout::layer_major(small_shape(2), 10);
  EXPECT_EQ(layout.block_offset(3, 0), 288u);
  EXPECT_EQ(layout.block_offset(3, 1), 960u + 288);
}

TEST(PageLayout, PageMajorKeepsAPageTogether) {
  const page_layout layout = page_layout::page_major(small_shape(2), 10);
  EXPECT_EQ(layout.block_offset(3, 0), 576u);
  EXPECT_EQ(layout.block_offset(3, 1), 576u + 96);
}

TEST(PageLayout, OverlapMisalignmentAndOverflowAreRefused) {
  const page_shape shape = small_shape(2);
  EXPECT_THROW(page_layout::layer_major(shape, 3, 94), std::invalid_argument);
  EXPECT_THROW(page_layout::layer_major(shape, 3, 97), std::invalid_argument);
  EXPECT_THROW(page_layout::page_major(shape, 3, 190), std::invalid_argument);
  EXPECT_THROW(page_layout(shape, 3, 96, 286), std::invalid_argument);
  EXPECT_THROW(page_layout(shape, 3, 96, 96), std::invalid_argument);
  EXPECT_THROW(page_layout::page_major(shape, 0), std::invalid_argument);
  EXPECT_THROW(page_layout::page_major(shape, kvpage::max_pages_per_pool + 1), std::invalid_argument);
  EXPECT_THROW(page_layout::layer_major(shape, 1u << 29, std::uint64_t{1} << 34), std::invalid_argument);
}

// A shape whose dense block has the wanted bytes.
constexpr page_shape shape_of(std::uint32_t block_bytes) {
  return page_shape::kv(
      {.layers = 1, .kv_heads = 1, .head_dim = block_bytes / 4, .tokens_per_page = 1, .element_bytes = 2});
}

// Addresses only: nothing of this size is allocated.
TEST(PageLayout, CaseIAddressesPast32Bits) {
  const auto address = [](kvpage::page_id page, std::uint32_t stride) {
    return page_layout::layer_major(small_shape(1), std::uint64_t{page} + 1, stride).block_offset(page, 0);
  };
  EXPECT_EQ(address(7'768, 276'480), 2'147'696'640u);
  EXPECT_EQ(address(262'144, 16'384), 4'294'967'296u) << "32 bits would alias page 0";
  EXPECT_EQ(address(2'143, 1'002'240), 2'147'800'320u);
  static_assert(page_layout::layer_major(shape_of(16'384), 262'145).block_offset(262'144, 0) ==
                4'294'967'296u);
}

TEST(PageLayout, CaseIAddressesAgreeWith128BitArithmetic) {
  __extension__ using wide = unsigned __int128;
  std::mt19937_64 random{11};
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  for (int round = 0; round < 10'000; ++round) {
    const auto layers = static_cast<std::uint32_t>(1 + below(128));
    const auto heads = static_cast<std::uint32_t>(1 + below(64));
    const auto dim = static_cast<std::uint32_t>(1 + below(512));
    const auto tokens = static_cast<std::uint32_t>(1 + below(256));
    const std::uint64_t pages = 1 + below(std::uint64_t{1} << (below(27) + 1));
    const page_shape shape = page_shape::kv({.layers = layers,
                                             .kv_heads = heads,
                                             .head_dim = dim,
                                             .tokens_per_page = tokens,
                                             .element_bytes = 2});
    const wide block = wide{2} * heads * dim * tokens * 2;
    const auto page = static_cast<kvpage::page_id>(below(pages));
    const auto layer = static_cast<std::uint32_t>(below(layers));
    const auto token = static_cast<std::uint32_t>(below(tokens));
    const auto head = static_cast<std::uint32_t>(below(heads));
    if (block * layers * pages > kvpage::detail::max_bytes) continue;
    const wide layer_major = (wide{layer} * pages + page) * block;
    const wide page_major = (wide{page} * layers + layer) * block;
    const wide vector = ((wide{1} * tokens + token) * heads + head) * dim * 2;
    EXPECT_TRUE(page_layout::layer_major(shape, pages).block_offset(page, layer) == layer_major);
    EXPECT_TRUE(page_layout::page_major(shape, pages).block_offset(page, layer) == page_major);
    EXPECT_TRUE(shape.vector_offset(1, token, head) == vector);
  }
}

}  // namespace
