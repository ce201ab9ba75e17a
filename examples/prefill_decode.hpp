// What prefill_decode.cpp and prefill_decode_cuda.cu have in common: a stand-in for the model, the ticket
// that goes from the prefill side to the decode side, and the report.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <kvpage/kvpage.hpp>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "attention/exact_attention.hpp"
#include "attention/paged_attention.hpp"

namespace example {

using kvpage::bf16;
using kvpage::errc;
using kvpage::fp8_e4m3;
using prefill_pool = kvpage::page_pool<bf16, kvpage::tagged>;
using decode_pool = kvpage::page_pool<fp8_e4m3, kvpage::tagged>;

inline constexpr std::uint32_t layers = 2, kv_heads = 2, head_dim = 64;
inline constexpr std::uint32_t per_token = kv_heads * head_dim;
inline constexpr attention::head_geometry heads{
    .query_heads = 8, .value_dim = head_dim, .softmax_scale = 0.125f};
inline constexpr std::size_t prompt_tokens[] = {100, 37};
inline constexpr std::size_t requests = std::size(prompt_tokens);
inline constexpr std::size_t decode_steps = 4;

// Half the bytes an element, so a page of the same bytes holds twice the tokens.
inline constexpr kvpage::page_shape prefill_shape = kvpage::page_shape::kv({.layers = layers,
                                                                            .kv_heads = kv_heads,
                                                                            .head_dim = head_dim,
                                                                            .tokens_per_page = 16,
                                                                            .element_bytes = 2});
inline constexpr kvpage::page_shape decode_shape =
    kvpage::page_shape::kv({.layers = layers,
                            .kv_heads = kv_heads,
                            .head_dim = head_dim,
                            .tokens_per_page = 32,
                            .element_bytes = 1,
                            .scales = kvpage::scale_rule::per_tensor});

inline void require(errc code, const char* what) {
  if (code != errc::ok)
    throw std::runtime_error(std::string(what) + ": " + std::string(kvpage::to_string(code)));
}

// Normal deviates in place of what a model computes: each layer's keys and values, [tokens, per_token] for
// each request, and queries.
class model {
 public:
  model() {
    std::mt19937 random{2026};
    std::normal_distribution<float> normal;
    for (std::uint32_t layer = 0; layer < layers; ++layer)
      for (std::size_t request = 0; request < requests; ++request) {
        const std::size_t tokens = prompt_tokens[request] + decode_steps;
        for (auto* part : {&keys_[layer][request], &values_[layer][request]}) {
          part->resize(tokens * per_token);
          std::ranges::generate(*part, [&] { return normal(random); });
        }
      }
    queries.resize(requests * heads.query_heads * head_dim);
    std::ranges::generate(queries, [&] { return normal(random); });
  }

  // Tokens [first, first + count) of a request's K (part 0) or V (part 1).
  [[nodiscard]] std::span<const float> vectors(std::uint32_t layer, std::uint32_t part, std::size_t request,
                                               std::size_t first, std::size_t count) const {
    return std::span{(part == 0 ? keys_ : values_)[layer][request]}.subspan(first * per_token,
                                                                            count * per_token);
  }

  // One scale for the K and one for the V of each layer, from the largest value of the prompts.
  [[nodiscard]] std::vector<float> calibrated_scales() const {
    std::vector<float> scales(decode_shape.calibrated_scales());
    for (std::uint32_t layer = 0; layer < layers; ++layer)
      for (std::uint32_t part = 0; part < 2; ++part) {
        float largest = 0;
        for (std::size_t request = 0; request < requests; ++request)
          for (const float value : vectors(layer, part, request, 0, prompt_tokens[request]))
            largest = (std::max)(largest, std::abs(value));
        scales[decode_shape.calibrated_index(layer, part, 0)] =
            largest / kvpage::element_traits<fp8_e4m3>::largest;
      }
    return scales;
  }

  // The largest difference of a layer's attention, [requests, query_heads, head_dim], from float64 over the
  // model's own numbers; `decoded` tokens came after each prompt.
  [[nodiscard]] double error_of(std::uint32_t layer, std::size_t decoded, std::span<const float> out) const {
    double worst = 0;
    for (std::size_t i = 0; i < requests * heads.query_heads; ++i) {
      const std::size_t request = i / heads.query_heads;
      const std::size_t tokens = prompt_tokens[request] + decoded;
      const std::size_t kv_head = i % heads.query_heads / (heads.query_heads / kv_heads);
      const auto exact =
          attention::exact_attention(queries.data() + i * head_dim, head_dim,
                                     vectors(layer, 0, request, 0, tokens).data() + kv_head * head_dim,
                                     vectors(layer, 1, request, 0, tokens).data() + kv_head * head_dim,
                                     head_dim, per_token, tokens, double{heads.softmax_scale});
      for (std::size_t k = 0; k < head_dim; ++k)
        worst = (std::max)(worst, std::abs(double{out[i * head_dim + k]} - exact[k]));
    }
    return worst;
  }

  std::vector<float> queries;  // [requests, query_heads, head_dim]

 private:
  std::vector<float> keys_[layers][requests];
  std::vector<float> values_[layers][requests];
};

// What the prefill side hands over: which pages, of which generation, and what their bytes mean.  It holds
// a reference to each page, so that they stay what they are after the prefill request has ended.
struct ticket {
  std::uint64_t fingerprint;
  std::size_t tokens;
  std::vector<prefill_pool::handle> pages;
};

inline ticket issue_ticket(prefill_pool& pool, const kvpage::block_table<prefill_pool>& table) {
  require(pool.retain(table.handles()), "retaining a ticket's pages");
  return {
      prefill_shape.fingerprint<bf16>(), table.tokens(), {table.handles().begin(), table.handles().end()}};
}

// Refuses a ticket whose pages have changed hands, or whose bytes mean something else here.
inline errc check_ticket(const prefill_pool& pool, const ticket& presented) {
  if (presented.fingerprint != prefill_shape.fingerprint<bf16>())
    throw std::runtime_error("the ticket's pages have another shape");
  for (const prefill_pool::handle& page : presented.pages) KVPAGE_TRY(pool.check(page));
  return errc::ok;
}

struct report {
  double bf16_error = 0;
  double fp8_error = 0;
  double fp8_error_after_decoding = 0;
  errc second_use = errc::ok;
};

inline void print(const report& r) {
  constexpr std::uint64_t memory = std::uint64_t{64} << 20;
  const auto tokens_in = [](const kvpage::page_shape& shape) {
    return memory / shape.page_bytes() * shape.tokens_per_page();
  };
  const auto bf16_tokens = tokens_in(prefill_shape), fp8_tokens = tokens_in(decode_shape);
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf("                        prefill, bf16   decode, fp8_e4m3\n");
  std::printf("bytes a token         %15llu %18llu\n", number(prefill_shape.token_bytes()),
              number(decode_shape.token_bytes()));
  std::printf("tokens in 64 MiB      %15llu %18llu   %.1fx\n", number(bf16_tokens), number(fp8_tokens),
              static_cast<double>(fp8_tokens) / static_cast<double>(bf16_tokens));
  std::printf("attention's largest error against float64\n");
  std::printf("  of the prompts      %15.2e %18.2e\n", r.bf16_error, r.fp8_error);
  std::printf("  %zu tokens later      %15s %18.2e\n", decode_steps, "", r.fp8_error_after_decoding);
  std::printf("a ticket's second use: %s\n", std::string(kvpage::to_string(r.second_use)).c_str());
}

}  // namespace example
