#include "model.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace capacity_example {
namespace {

using nlohmann::json;

enum class family { dense, mixture, mla };  // GQA; GQA with experts; MLA with experts

struct architecture {
  const char* name;
  family kind;
  bool normed_heads = false;  // Q and K are normalised, head by head
  bool sparse = false;        // chooses by index keys what it reads
};

constexpr std::array architectures{
    architecture{"LlamaForCausalLM", family::dense},
    architecture{"MistralForCausalLM", family::dense},
    architecture{"Qwen2ForCausalLM", family::dense},
    architecture{"Qwen3ForCausalLM", family::dense, true},
    architecture{"Qwen3MoeForCausalLM", family::mixture, true},
    architecture{"DeepseekV2ForCausalLM", family::mla},
    architecture{"DeepseekV3ForCausalLM", family::mla},
    architecture{"DeepseekV32ForCausalLM", family::mla, false, true},
    architecture{"GlmMoeDsaForCausalLM", family::mla, false, true},
    architecture{"KimiK25ForConditionalGeneration", family::mla},
};

// The product; throws past 2^50, so that sums of a few fit.
std::uint64_t product(std::initializer_list<std::uint64_t> factors) {
  constexpr std::uint64_t bound = std::uint64_t{1} << 50;
  std::uint64_t result = 1;
  for (const std::uint64_t factor : factors) {
    if (factor != 0 && result > bound / factor)
      throw std::invalid_argument("the fields multiply to more than 2^50 parameters");
    result *= factor;
  }
  return result;
}

// The fields of a config.json, with errors that name them.
class fields {
 public:
  explicit fields(const json& object) : object_(object) {}

  [[nodiscard]] bool has(const char* name) const {
    const auto field = object_.find(name);
    return field != object_.end() && !field->is_null();
  }

  // A whole number between low and high.
  [[nodiscard]] std::uint32_t count(const char* name, std::uint32_t low = 1,
                                    std::uint32_t high = 1u << 20) const {
    if (!has(name)) throw std::invalid_argument(std::string(name) + " is missing");
    const json& field = object_[name];
    const bool in_range =
        field.is_number_unsigned() && field.get<std::uint64_t>() >= low && field.get<std::uint64_t>() <= high;
    if (!in_range)
      throw std::invalid_argument(std::string(name) + " is " + field.dump() +
                                  "; it must be a whole number between " + std::to_string(low) + " and " +
                                  std::to_string(high));
    return field.get<std::uint32_t>();
  }
  [[nodiscard]] std::uint32_t count_or(const char* name, std::uint32_t otherwise,
                                       std::uint32_t low = 1) const {
    return has(name) ? count(name, low) : otherwise;
  }

  [[nodiscard]] bool flag_or(const char* name, bool otherwise) const {
    if (!has(name)) return otherwise;
    if (!object_[name].is_boolean())
      throw std::invalid_argument(std::string(name) + " is " + object_[name].dump() +
                                  "; it must be true or false");
    return object_[name].get<bool>();
  }

  [[nodiscard]] std::vector<std::string> names(const char* name) const {
    if (!has(name)) return {};
    const json& field = object_[name];
    const bool is_list = field.is_array() && std::all_of(field.begin(), field.end(),
                                                         [](const json& one) { return one.is_string(); });
    if (!is_list)
      throw std::invalid_argument(std::string(name) + " is " + field.dump() + "; it must be a list of names");
    return field.get<std::vector<std::string>>();
  }

 private:
  const json& object_;
};

const architecture& known_architecture(const fields& config) {
  const std::vector<std::string> names = config.names("architectures");
  if (names.empty()) throw std::invalid_argument("architectures is missing or empty");
  std::string known;
  for (const architecture& one : architectures) {
    if (names.front() == one.name) return one;
    known += known.empty() ? one.name : std::string(", ") + one.name;
  }
  throw std::invalid_argument("architecture " + names.front() + " is unknown; known are " + known);
}

// Layers that keep fewer tokens than they are given would need another plan.
void require_full_attention(const fields& config) {
  if (config.has("sliding_window") && config.flag_or("use_sliding_window", true))
    throw std::invalid_argument("sliding_window is set; only caches of all tokens are planned");
  for (const std::string& type : config.names("layer_types"))
    if (type != "full_attention" && type != "deepseek_sparse_attention")
      throw std::invalid_argument("layer_types holds " + type + "; only caches of all tokens are planned");
}

// Gate, up and down.
std::uint64_t mlp(std::uint64_t hidden, std::uint64_t intermediate) {
  return product({3, hidden, intermediate});
}

// What every family has: embeddings, output head, the norms around attention and MLP.
std::uint64_t embeddings_and_norms(const fields& config, std::uint64_t hidden, std::uint64_t layers) {
  const bool tied = config.flag_or("tie_word_embeddings", false);
  return product({tied ? 1u : 2u, config.count("vocab_size", 1, 1u << 24), hidden}) +
         product({2 * layers + 1, hidden});
}

// Biases are not counted: under 0.01 % where there are any.
void read_grouped(model& result, const fields& config, const architecture& kind) {
  const std::uint64_t hidden = config.count("hidden_size");
  const std::uint32_t heads = config.count("num_attention_heads");
  const std::uint32_t kv_heads = config.count_or("num_key_value_heads", heads);
  if (heads % kv_heads != 0)
    throw std::invalid_argument("num_key_value_heads is " + std::to_string(kv_heads) +
                                "; it must divide num_attention_heads, " + std::to_string(heads));
  if (!config.has("head_dim") && hidden % heads != 0)
    throw std::invalid_argument("head_dim is missing, and num_attention_heads, " + std::to_string(heads) +
                                ", does not divide hidden_size, " + std::to_string(hidden));
  const std::uint32_t head_dim = config.count_or("head_dim", static_cast<std::uint32_t>(hidden / heads));
  result.attention = kvpage::grouped_heads{kv_heads, head_dim};

  const std::uint64_t layers = result.layers;
  parameter_counts& sum = result.parameters;
  sum.kept = embeddings_and_norms(config, hidden, layers);
  if (kind.normed_heads) sum.kept += product({layers, 2, head_dim});
  sum.matrices = product({layers, 2, hidden, std::uint64_t{heads} + kv_heads, head_dim});
  if (kind.kind == family::dense) {
    sum.matrices += product({layers, mlp(hidden, config.count("intermediate_size"))});
    return;
  }
  if (config.count_or("decoder_sparse_step", 1) != 1)
    throw std::invalid_argument("decoder_sparse_step is not 1; only experts in every layer are planned");
  const std::uint64_t experts = config.count("num_experts");
  sum.experts = product({layers, experts, mlp(hidden, config.count("moe_intermediate_size"))});
  sum.kept += product({layers, experts, hidden});
}

// Index keys: all layers have them, unless indexer_types says which do ("full") and which use another's
// choice ("shared").
kvpage::index_keys read_index(const fields& config, std::uint32_t layers) {
  const std::vector<std::string> types = config.names("indexer_types");
  if (types.empty()) {
    if (config.count_or("index_topk_freq", 1) != 1)
      throw std::invalid_argument("index_topk_freq is not 1, and indexer_types is missing");
    return {layers, config.count("index_head_dim")};
  }
  if (types.size() != layers)
    throw std::invalid_argument("indexer_types has " + std::to_string(types.size()) +
                                " entries; it must have one for each of " + std::to_string(layers) +
                                " layers");
  for (const std::string& type : types)
    if (type != "full" && type != "shared")
      throw std::invalid_argument("indexer_types holds " + type + "; known are full and shared");
  const auto full = std::count(types.begin(), types.end(), "full");
  return {static_cast<std::uint32_t>(full), config.count("index_head_dim")};
}

void read_mla(model& result, const fields& config, const architecture& kind) {
  const std::uint32_t latent = config.count("kv_lora_rank");
  const std::uint32_t rope = config.count("qk_rope_head_dim");
  result.attention = kvpage::mla_latent{latent, rope};

  const std::uint64_t hidden = config.count("hidden_size");
  const std::uint64_t heads = config.count("num_attention_heads");
  const std::uint64_t nope = config.count("qk_nope_head_dim");
  const std::uint64_t value = config.count("v_head_dim");
  const std::uint64_t query = config.has("q_lora_rank") ? config.count("q_lora_rank") : 0;
  const std::uint64_t query_projections =
      query == 0 ? product({hidden, heads, nope + rope})
                 : product({hidden, query}) + product({query, heads, nope + rope});
  const std::uint64_t attention = query_projections + product({hidden, std::uint64_t{latent} + rope}) +
                                  product({latent, heads, nope + value}) + product({heads, value, hidden});
  const std::uint64_t norms = query + latent;

  const std::uint64_t layers = result.layers;
  const std::uint64_t predicting = config.count_or("num_nextn_predict_layers", 0, 0);
  const std::uint64_t dense = config.count("first_k_dense_replace", 0, result.layers);
  const std::uint64_t mixed = layers - dense + predicting;
  const std::uint64_t experts = config.count("n_routed_experts");
  const std::uint64_t expert = mlp(hidden, config.count("moe_intermediate_size"));

  parameter_counts& sum = result.parameters;
  sum.experts = product({mixed, experts, expert});
  sum.matrices = product({layers + predicting, attention}) +
                 product({mixed, config.count_or("n_shared_experts", 0, 0), expert}) +
                 (dense == 0 ? 0 : product({dense, mlp(hidden, config.count("intermediate_size"))})) +
                 product({predicting, 2, hidden, hidden});
  sum.kept = embeddings_and_norms(config, hidden, layers + predicting) +
             product({layers + predicting, norms}) + product({mixed, experts, hidden});

  if (!kind.sparse) return;
  result.index = read_index(config, result.layers);
  const std::uint64_t index_heads = config.count("index_n_heads");
  const std::uint64_t indexer = product({query == 0 ? hidden : query, index_heads, result.index.dim}) +
                                product({hidden, result.index.dim + index_heads});
  sum.matrices += product({result.index.layers + predicting, indexer});
}

}  // namespace

model model_from_config(std::string name, std::string_view text) {
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object()) throw std::invalid_argument("is not a JSON object");
  const architecture& kind = known_architecture(fields(document));

  // Models that also see nest what belongs to the language model.
  const bool nested = document.contains("text_config");
  if (nested && !document["text_config"].is_object())
    throw std::invalid_argument("text_config is not a JSON object");
  const fields config(nested ? document["text_config"] : document);

  model result;
  result.name = std::move(name);
  result.layers = config.count("num_hidden_layers", 1, 1u << 16);
  require_full_attention(config);
  if (kind.kind == family::mla)
    read_mla(result, config, kind);
  else
    read_grouped(result, config, kind);
  return result;
}

}  // namespace capacity_example
