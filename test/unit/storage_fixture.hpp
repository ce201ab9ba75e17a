// What the tests of storage operations share, on the host and under cuda/: one shape of every kind that an
// element type can have, and tokens to store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kvpage/page_layout.hpp"
#include "kvpage/page_pool.hpp"
#include "kvpage/page_storage.hpp"
#include "kvpage/storage_operations.hpp"

namespace kvpage_test {

using kvpage::head_order;
using kvpage::page_shape;
using kvpage::scale_rule;

struct named_shape {
  std::string name;
  page_shape shape;
};

// Every layout x scale rule that E can have, small.
template <kvpage::element E>
std::vector<named_shape> shapes_of(std::uint32_t tokens_per_page) {
  std::vector<named_shape> shapes;
  const auto add_kv = [&](const std::string& name, head_order order, scale_rule rule) {
    shapes.push_back({"kv " + name, page_shape::kv({.layers = 2,
                                                    .kv_heads = 3,
                                                    .head_dim = 40,
                                                    .tokens_per_page = tokens_per_page,
                                                    .element_bytes = sizeof(E),
                                                    .order = order,
                                                    .scales = rule})});
  };
  const auto add_mla = [&](const std::string& name, scale_rule rule) {
    shapes.push_back({"mla " + name, page_shape::mla({.layers = 2,
                                                      .latent_dim = 512,
                                                      .rope_dim = 64,
                                                      .tokens_per_page = tokens_per_page,
                                                      .element_bytes = sizeof(E),
                                                      .scales = rule})});
  };
  add_kv("nhd", head_order::nhd, scale_rule::none);
  add_kv("hnd", head_order::hnd, scale_rule::none);
  add_mla("flat", scale_rule::none);
  if constexpr (sizeof(E) == 1) {
    for (const head_order order : {head_order::nhd, head_order::hnd}) {
      const std::string name = order == head_order::nhd ? "nhd" : "hnd";
      add_kv(name + " per tensor", order, scale_rule::per_tensor);
      add_kv(name + " per head", order, scale_rule::per_head);
      add_kv(name + " per token and head", order, scale_rule::per_token_head);
    }
    add_mla("per tensor", scale_rule::per_tensor);
    add_mla("per token", scale_rule::per_token_head);
  }
  if constexpr (std::is_same_v<E, kvpage::fp8_e4m3>) {
    shapes.push_back({"mla 656", page_shape::mla_656(2, tokens_per_page)});
    shapes.push_back({"mla 584", page_shape::mla_584(2, tokens_per_page)});
  }
  return shapes;
}

// Both placements, one with padding between pages.
inline std::vector<kvpage::page_layout> layouts_of(const page_shape& shape, std::uint64_t pages) {
  return {kvpage::page_layout::layer_major(shape, pages, shape.block_bytes() + 64),
          kvpage::page_layout::page_major(shape, pages)};
}

// Scales of different sizes for every index that the shape calibrates.
inline std::vector<float> calibrated_for(const page_shape& shape) {
  std::vector<float> scales(shape.calibrated_scales());
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = 0.01f * static_cast<float>(i + 1);
  return scales;
}

// Vectors of `tokens` tokens outside pages, with a stride that leaves a gap after each token.
template <kvpage::numeric T>
struct token_buffer {
  std::uint64_t stride;
  std::vector<T> keys, values;

  token_buffer(const page_shape& shape, std::size_t tokens, T fill = T{})
      : stride{std::uint64_t{shape.heads()} * shape.dim() + 8},
        keys(tokens * stride, fill),
        values(shape.parts() == 2 ? tokens * stride : 0, fill) {}

  // Normal deviates, with a few zeros and large values among them.
  void randomise(std::uint32_t seed) {
    std::mt19937 random{seed};
    std::normal_distribution<float> normal;
    for (std::vector<T>* part : {&keys, &values})
      for (T& value : *part) {
        const std::uint32_t kind = static_cast<std::uint32_t>(random()) % 64;
        value = kvpage::convert_value<T>(kind == 0 ? 0.0f : normal(random) * (kind == 1 ? 100.0f : 1.0f));
      }
  }

  [[nodiscard]] kvpage::token_arrays<T> arrays() {
    return {keys.data(), values.empty() ? nullptr : values.data(), stride};
  }
  [[nodiscard]] kvpage::token_arrays<const T> arrays() const {
    return {keys.data(), values.empty() ? nullptr : values.data(), stride};
  }
};

// The same of MLA in two arrays: each token's first `latent_dim` values, and the others.
template <kvpage::numeric T>
struct split_buffer {
  std::uint32_t latent_dim;
  std::uint64_t rope_dim, stride, rope_stride;
  std::vector<T> latents, ropes;

  split_buffer(const page_shape& shape, std::size_t tokens, std::uint32_t latent)
      : latent_dim{latent},
        rope_dim{shape.dim() - latent},
        stride{std::uint64_t{latent} + 4},
        rope_stride{rope_dim + 12},
        latents(tokens * stride),
        ropes(tokens * rope_stride) {}

  // Calls visit(value here, value there) for all values of both.
  template <class Visit>
  void for_each_pair(token_buffer<T>& joint, Visit visit) {
    for (std::size_t token = 0; token < latents.size() / stride; ++token) {
      T* const whole = joint.keys.data() + token * joint.stride;
      for (std::size_t i = 0; i < latent_dim; ++i) visit(latents[token * stride + i], whole[i]);
      for (std::size_t i = 0; i < rope_dim; ++i) visit(ropes[token * rope_stride + i], whole[latent_dim + i]);
    }
  }

  [[nodiscard]] kvpage::token_arrays<T> arrays() {
    return {latents.data(), ropes.data(), stride, latent_dim, rope_stride};
  }
};

template <kvpage::numeric T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// A pool with one request of `tokens` tokens in it, and storage of a given shape whose every byte, but the
// null page's, is `fill`: what earlier owners and padding left there.
template <kvpage::element E>
struct stored_request {
  using pool_type = kvpage::page_pool<E, kvpage::tagged>;
  using handle = typename pool_type::handle;

  stored_request(const page_shape& shape, const kvpage::page_layout& layout, std::size_t tokens,
                 std::byte fill)
      : pool{{.pages = layout.pages(), .tokens_per_page = shape.tokens_per_page()}},
        table{pool},
        calibrated{calibrated_for(shape)},
        memory(layout.bytes() / sizeof(line) + 1),
        view{std::as_writable_bytes(std::span{memory}), shape, layout, calibrated} {
    std::memset(memory.data(), static_cast<int>(fill), memory.size() * sizeof(line));
    for (std::uint32_t layer = 0; layer < shape.layers(); ++layer)
      std::memset(view.block(kvpage::null_page, layer), 0, shape.block_bytes());
    // Fresh ids come in order; shuffle them by holding every other page first.
    kvpage::block_table<pool_type> others{pool};
    const std::size_t pages = kvpage::pages_for(tokens, shape.tokens_per_page());
    for (std::size_t page = 0; page < pages; ++page) {
      const std::size_t wanted = (std::min)(tokens, (page + 1) * shape.tokens_per_page());
      (void)others.append(page % 2 * shape.tokens_per_page());
      if (table.append(wanted - table.tokens()) != kvpage::errc::ok) throw std::bad_alloc{};
    }
  }

  [[nodiscard]] std::vector<kvpage::slot_index> slots() const {
    std::vector<kvpage::slot_index> result(table.tokens());
    for (std::size_t token = 0; token < result.size(); ++token) result[token] = *table.slot(token);
    return result;
  }
  [[nodiscard]] kvpage::paged_tokens<E, kvpage::tagged> tokens() const {
    return {view, pool, table.handles(), table.tokens()};
  }

  // Every byte of the memory, to compare.
  [[nodiscard]] std::vector<std::byte> bytes() const {
    const auto all = std::as_bytes(std::span{memory});
    return {all.begin(), all.end()};
  }

  struct alignas(64) line {
    std::byte bytes[64];
  };

  pool_type pool;
  kvpage::block_table<pool_type> table;
  std::vector<float> calibrated;
  std::vector<line> memory;
  kvpage::page_storage_view<E> view;
};

}  // namespace kvpage_test
