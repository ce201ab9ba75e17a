#include "kvpage/page_shape.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using kvpage::head_order;
using kvpage::page_shape;
using kvpage::scale_rule;

// Counts every byte of a block that some vector or scale claims.
class claimed_bytes {
 public:
  explicit claimed_bytes(const page_shape& shape) : claims_(shape.block_bytes()) {
    for (std::uint32_t part = 0; part < shape.parts(); ++part)
      for (std::uint32_t token = 0; token < shape.tokens_per_page(); ++token)
        for (std::uint32_t head = 0; head < shape.heads(); ++head) {
          claim(shape.vector_offset(part, token, head), shape.encoded_dim() * shape.element_bytes(),
                shape.element_bytes());
          if (shape.dim() > shape.encoded_dim())
            claim(shape.rope_offset(part, token, head), (shape.dim() - shape.encoded_dim()) * 2, 2);
          if (shape.tiles() != 0)
            claim(shape.scale_offset(part, token, head), shape.tiles() * shape.scale_bytes(),
                  shape.scale_bytes());
        }
  }

  [[nodiscard]] std::uint64_t claimed_once() const {
    std::uint64_t count = 0;
    for (const int claims : claims_) count += claims == 1;
    return count;
  }
  [[nodiscard]] bool overlap() const {
    for (const int claims : claims_)
      if (claims > 1) return true;
    return false;
  }

 private:
  void claim(std::uint64_t begin, std::uint64_t count, std::uint64_t alignment) {
    EXPECT_EQ(begin % alignment, 0u);
    for (std::uint64_t byte = begin; byte < begin + count; ++byte)
      ++claims_.at(byte);  // throws outside the block
  }

  std::vector<int> claims_;
};

page_shape kv(std::uint32_t heads, std::uint32_t dim, std::uint32_t tokens, std::uint32_t bytes,
              head_order order = head_order::nhd, scale_rule scales = scale_rule::none) {
  return page_shape::kv({.layers = 3,
                         .kv_heads = heads,
                         .head_dim = dim,
                         .tokens_per_page = tokens,
                         .element_bytes = bytes,
                         .order = order,
                         .scales = scales});
}

TEST(PageShape, EveryByteOfASmallFlatBlockBelongsToOneVectorOrScale) {
  for (const head_order order : {head_order::nhd, head_order::hnd})
    for (const scale_rule rule :
         {scale_rule::none, scale_rule::per_tensor, scale_rule::per_head, scale_rule::per_token_head})
      for (const std::uint32_t bytes : {1u, 2u, 4u})
        for (const std::uint32_t heads : {1u, 2u, 3u})
          for (const std::uint32_t dim : {1u, 3u, 8u})
            for (const std::uint32_t tokens : {1u, 4u, 5u}) {
              if (rule != scale_rule::none && bytes != 1) continue;
              const page_shape shape = kv(heads, dim, tokens, bytes, order, rule);
              const claimed_bytes bytes_of{shape};
              EXPECT_FALSE(bytes_of.overlap());
              EXPECT_EQ(bytes_of.claimed_once() * shape.layers(), shape.token_bytes() * tokens);
              EXPECT_LT(shape.block_bytes() - bytes_of.claimed_once(), 4u) << "alignment of the scales only";
              EXPECT_EQ(shape.page_bytes(), shape.block_bytes() * 3);
            }
}

TEST(PageShape, EveryByteOfAnMlaBlockBelongsToOneVectorOrScale) {
  for (const std::uint32_t tokens : {1u, 2u, 16u, 64u}) {
    const page_shape flat = page_shape::mla(
        {.layers = 2, .latent_dim = 512, .rope_dim = 64, .tokens_per_page = tokens, .element_bytes = 2});
    for (const page_shape& shape : {flat, page_shape::mla_656(2, tokens), page_shape::mla_584(2, tokens)}) {
      const claimed_bytes bytes_of{shape};
      EXPECT_FALSE(bytes_of.overlap());
      EXPECT_EQ(shape.parts(), 1u);
      EXPECT_EQ(shape.heads(), 1u);
    }
    EXPECT_EQ(claimed_bytes{flat}.claimed_once(), 576u * 2 * tokens);
    EXPECT_EQ(claimed_bytes{page_shape::mla_656(2, tokens)}.claimed_once(), 656u * tokens);
    EXPECT_EQ(claimed_bytes{page_shape::mla_584(2, tokens)}.claimed_once(), 583u * tokens)
        << "one pad byte a token";
  }
}

TEST(PageShape, NhdAndHndOrderTokensAndHeads) {
  const page_shape nhd = kv(2, 8, 4, 2, head_order::nhd);
  EXPECT_EQ(nhd.vector_offset(0, 0, 1), 16u);
  EXPECT_EQ(nhd.vector_offset(0, 1, 0), 32u);
  EXPECT_EQ(nhd.vector_offset(1, 0, 0), 128u);
  const page_shape hnd = kv(2, 8, 4, 2, head_order::hnd);
  EXPECT_EQ(hnd.vector_offset(0, 0, 1), 64u);
  EXPECT_EQ(hnd.vector_offset(0, 1, 0), 16u);
  EXPECT_EQ(hnd.vector_offset(1, 0, 0), 128u);
}

TEST(PageShape, ComputedScalesFollowTheVectorsInTheSameOrder) {
  const page_shape nhd = kv(2, 8, 4, 1, head_order::nhd, scale_rule::per_token_head);
  EXPECT_EQ(nhd.scale_offset(0, 0, 0), 128u);
  EXPECT_EQ(nhd.scale_offset(0, 0, 1), 132u);
  EXPECT_EQ(nhd.scale_offset(0, 1, 0), 136u);
  EXPECT_EQ(nhd.scale_offset(1, 0, 0), 160u);
  EXPECT_EQ(nhd.block_bytes(), 192u);
  const page_shape hnd = kv(2, 8, 4, 1, head_order::hnd, scale_rule::per_token_head);
  EXPECT_EQ(hnd.scale_offset(0, 0, 1), 144u);
  EXPECT_EQ(hnd.scale_offset(0, 1, 0), 132u);
}

TEST(PageShape, CalibratedScalesTakeNoBytesInPages) {
  const page_shape tensor = kv(2, 8, 4, 1, head_order::nhd, scale_rule::per_tensor);
  EXPECT_EQ(tensor.block_bytes(), 128u);
  EXPECT_EQ(tensor.tiles(), 0u);
  EXPECT_EQ(tensor.calibrated_scales(), 6u);  // 3 layers x (K, V)
  EXPECT_EQ(tensor.calibrated_index(2, 1, 1), 5u);
  const page_shape head = kv(2, 8, 4, 1, head_order::nhd, scale_rule::per_head);
  EXPECT_EQ(head.calibrated_scales(), 12u);
  EXPECT_EQ(head.calibrated_index(2, 1, 1), 11u);
  EXPECT_EQ(kv(2, 8, 4, 1).calibrated_scales(), 0u);
}

// deepseek-ai/FlashMLA's README: 512 bytes of e4m3, 16 bytes of scales, 128 bytes of bf16.
TEST(PageShape, The656ByteFormat) {
  constexpr page_shape shape = page_shape::mla_656(1, 64);
  EXPECT_EQ(shape.token_bytes(), 656u);
  EXPECT_EQ(shape.block_bytes(), 656u * 64);
  EXPECT_EQ(shape.tiles(), 4u);
  EXPECT_EQ(shape.tile_dim(), 128u);
  EXPECT_EQ(shape.vector_offset(0, 2, 0), 1312u);
  EXPECT_EQ(shape.scale_offset(0, 2, 0), 1312u + 512);
  EXPECT_EQ(shape.rope_offset(0, 2, 0), 1312u + 528);
}

TEST(PageShape, The584ByteFormat) {
  constexpr page_shape shape = page_shape::mla_584(1, 64);
  EXPECT_EQ(shape.token_bytes(), 584u);
  EXPECT_EQ(shape.block_bytes(), 37440u);  // 64 x 584 = 37 376, up to a multiple of 576
  EXPECT_EQ(shape.block_bytes() % 576, 0u);
  EXPECT_EQ(shape.tiles(), 7u);
  EXPECT_EQ(shape.tile_dim(), 64u);
  EXPECT_EQ(shape.scale_bytes(), 1u);
  EXPECT_EQ(shape.vector_offset(0, 2, 0), 1152u);
  EXPECT_EQ(shape.rope_offset(0, 2, 0), 1152u + 448);
  EXPECT_EQ(shape.scale_offset(0, 2, 0), 64u * 576 + 16);
}

// Kimi K2.6: 61 layers, latent 512, rotary part 64; published as 70 272 and 35 136 bytes a token.
TEST(PageShape, BytesPerTokenOfAPublishedModel) {
  const auto flat = [](std::uint32_t bytes) {
    return page_shape::mla(
        {.layers = 61, .latent_dim = 512, .rope_dim = 64, .tokens_per_page = 64, .element_bytes = bytes});
  };
  EXPECT_EQ(flat(2).token_bytes(), 70272u);
  EXPECT_EQ(flat(1).token_bytes(), 35136u);
  EXPECT_EQ(page_shape::mla_656(61, 64).token_bytes(), 40016u);
}

TEST(PageShape, FingerprintsTellWhatBytesMean) {
  using kvpage::bf16;
  using kvpage::fp8_e4m3;
  using kvpage::fp8_e5m2;
  const page_shape shape = kv(2, 8, 4, 1);
  EXPECT_EQ(shape.fingerprint<fp8_e4m3>(), kv(2, 8, 4, 1).fingerprint<fp8_e4m3>());
  EXPECT_NE(shape.fingerprint<fp8_e4m3>(), shape.fingerprint<fp8_e5m2>()) << "case J: e4m3 read as e5m2";
  EXPECT_NE(shape.fingerprint<fp8_e4m3>(), kv(2, 8, 4, 1, head_order::hnd).fingerprint<fp8_e4m3>());
  EXPECT_NE(shape.fingerprint<fp8_e4m3>(), kv(2, 8, 8, 1).fingerprint<fp8_e4m3>());
  EXPECT_NE(shape.fingerprint<fp8_e4m3>(),
            kv(2, 8, 4, 1, head_order::nhd, scale_rule::per_tensor).fingerprint<fp8_e4m3>());
  EXPECT_NE(page_shape::mla_656(1, 64).fingerprint<fp8_e4m3>(),
            page_shape::mla_584(1, 64).fingerprint<fp8_e4m3>());
}

template <class Function>
std::string refusal(Function function) {
  try {
    (void)function();
  } catch (const std::invalid_argument& refused) {
    return refused.what();
  }
  return "";
}

TEST(PageShape, CaseI_TheVectorsOfTheLargestTokenAreCountedIn32Bits) {
  kvpage::kv_shape_options options{.layers = page_shape::max_layers,
                                   .kv_heads = page_shape::max_heads,
                                   .head_dim = 1,
                                   .tokens_per_page = 1,
                                   .element_bytes = 1};
  const page_shape largest = page_shape::kv(options);
  EXPECT_EQ(largest.vectors(1), 32'768u);
  EXPECT_EQ(largest.vectors(largest.layers()), 2'147'483'648u);
  ++options.layers;
  EXPECT_THROW((void)page_shape::kv(options), std::invalid_argument);
  --options.layers;
  ++options.kv_heads;
  EXPECT_THROW((void)page_shape::kv(options), std::invalid_argument);
}

TEST(PageShape, ImpossibleShapesAreRefusedWithValueAndBound) {
  EXPECT_EQ(refusal([] { return kv(0, 8, 4, 2); }),
            "page_shape: kv_heads is 0; it must be between 1 and 16384");
  EXPECT_EQ(refusal([] { return kv(1, 0, 4, 2); }),
            "page_shape: head_dim is 0; it must be between 1 and 131072");
  EXPECT_EQ(refusal([] { return kv(1, 8, 0, 2); }),
            "page_shape: tokens_per_page is 0; it must be between 1 and 1048576");
  EXPECT_EQ(refusal([] { return kv(1, 8, 4, 3); }), "page_shape: element_bytes is 3; it must be 1, 2 or 4");
  EXPECT_EQ(refusal([] { return kv(1, 8, 4, 2, head_order::nhd, scale_rule::per_tensor); }),
            "page_shape: element_bytes (with scales) is 2; it must be between 1 and 1");
  EXPECT_EQ(refusal([] { return page_shape::mla_656(0, 64); }),
            "page_shape: layers is 0; it must be between 1 and 65536");
  const auto huge = [] {
    return page_shape::kv({.layers = 1u << 16,
                           .kv_heads = 1u << 14,
                           .head_dim = 1u << 17,
                           .tokens_per_page = 1u << 20,
                           .element_bytes = 4});
  };
  EXPECT_NE(refusal(huge).find("page_shape: a page: "), std::string::npos) << refusal(huge);
  EXPECT_NE(refusal(huge).find("do not fit 63 bits"), std::string::npos);
}

}  // namespace
