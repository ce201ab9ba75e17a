#include "comparison.hpp"

#include <cstdio>
#include <stdexcept>
#include <utility>

namespace capacity_example {
namespace {

using kvpage::token_format;

kvpage::cache_page page_of(const question& asked, const cache_kind& kind) {
  return kvpage::cache_page({.layers = asked.model.layers,
                             .attention = asked.model.attention,
                             .index = asked.model.index,
                             .ranks = asked.ranks,
                             .element_bytes = kind.element.starts_with("fp8") ? 1u : 2u,
                             .format = kind.format,
                             .tokens_per_page = asked.tokens_per_page});
}

plan plan_with(const comparison& result, const weights& stored) {
  const question& asked = result.asked;
  plan made{.weights_name = stored.name,
            .total_weight_bytes = stored.bytes,
            .weight_bytes = stored.bytes / asked.ranks + (stored.bytes % asked.ranks != 0)};
  try {
    made.pool_bytes = asked.pool_bytes ? *asked.pool_bytes
                                       : kvpage::kv_pool_bytes({.device_bytes = asked.device_bytes,
                                                                .fraction = asked.fraction,
                                                                .weight_bytes = made.weight_bytes,
                                                                .reserve_bytes = asked.reserve_bytes});
  } catch (const std::invalid_argument&) {  // the same in GiB
    made.problem = decimals(to_gib(made.weight_bytes), 1) + " GiB of weights and a reserve of " +
                   decimals(to_gib(asked.reserve_bytes), 1) + " GiB a GPU; they must be below " +
                   decimals(asked.fraction * to_gib(asked.device_bytes), 1) + " GiB";
    return made;
  }
  try {
    for (const kvpage::cache_page& page : result.pages)
      made.caches.push_back(kvpage::plan_capacity(page, made.pool_bytes, asked.request_tokens));
  } catch (const std::invalid_argument& refused) {
    made.problem = refused.what();
    made.caches.clear();
  }
  return made;
}

}  // namespace

double to_gib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

std::string decimals(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string cache_kind::label() const {
  switch (format) {
    case token_format::flat: return element;
    case token_format::mla_656: return element + " 656 B";
    case token_format::mla_584: return element + " 584 B";
  }
  return element;
}

std::vector<cache_kind> usual_caches(const model& model) {
  std::vector<cache_kind> kinds{{"bf16", token_format::flat}, {"fp8_e4m3", token_format::flat}};
  const auto* const mla = std::get_if<kvpage::mla_latent>(&model.attention);
  if (mla != nullptr && mla->rope_dim == 64) {
    if (mla->latent_dim == 512) kinds.push_back({"fp8_e4m3", token_format::mla_656});
    if (mla->latent_dim == 448) kinds.push_back({"fp8_e4m3", token_format::mla_584});
  }
  return kinds;
}

comparison compare(question asked) {
  comparison result{.asked = std::move(asked)};
  for (const cache_kind& kind : result.asked.caches) result.pages.push_back(page_of(result.asked, kind));
  for (const weights& stored : result.asked.weights) result.plans.push_back(plan_with(result, stored));
  return result;
}

}  // namespace capacity_example
