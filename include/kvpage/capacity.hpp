// kvpage: what fits, before anything is deployed.
//
//   memory_budget  -> kv_pool_bytes   what a GPU has left for the KV cache after its weights
//   cache_options  -> cache_page      what one page of one tensor-parallel rank holds, from page_shape
//   both           -> plan_capacity   pages, tokens, concurrent requests, and what limits them
//
// K and V heads are split over the ranks (or repeated, where there are more ranks than heads).  An MLA
// latent has no heads to split, and index keys neither: every rank holds all of them.
//
// Everything here can be computed at compile time; impossible input throws std::invalid_argument.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

#include "checked_math.hpp"
#include "config.hpp"
#include "error.hpp"
#include "page_shape.hpp"

namespace kvpage::inline v0 {

// --- Weights ---

// How weights are stored: so many bits each, and a scale for every `group` of them (0: no scales).
struct weight_format {
  std::uint32_t bits = 16;
  std::uint32_t group = 0;
  std::uint32_t scale_bytes = 0;

  // Of so many parameters, scales included.
  [[nodiscard]] constexpr std::uint64_t bytes(std::uint64_t parameters) const {
    const char* const what = "weight_format: weights";
    detail::require_between("weight_format: bits", bits, 1u, 64u);
    const std::uint64_t values = detail::round_up(detail::checked_product(what, parameters, bits), 8) / 8;
    if (group == 0) return values;
    const std::uint64_t scales = parameters / group + (parameters % group != 0);
    return detail::checked_sum(what, values, detail::checked_product(what, scales, scale_bytes));
  }
};

inline constexpr weight_format weights_bf16{16, 0, 0};
// A float for each 128 x 128 block (deepseek-ai/DeepSeek-V3, README_WEIGHTS.md).
inline constexpr weight_format weights_fp8{8, 128 * 128, 4};
// A bf16 for each 32, or 128, weights of a row (compressed-tensors' "pack-quantized" with group_size).
inline constexpr weight_format weights_int4_g32{4, 32, 2};
inline constexpr weight_format weights_int4_g128{4, 128, 2};

// --- Memory of one GPU ---

struct memory_budget {
  std::uint64_t device_bytes;       // what the device reports as its total
  double fraction = 0.9;            // the part of it that the engine takes
  std::uint64_t weight_bytes = 0;   // this GPU's share of the weights
  std::uint64_t reserve_bytes = 0;  // for activations, graphs, collectives, out of that part as well
};

// fraction x device - weights - reserve, in bytes.  Throws for a fraction outside (0, 1] or NaN, and where
// weights and reserve leave nothing.
[[nodiscard]] constexpr std::uint64_t kv_pool_bytes(const memory_budget& budget) {
  // Up to 2^53 a double counts every byte.
  detail::require_between("kv_pool_bytes: device_bytes", budget.device_bytes, std::uint64_t{1},
                          std::uint64_t{1} << 53);
  if (!(budget.fraction > 0.0 && budget.fraction <= 1.0))
    throw std::invalid_argument("kv_pool_bytes: fraction is " + std::to_string(budget.fraction) +
                                "; it must be above 0 and at most 1");
  const auto taken = static_cast<std::uint64_t>(static_cast<double>(budget.device_bytes) * budget.fraction);
  const std::uint64_t used =
      detail::checked_sum("kv_pool_bytes: used", budget.weight_bytes, budget.reserve_bytes);
  if (used >= taken)
    throw std::invalid_argument("kv_pool_bytes: weights (" + std::to_string(budget.weight_bytes) +
                                ") and reserve (" + std::to_string(budget.reserve_bytes) + ") are " +
                                std::to_string(used) + " bytes; they must be below " + std::to_string(taken) +
                                ", the GPU's share for the engine");
  return taken - used;
}

// --- What is cached ---

// MHA and GQA: K and V of each head.
struct grouped_heads {
  std::uint32_t kv_heads;
  std::uint32_t head_dim;
};
// MLA: the compressed vector and the rotary part beside it.
struct mla_latent {
  std::uint32_t latent_dim;
  std::uint32_t rope_dim;
};
// Keys by which sparse attention chooses what to read; only some layers have them.  Stored as e4m3 with one
// fp32 scale a key, whatever K and V are stored as (deepseek-ai/DeepGEMM, fp8_paged_mqa_logits).
struct index_keys {
  std::uint32_t layers = 0;
  std::uint32_t dim = 128;
};

enum class token_format : std::uint8_t { flat, mla_656, mla_584 };  // see page_shape.hpp

struct cache_options {
  std::uint32_t layers;
  std::variant<grouped_heads, mla_latent> attention;
  index_keys index = {};
  std::uint32_t ranks = 1;          // of tensor parallelism
  std::uint32_t element_bytes = 2;  // of K and V; 1 for the published formats
  token_format format = token_format::flat;
  std::uint32_t tokens_per_page = 64;
};

// One page of one rank.
class cache_page {
 public:
  // Throws for counts of zero or out of range, heads that ranks cannot share evenly, and a published format
  // that stores other dimensions than the model has.
  constexpr explicit cache_page(const cache_options& options);

  [[nodiscard]] constexpr const page_shape& kv() const noexcept { return kv_; }
  [[nodiscard]] constexpr const std::optional<page_shape>& index() const noexcept { return index_; }
  [[nodiscard]] constexpr std::uint32_t tokens() const noexcept { return kv_.tokens_per_page(); }

  // Of one token and of the page, in all layers, index keys included.
  [[nodiscard]] constexpr std::uint64_t token_bytes() const noexcept {
    return kv_.token_bytes() + (index_ ? index_->token_bytes() : 0);
  }
  [[nodiscard]] constexpr std::uint64_t page_bytes() const noexcept {
    return kv_.page_bytes() + (index_ ? index_->page_bytes() : 0);
  }

 private:
  static constexpr page_shape shape_of(const cache_options& options);
  static constexpr page_shape published(const cache_options& options);

  page_shape kv_;
  std::optional<page_shape> index_;
};

// --- What fits ---

enum class capacity_limit : std::uint8_t {
  memory,      // the pool's bytes
  page_ids,    // max_pages_per_pool: more memory would not help, larger pages would
  one_request  // not even one request fits
};

[[nodiscard]] constexpr std::string_view to_string(capacity_limit limit) noexcept {
  switch (limit) {
    case capacity_limit::memory: return "memory";
    case capacity_limit::page_ids: return "page ids";
    case capacity_limit::one_request: return "one request is larger than the pool";
  }
  return "unknown limit";
}

struct capacity {
  std::uint64_t pages;   // that can be granted: the null page is not among them
  std::uint64_t tokens;  // in them
  std::uint64_t request_pages;
  std::uint64_t requests;  // that fit at once, each in pages of its own
  capacity_limit limit;
};

// What a pool of so many bytes holds, for requests that reach `request_tokens` tokens each.  Throws if the
// pool has no room for the null page and one more, or for a request of no or too many tokens.
[[nodiscard]] constexpr capacity plan_capacity(const cache_page& page, std::uint64_t pool_bytes,
                                               std::uint64_t request_tokens) {
  detail::require_between("plan_capacity: request_tokens", request_tokens, std::uint64_t{1},
                          std::uint64_t{max_tokens_per_row});
  const std::uint64_t fitting = pool_bytes / page.page_bytes();
  if (fitting < 2)
    throw std::invalid_argument("plan_capacity: a page is " + std::to_string(page.page_bytes()) +
                                " bytes; it must be at most " + std::to_string(pool_bytes / 2) +
                                ", for the pool to hold the null page and one more");
  const bool outnumbered = fitting > max_pages_per_pool;

  capacity plan{};
  plan.pages = (outnumbered ? max_pages_per_pool : fitting) - 1;
  plan.tokens = plan.pages * page.tokens();
  plan.request_pages = pages_for(request_tokens, page.tokens());
  plan.requests = plan.pages / plan.request_pages;
  plan.limit = plan.requests == 0 ? capacity_limit::one_request
               : outnumbered      ? capacity_limit::page_ids
                                  : capacity_limit::memory;
  return plan;
}

// --- Implementation ---

constexpr cache_page::cache_page(const cache_options& options) : kv_(shape_of(options)) {
  detail::require_between("cache_page: index.layers", options.index.layers, 0u, options.layers);
  if (options.index.layers != 0)
    index_ = page_shape::mla({.layers = options.index.layers,
                              .latent_dim = options.index.dim,
                              .rope_dim = 0,
                              .tokens_per_page = options.tokens_per_page,
                              .element_bytes = 1,
                              .scales = scale_rule::per_token_head});
  // So that page_bytes() need not check.
  (void)detail::checked_sum("cache_page: a page", kv_.page_bytes(), index_ ? index_->page_bytes() : 0);
}

constexpr page_shape cache_page::shape_of(const cache_options& options) {
  detail::require_between("cache_page: ranks", options.ranks, 1u, 1u << 16);
  if (options.format != token_format::flat) return published(options);
  if (const auto* const mla = std::get_if<mla_latent>(&options.attention))
    return page_shape::mla({.layers = options.layers,
                            .latent_dim = mla->latent_dim,
                            .rope_dim = mla->rope_dim,
                            .tokens_per_page = options.tokens_per_page,
                            .element_bytes = options.element_bytes});

  const auto& heads = std::get<grouped_heads>(options.attention);
  detail::require_between("cache_page: kv_heads", heads.kv_heads, 1u, 1u << 16);
  if (heads.kv_heads % options.ranks != 0 && options.ranks % heads.kv_heads != 0)
    throw std::invalid_argument("cache_page: ranks is " + std::to_string(options.ranks) +
                                "; it must divide the " + std::to_string(heads.kv_heads) +
                                " K and V heads, or be a multiple of them");
  return page_shape::kv({.layers = options.layers,
                         .kv_heads = heads.kv_heads > options.ranks ? heads.kv_heads / options.ranks : 1,
                         .head_dim = heads.head_dim,
                         .tokens_per_page = options.tokens_per_page,
                         .element_bytes = options.element_bytes});
}

constexpr page_shape cache_page::published(const cache_options& options) {
  const auto* const mla = std::get_if<mla_latent>(&options.attention);
  if (mla == nullptr)
    throw std::invalid_argument("cache_page: format is published for MLA; the model has K and V heads");
  const bool is_656 = options.format == token_format::mla_656;
  const page_shape shape = is_656 ? page_shape::mla_656(options.layers, options.tokens_per_page)
                                  : page_shape::mla_584(options.layers, options.tokens_per_page);
  const std::uint32_t latent_dim = shape.encoded_dim();
  const std::uint32_t rope_dim = shape.dim() - latent_dim;
  if (mla->latent_dim != latent_dim || mla->rope_dim != rope_dim)
    throw std::invalid_argument("cache_page: latent_dim is " + std::to_string(mla->latent_dim) +
                                " and rope_dim " + std::to_string(mla->rope_dim) + "; the " +
                                (is_656 ? "656" : "584") + "-byte format stores " +
                                std::to_string(latent_dim) + " and " + std::to_string(rope_dim));
  if (options.element_bytes != 1)
    throw std::invalid_argument("cache_page: element_bytes is " + std::to_string(options.element_bytes) +
                                "; in a published format it must be 1");
  return shape;
}

}  // namespace kvpage::inline v0
