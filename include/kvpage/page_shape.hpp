// kvpage: what is in a page, byte by byte, and where pages lie in memory.
//
// A page holds `tokens_per_page` (S) tokens of every layer.  The part of one layer is a block: contiguous,
// the vectors of all its tokens first, then their scales.  Offsets are the same for host and device, and
// 64 bits wide.
//
// Flat K and V (MHA, GQA), H heads of D elements; NHD and HND as FlashInfer's kv_layout names them:
//
//   NHD  | K [S, H, D] | V [S, H, D] | scales [2, S, H] |     HND  | K [H, S, D] | V [H, S, D] | [2, H, S] |
//
// Flat MLA: one vector a token, of the latent's and the rotary part's elements; values are its latent.
//
//        | [S, latent + rope] | scales [S] |
//
// Scales are fp32, there only by the rule per_token_head, and start at the next multiple of 4.
//
// Two published MLA formats, in which the rotary part stays bf16: deepseek-ai/FlashMLA's README has the
// first ("FP8 KV cache", 656 bytes a token); vLLM's `fp8_ds_mla` has both, the second for DeepSeek-V4
// (vllm/models/deepseek_v4, "cache block layout", pages aligned to 576 bytes).
//
//   mla_656, a token:  | 512 e4m3 latent | 4 fp32 scales, of 128 elements each | 64 bf16 rope |
//            byte      0                 512                                   528            656
//
//   mla_584, a block:  | S x (448 e4m3 latent | 64 bf16 rope) | S x (7 UE8M0 scales, of 64 each | pad) | fill |
//            byte      0                                    576 S                                    584 S
//                                                                                  fill: to a multiple of 576
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "checked_math.hpp"
#include "config.hpp"
#include "element.hpp"
#include "error.hpp"

namespace kvpage::inline v0 {

// The order of a block's tokens (N) and heads (H).
enum class head_order : std::uint8_t { nhd, hnd };

// What a stored value is multiplied by.  Calibrated scales (per_tensor, per_head) belong to the storage
// as a whole and take no bytes in pages; computed ones lie in the page and travel with it.
enum class scale_rule : std::uint8_t {
  none,            // nothing
  per_tensor,      // calibrated: one for the K and one for the V of a layer
  per_head,        // calibrated: one for each head of them
  per_token_head,  // computed from the vector's largest magnitude when it is stored
};

struct kv_shape_options {
  std::uint32_t layers;
  std::uint32_t kv_heads;
  std::uint32_t head_dim;
  std::uint32_t tokens_per_page;
  std::uint32_t element_bytes;
  head_order order = head_order::nhd;
  scale_rule scales = scale_rule::none;  // other than none: only for elements of one byte
};

struct mla_shape_options {
  std::uint32_t layers;
  std::uint32_t latent_dim;
  std::uint32_t rope_dim;
  std::uint32_t tokens_per_page;
  std::uint32_t element_bytes;
  scale_rule scales = scale_rule::none;
};

class page_shape {
 public:
  static constexpr std::uint32_t max_layers = 1u << 16;
  static constexpr std::uint32_t max_heads = 1u << 14;

  // Each throws std::invalid_argument for a count of zero or out of range, for scales on elements wider
  // than a byte, and where a page's bytes do not fit 63 bits.
  static constexpr page_shape kv(const kv_shape_options& options);
  static constexpr page_shape mla(const mla_shape_options& options);
  static constexpr page_shape mla_656(std::uint32_t layers, std::uint32_t tokens_per_page);
  static constexpr page_shape mla_584(std::uint32_t layers, std::uint32_t tokens_per_page);

  // --- Counts.  A block has parts() x tokens_per_page() x heads() vectors of dim() elements. ---

  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint32_t layers() const noexcept { return layers_; }
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint32_t tokens_per_page() const noexcept {
    return tokens_;
  }
  // 2: K and V; 1: MLA.
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint32_t parts() const noexcept { return parts_; }
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint32_t heads() const noexcept { return heads_; }
  // Vectors of one token in `layers` layers: 32 bits hold the most that there can be.
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint32_t vectors(std::uint32_t layers) const noexcept {
    static_assert(std::uint64_t{max_layers} * 2 * max_heads <= std::uint64_t{1} << 31);
    return layers * parts_ * heads_;
  }
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint32_t dim() const noexcept { return dim_; }
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint32_t element_bytes() const noexcept {
    return element_bytes_;
  }
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr scale_rule scales() const noexcept { return rule_; }

  // A vector's first `encoded_dim()` values are elements; the others, of the published formats, are bf16.
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint32_t encoded_dim() const noexcept {
    return encoded_dim_;
  }
  // Values that share a scale, and the scales stored for a vector (0, unless computed).
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint32_t tile_dim() const noexcept { return tile_dim_; }
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint32_t tiles() const noexcept {
    return scale_bytes_ == 0 ? 0 : encoded_dim_ / tile_dim_;
  }
  // 4: fp32; 1: UE8M0, the exponent alone; 0: none stored.
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint32_t scale_bytes() const noexcept {
    return scale_bytes_;
  }

  // --- Bytes ---

  // Of one token in all layers, scales included; without a block's fill.
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint64_t token_bytes() const noexcept {
    return token_bytes_;
  }
  // Of one layer of a page, and of all its layers.
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint64_t block_bytes() const noexcept {
    return block_bytes_;
  }
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint64_t page_bytes() const noexcept {
    return block_bytes_ * layers_;
  }
  // What every block's address must be a multiple of.
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint32_t alignment() const noexcept { return alignment_; }

  // --- Offsets in a block, in bytes ---

  // Of a vector's first element.  part < parts(), token < tokens_per_page(), head < heads().
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint64_t vector_offset(std::uint32_t part,
                                                                         std::uint32_t token,
                                                                         std::uint32_t head) const noexcept {
    return vectors_.at(part, token, head);
  }
  // Of a vector's first bf16 value, where it has any.
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint64_t rope_offset(std::uint32_t part,
                                                                       std::uint32_t token,
                                                                       std::uint32_t head) const noexcept {
    return vectors_.at(part, token, head) + rope_in_vector_;
  }
  // Of a vector's first stored scale; the others follow it.
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint64_t scale_offset(std::uint32_t part,
                                                                        std::uint32_t token,
                                                                        std::uint32_t head) const noexcept {
    return scale_base_ + scales_.at(part, token, head);
  }

  // Where a calibrated scale stands in the storage's table of calibrated_scales() floats.
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint64_t calibrated_index(
      std::uint32_t layer, std::uint32_t part, std::uint32_t head) const noexcept {
    const std::uint64_t tensor = std::uint64_t{layer} * parts_ + part;
    return rule_ == scale_rule::per_head ? tensor * heads_ + head : tensor;
  }
  [[nodiscard]] KVPAGE_HOST_DEVICE constexpr std::uint64_t calibrated_scales() const noexcept {
    if (rule_ != scale_rule::per_tensor && rule_ != scale_rule::per_head) return 0;
    return calibrated_index(layers_, 0, 0);
  }

  // The same for two processes exactly if a page's bytes mean the same to both, tokens and layers included.
  template <element E>
  [[nodiscard]] constexpr std::uint64_t fingerprint() const noexcept;

  friend constexpr bool operator==(const page_shape&, const page_shape&) = default;

 private:
  struct strides {
    std::uint64_t part = 0;
    std::uint64_t token = 0;
    std::uint64_t head = 0;

    KVPAGE_HOST_DEVICE constexpr std::uint64_t at(std::uint32_t p, std::uint32_t t,
                                                  std::uint32_t h) const noexcept {
      return p * part + t * token + h * head;
    }
    friend constexpr bool operator==(const strides&, const strides&) = default;
  };

  page_shape() = default;

  // Strides of [parts, tokens, heads] or [parts, heads, tokens] cells of `cell` bytes each.
  [[nodiscard]] constexpr strides dense(head_order order, std::uint64_t cell) const {
    const std::uint64_t part =
        detail::checked_product("page_shape: a block", std::uint64_t{tokens_} * heads_, cell);
    return order == head_order::nhd ? strides{part, heads_ * cell, cell}
                                    : strides{part, cell, tokens_ * cell};
  }

  static constexpr page_shape flat(const kv_shape_options& options, std::uint32_t parts);
  static constexpr page_shape published(std::uint32_t layers, std::uint32_t tokens_per_page,
                                        std::uint32_t latent_dim, std::uint32_t tile_dim,
                                        std::uint32_t scale_bytes);
  constexpr void set_bytes(std::uint64_t token_in_layer, std::uint64_t block);

  std::uint32_t layers_ = 0, tokens_ = 0, parts_ = 0, heads_ = 0, dim_ = 0;
  std::uint32_t element_bytes_ = 0, encoded_dim_ = 0, tile_dim_ = 0, scale_bytes_ = 0, alignment_ = 0;
  scale_rule rule_ = scale_rule::none;
  strides vectors_, scales_;
  std::uint64_t rope_in_vector_ = 0, scale_base_ = 0;
  std::uint64_t token_bytes_ = 0, block_bytes_ = 0;
};

// --- Construction ---

constexpr page_shape page_shape::kv(const kv_shape_options& options) { return flat(options, 2); }

constexpr page_shape page_shape::mla(const mla_shape_options& options) {
  detail::require_between("page_shape: latent_dim", options.latent_dim, 1u, 1u << 16);
  detail::require_between("page_shape: rope_dim", options.rope_dim, 0u, 1u << 16);
  return flat({.layers = options.layers,
               .kv_heads = 1,
               .head_dim = options.latent_dim + options.rope_dim,
               .tokens_per_page = options.tokens_per_page,
               .element_bytes = options.element_bytes,
               .scales = options.scales},
              1);
}

constexpr page_shape page_shape::mla_656(std::uint32_t layers, std::uint32_t tokens_per_page) {
  page_shape shape = published(layers, tokens_per_page, 512, 128, 4);
  constexpr std::uint64_t token = 512 + 4 * 4 + 64 * 2;
  shape.rope_in_vector_ = 512 + 4 * 4;
  shape.vectors_.token = shape.scales_.token = token;
  shape.scale_base_ = 512;
  shape.set_bytes(token, token * tokens_per_page);
  return shape;
}

constexpr page_shape page_shape::mla_584(std::uint32_t layers, std::uint32_t tokens_per_page) {
  page_shape shape = published(layers, tokens_per_page, 448, 64, 1);
  constexpr std::uint64_t vector = 448 + 64 * 2;
  constexpr std::uint64_t scales = 8;
  shape.rope_in_vector_ = 448;
  shape.vectors_.token = vector;
  shape.scales_.token = scales;
  shape.scale_base_ = vector * tokens_per_page;
  shape.set_bytes(vector + scales, detail::round_up((vector + scales) * tokens_per_page, vector));
  return shape;
}

constexpr page_shape page_shape::flat(const kv_shape_options& options, std::uint32_t parts) {
  const char* const block = "page_shape: a block";
  detail::require_between("page_shape: layers", options.layers, 1u, max_layers);
  detail::require_between("page_shape: kv_heads", options.kv_heads, 1u, max_heads);
  detail::require_between("page_shape: head_dim", options.head_dim, 1u, 1u << 17);
  detail::require_between("page_shape: tokens_per_page", options.tokens_per_page, 1u, 1u << 20);
  if (options.element_bytes != 1 && options.element_bytes != 2 && options.element_bytes != 4)
    throw std::invalid_argument("page_shape: element_bytes is " + std::to_string(options.element_bytes) +
                                "; it must be 1, 2 or 4");
  if (options.scales != scale_rule::none)
    detail::require_between("page_shape: element_bytes (with scales)", options.element_bytes, 1u, 1u);

  page_shape shape;
  shape.layers_ = options.layers;
  shape.tokens_ = options.tokens_per_page;
  shape.parts_ = parts;
  shape.heads_ = options.kv_heads;
  shape.dim_ = shape.encoded_dim_ = shape.tile_dim_ = options.head_dim;
  shape.element_bytes_ = shape.alignment_ = options.element_bytes;
  shape.rule_ = options.scales;

  const std::uint64_t vector = std::uint64_t{options.head_dim} * options.element_bytes;
  shape.vectors_ = shape.dense(options.order, vector);
  std::uint64_t bytes = detail::checked_product(block, parts, shape.vectors_.part);
  std::uint64_t token = std::uint64_t{parts} * options.kv_heads * vector;
  if (options.scales == scale_rule::per_token_head) {
    shape.scale_bytes_ = shape.alignment_ = sizeof(float);
    shape.scale_base_ = detail::round_up(bytes, sizeof(float));
    shape.scales_ = shape.dense(options.order, sizeof(float));
    bytes = detail::checked_sum(block, shape.scale_base_, parts * shape.scales_.part);
    token += std::uint64_t{parts} * options.kv_heads * sizeof(float);
  }
  shape.set_bytes(token, bytes);
  return shape;
}

// What both published formats have in common.
constexpr page_shape page_shape::published(std::uint32_t layers, std::uint32_t tokens_per_page,
                                           std::uint32_t latent_dim, std::uint32_t tile_dim,
                                           std::uint32_t scale_bytes) {
  detail::require_between("page_shape: layers", layers, 1u, max_layers);
  detail::require_between("page_shape: tokens_per_page", tokens_per_page, 1u, 1u << 20);
  page_shape shape;
  shape.layers_ = layers;
  shape.tokens_ = tokens_per_page;
  shape.parts_ = shape.heads_ = 1;
  shape.dim_ = latent_dim + 64;
  shape.encoded_dim_ = latent_dim;
  shape.tile_dim_ = tile_dim;
  shape.element_bytes_ = 1;
  shape.scale_bytes_ = scale_bytes;
  shape.alignment_ = sizeof(float);
  shape.rule_ = scale_rule::per_token_head;
  return shape;
}

constexpr void page_shape::set_bytes(std::uint64_t token_in_layer, std::uint64_t block) {
  token_bytes_ = detail::checked_product("page_shape: a token", layers_, token_in_layer);
  block_bytes_ = block;
  (void)detail::checked_product("page_shape: a page", layers_, block);
}

template <element E>
constexpr std::uint64_t page_shape::fingerprint() const noexcept {
  std::uint64_t hash = 0xCBF29CE484222325;  // FNV-1a, 64 bits
  const auto mix = [&hash](std::uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) hash = (hash ^ ((value >> (8 * byte)) & 0xFF)) * 0x100000001B3;
  };
  for (const char letter : std::string_view{element_traits<E>::name}) mix(static_cast<std::uint8_t>(letter));
  for (const std::uint64_t value :
       {std::uint64_t{layers_}, std::uint64_t{tokens_}, std::uint64_t{parts_}, std::uint64_t{heads_},
        std::uint64_t{dim_}, std::uint64_t{element_bytes_}, std::uint64_t{encoded_dim_},
        std::uint64_t{tile_dim_}, std::uint64_t{scale_bytes_}, static_cast<std::uint64_t>(rule_),
        vectors_.part, vectors_.token, vectors_.head, scales_.part, scales_.token, scales_.head,
        rope_in_vector_, scale_base_, block_bytes_})
    mix(value);
  return hash;
}

}  // namespace kvpage::inline v0
