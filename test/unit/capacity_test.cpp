// The published figures, each with its tolerance, and what nonsense is answered with.
#include "kvpage/capacity.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

namespace {

using namespace kvpage;

constexpr double gib = 1024.0 * 1024.0 * 1024.0;
constexpr std::uint64_t to_bytes(double gibibytes) { return static_cast<std::uint64_t>(gibibytes * gib); }

constexpr cache_options kimi(std::uint32_t element_bytes, token_format format = token_format::flat) {
  return {.layers = 61,
          .attention = mla_latent{512, 64},
          .ranks = 8,
          .element_bytes = element_bytes,
          .format = format};
}
constexpr cache_options glm{.layers = 78,
                            .attention = mla_latent{512, 64},
                            .index = {.layers = 21, .dim = 128},
                            .ranks = 8,
                            .element_bytes = 1,
                            .format = token_format::mla_656};

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const std::invalid_argument& refused) {
    return refused.what();
  }
  return "not refused";
}

// --- Kimi K2.6: 61 layers, latent 512 and rotary part 64, whole on each of 8 ranks ---

TEST(capacity, kimi_bytes_a_token_exactly) {
  static_assert(cache_page(kimi(2)).token_bytes() == 70'272);
  static_assert(cache_page(kimi(1)).token_bytes() == 35'136);
  static_assert(cache_page(kimi(1, token_format::mla_656)).token_bytes() == 61 * 656);
}

// Published to three digits, from 44.9 GiB: tolerance 0.1 %.
TEST(capacity, kimi_tokens_in_44_9_gib) {
  constexpr std::uint64_t pool = to_bytes(44.9);
  const auto tokens = [](const cache_options& options) {
    return static_cast<double>(plan_capacity(cache_page(options), pool, 21'000).tokens);
  };
  EXPECT_NEAR(tokens(kimi(2)), 686e3, 0.001 * 686e3);
  EXPECT_NEAR(tokens(kimi(1)), 1.372e6, 0.001 * 1.372e6);
  EXPECT_NEAR(tokens(kimi(1, token_format::mla_656)), 1.205e6, 0.001 * 1.205e6);
}

TEST(capacity, kimi_requests_of_21000_tokens_exactly) {
  constexpr std::uint64_t pool = to_bytes(44.9);
  constexpr capacity bf16 = plan_capacity(cache_page(kimi(2)), pool, 21'000);
  static_assert(bf16.request_pages == 329);
  static_assert(bf16.requests == 32);
  static_assert(33 * bf16.request_pages > bf16.pages);
  static_assert(bf16.limit == capacity_limit::memory);
  // The published run had 64; the arithmetic leaves room for one more, and not for two.
  constexpr capacity fp8 = plan_capacity(cache_page(kimi(1)), pool, 21'000);
  static_assert(fp8.requests == 65);
}

// --- GLM 5.2: 78 layers, index keys of 128 on 21 of them ---

TEST(capacity, glm_bytes_a_token_exactly) {
  static_assert(cache_page(glm).token_bytes() == 78 * 656 + 21 * 132);
  static_assert(cache_page(glm).token_bytes() == 53'940);
  static_assert(cache_page(glm).index()->token_bytes() == 21 * 132);
}

// Published to one decimal of a GiB.
TEST(capacity, glm_weights_of_705_and_421_gib_on_eight_gpus) {
  EXPECT_NEAR(705.0 / 8, 88.1, 0.05);
  EXPECT_NEAR(421.0 / 8, 52.6, 0.05);
  const std::uint64_t device = to_bytes(139.8);
  const std::uint64_t before =
      kv_pool_bytes({.device_bytes = device, .fraction = 0.8, .weight_bytes = to_bytes(705.0 / 8)});
  const std::uint64_t after =
      kv_pool_bytes({.device_bytes = device, .fraction = 0.8, .weight_bytes = to_bytes(421.0 / 8)});
  EXPECT_NEAR(static_cast<double>(after - before) / gib, 35.5, 0.05);
  EXPECT_NEAR(static_cast<double>(after) / gib, 59.3, 0.1);  // the fraction is published as "about 0.80"
}

// The two readings of the published "another 1.18 M": tolerance 0.1 % for the first, 0.2 % for the second.
TEST(capacity, glm_what_is_freed_and_what_the_pool_holds) {
  const cache_page page(glm);
  EXPECT_NEAR(35.5 * gib / static_cast<double>(page.token_bytes()), 707e3, 0.001 * 707e3);
  EXPECT_NEAR(static_cast<double>(plan_capacity(page, to_bytes(59.3), 21'000).tokens), 1.18e6,
              0.002 * 1.18e6);
}

// --- Heads, split and repeated ---

constexpr std::uint64_t llama_token_bytes(std::uint32_t ranks) {
  return cache_page({.layers = 32, .attention = grouped_heads{8, 128}, .ranks = ranks}).token_bytes();
}

TEST(capacity, heads_are_split_over_ranks_and_repeated_beyond_them) {
  static_assert(llama_token_bytes(1) == 32 * 2 * 8 * 128 * 2);
  static_assert(llama_token_bytes(4) == llama_token_bytes(1) / 4);
  static_assert(llama_token_bytes(8) == llama_token_bytes(1) / 8);
  static_assert(llama_token_bytes(16) == llama_token_bytes(8));
}

TEST(capacity, format_584_stores_a_latent_of_448) {
  constexpr cache_page page({.layers = 2,
                             .attention = mla_latent{448, 64},
                             .element_bytes = 1,
                             .format = token_format::mla_584,
                             .tokens_per_page = 64});
  static_assert(page.token_bytes() == 2 * 584);
  static_assert(page.page_bytes() == 2 * 65 * 576);  // 64 x 584 filled up to a multiple of 576
}

// --- Weights ---

TEST(capacity, weight_bytes_include_scales_exactly) {
  static_assert(weights_bf16.bytes(1'000) == 2'000);
  static_assert(weights_fp8.bytes(128 * 128) == 128 * 128 + 4);
  static_assert(weights_int4_g32.bytes(32) == 16 + 2);
  static_assert(weights_int4_g128.bytes(129) == 65 + 4);
}

// --- Limits ---

TEST(capacity, page_ids_limit_pages_that_are_too_small) {
  constexpr cache_page page({.layers = 1, .attention = grouped_heads{1, 1}, .tokens_per_page = 1});
  constexpr capacity plan = plan_capacity(page, std::uint64_t{1} << 40, 100);
  static_assert(plan.pages == max_pages_per_pool - 1);
  static_assert(plan.limit == capacity_limit::page_ids);
}

TEST(capacity, a_request_larger_than_the_pool_is_what_limits) {
  const cache_page page(kimi(2));
  const capacity plan = plan_capacity(page, 11 * page.page_bytes(), 641);
  EXPECT_EQ(plan.pages, 10u);
  EXPECT_EQ(plan.requests, 0u);
  EXPECT_EQ(plan.limit, capacity_limit::one_request);
  EXPECT_EQ(plan_capacity(page, 11 * page.page_bytes(), 640).requests, 1u);
}

// --- Nonsense ---

TEST(capacity, weights_larger_than_memory_are_refused) {
  const std::string said =
      refusal([] { (void)kv_pool_bytes({.device_bytes = 1'000, .fraction = 0.5, .weight_bytes = 500}); });
  EXPECT_EQ(said,
            "kv_pool_bytes: weights (500) and reserve (0) are 500 bytes; they must be below 500, the GPU's "
            "share for the engine");
}

TEST(capacity, fractions_outside_0_to_1_are_refused) {
  for (const double fraction :
       {0.0, -0.1, 1.0000001, std::numeric_limits<double>::infinity(), std::nan("")}) {
    const std::string said =
        refusal([=] { (void)kv_pool_bytes({.device_bytes = 1'000, .fraction = fraction}); });
    EXPECT_EQ(said, "kv_pool_bytes: fraction is " + std::to_string(fraction) +
                        "; it must be above 0 and at most 1");
  }
  EXPECT_EQ(kv_pool_bytes({.device_bytes = 1'000, .fraction = 1.0}), 1'000u);
}

TEST(capacity, sums_that_overflow_are_refused) {
  constexpr std::uint64_t huge = (std::numeric_limits<std::uint64_t>::max)();
  EXPECT_NE(refusal([] { (void)kv_pool_bytes({.device_bytes = huge}); }), "not refused");
  EXPECT_NE(refusal([] {
              (void)kv_pool_bytes({.device_bytes = 1'000, .weight_bytes = huge, .reserve_bytes = huge});
            }),
            "not refused");
  EXPECT_NE(refusal([] { (void)weights_bf16.bytes(huge); }), "not refused");
}

TEST(capacity, zero_layers_are_refused) {
  cache_options options = kimi(2);
  options.layers = 0;
  EXPECT_EQ(refusal([&] { (void)cache_page(options); }),
            "page_shape: layers is 0; it must be between 1 and 65536");
}

TEST(capacity, more_index_layers_than_layers_are_refused) {
  cache_options options = glm;
  options.index.layers = 79;
  EXPECT_EQ(refusal([&] { (void)cache_page(options); }),
            "cache_page: index.layers is 79; it must be between 0 and 78");
}

TEST(capacity, ranks_that_cannot_share_the_heads_are_refused) {
  EXPECT_EQ(refusal([] { (void)llama_token_bytes(3); }),
            "cache_page: ranks is 3; it must divide the 8 K and V heads, or be a multiple of them");
  EXPECT_EQ(refusal([] { (void)llama_token_bytes(0); }),
            "cache_page: ranks is 0; it must be between 1 and 65536");
}

TEST(capacity, published_formats_refuse_other_models) {
  EXPECT_EQ(refusal([] { (void)cache_page(kimi(1, token_format::mla_584)); }),
            "cache_page: latent_dim is 512 and rope_dim 64; the 584-byte format stores 448 and 64");
  EXPECT_EQ(refusal([] { (void)cache_page(kimi(2, token_format::mla_656)); }),
            "cache_page: element_bytes is 2; in a published format it must be 1");
  EXPECT_EQ(refusal([] {
              (void)cache_page({.layers = 32,
                                .attention = grouped_heads{8, 128},
                                .element_bytes = 1,
                                .format = token_format::mla_656});
            }),
            "cache_page: format is published for MLA; the model has K and V heads");
}

TEST(capacity, a_page_larger_than_the_pool_is_refused) {
  const cache_page page(kimi(2));  // 64 x 70 272 = 4 497 408 bytes
  EXPECT_EQ(
      refusal([&] { (void)plan_capacity(page, 5'000'000, 1); }),
      "plan_capacity: a page is 4497408 bytes; it must be at most 2500000, for the pool to hold the null "
      "page and one more");
}

TEST(capacity, requests_of_no_tokens_are_refused) {
  EXPECT_EQ(refusal([] { (void)plan_capacity(cache_page(kimi(2)), to_bytes(1), 0); }),
            "plan_capacity: request_tokens is 0; it must be between 1 and 2147483647");
}

}  // namespace
