#include "presets.hpp"

#include <array>

namespace capacity_example {
namespace {

// Each from the model's public config.json on Hugging Face.
constexpr std::array models{
    // moonshotai/Kimi-K2.6, its text_config
    model_preset{"kimi-k2.6", R"({
      "architectures": ["KimiK25ForConditionalGeneration"],
      "text_config": {
        "num_hidden_layers": 61, "hidden_size": 7168, "vocab_size": 163840, "num_attention_heads": 64,
        "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
        "v_head_dim": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
        "n_routed_experts": 384, "n_shared_experts": 1, "first_k_dense_replace": 1,
        "num_nextn_predict_layers": 0 } })"},
    // zai-org/GLM-5.2; full indexers in the first three layers, then in every fourth
    model_preset{"glm-5.2", R"({
      "architectures": ["GlmMoeDsaForCausalLM"],
      "num_hidden_layers": 78, "hidden_size": 6144, "vocab_size": 154880, "num_attention_heads": 64,
      "q_lora_rank": 2048, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 192,
      "v_head_dim": 256, "intermediate_size": 12288, "moe_intermediate_size": 2048,
      "n_routed_experts": 256, "n_shared_experts": 1, "first_k_dense_replace": 3,
      "num_nextn_predict_layers": 1, "index_head_dim": 128, "index_n_heads": 32,
      "indexer_types": [
        "full", "full",
        "full", "shared", "shared", "shared", "full", "shared", "shared", "shared",
        "full", "shared", "shared", "shared", "full", "shared", "shared", "shared",
        "full", "shared", "shared", "shared", "full", "shared", "shared", "shared",
        "full", "shared", "shared", "shared", "full", "shared", "shared", "shared",
        "full", "shared", "shared", "shared", "full", "shared", "shared", "shared",
        "full", "shared", "shared", "shared", "full", "shared", "shared", "shared",
        "full", "shared", "shared", "shared", "full", "shared", "shared", "shared",
        "full", "shared", "shared", "shared", "full", "shared", "shared", "shared",
        "full", "shared", "shared", "shared", "full", "shared", "shared", "shared",
        "full", "shared", "shared", "shared"] })"},
    // meta-llama/Llama-3.1-8B
    model_preset{"llama-3.1-8b", R"({
      "architectures": ["LlamaForCausalLM"],
      "num_hidden_layers": 32, "hidden_size": 4096, "vocab_size": 128256, "num_attention_heads": 32,
      "num_key_value_heads": 8, "intermediate_size": 14336, "tie_word_embeddings": false })"},
    // deepseek-ai/DeepSeek-V3
    model_preset{"deepseek-v3", R"({
      "architectures": ["DeepseekV3ForCausalLM"],
      "num_hidden_layers": 61, "hidden_size": 7168, "vocab_size": 129280, "num_attention_heads": 128,
      "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
      "v_head_dim": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
      "n_routed_experts": 256, "n_shared_experts": 1, "first_k_dense_replace": 3,
      "num_nextn_predict_layers": 1 })"},
    // Qwen/Qwen3-30B-A3B
    model_preset{"qwen3-30b-a3b", R"({
      "architectures": ["Qwen3MoeForCausalLM"],
      "num_hidden_layers": 48, "hidden_size": 2048, "vocab_size": 151936, "num_attention_heads": 32,
      "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "moe_intermediate_size": 768,
      "tie_word_embeddings": false })"},
};

constexpr std::array gpus{gpu_preset{"h100", 79.1}, gpu_preset{"h200", 139.8}, gpu_preset{"b200", 178.3}};

constexpr std::array weights{
    weight_preset{"bf16", kvpage::weights_bf16, false},
    weight_preset{"fp8", kvpage::weights_fp8, false},
    weight_preset{"int4-g32", kvpage::weights_int4_g32, true},
    weight_preset{"int4-g128", kvpage::weights_int4_g128, true},
};

}  // namespace

std::span<const model_preset> model_presets() { return models; }
std::span<const gpu_preset> gpu_presets() { return gpus; }
std::span<const weight_preset> weight_presets() { return weights; }

std::uint64_t weight_preset::bytes(const parameter_counts& parameters) const {
  const bool keeps_matrices = experts_only && parameters.experts != 0;
  const std::uint64_t stored = parameters.experts + (keeps_matrices ? 0 : parameters.matrices);
  return format.bytes(stored) + kvpage::weights_bf16.bytes(parameters.total() - stored);
}

}  // namespace capacity_example
