// What the planner needs to know of a model, read from its public config.json.
#pragma once

#include <kvpage/capacity.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace capacity_example {

// By how quantised checkpoints treat them.
struct parameter_counts {
  std::uint64_t experts = 0;   // routed experts
  std::uint64_t matrices = 0;  // the other linear layers
  std::uint64_t kept = 0;      // embeddings, output head, routers, norms: bf16 in every format

  [[nodiscard]] std::uint64_t total() const { return experts + matrices + kept; }
};

struct model {
  std::string name;
  std::uint32_t layers = 0;
  std::variant<kvpage::grouped_heads, kvpage::mla_latent> attention;
  kvpage::index_keys index;
  parameter_counts parameters;
};

// Reads the text of a Hugging Face config.json.  Throws std::invalid_argument that names the architecture or
// the field which is missing, malformed, out of range, or changes the cache in a way that is not planned for.
// Layers for multi-token prediction count as weights and not as cache; vision towers count as neither.
[[nodiscard]] model model_from_config(std::string name, std::string_view text);

}  // namespace capacity_example
