// What the tests of host and device attention share: a batch of rows of chosen lengths in one cache whose
// other bytes are all NaN, and the answers in float64.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <kvpage/kvpage.hpp>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "exact_attention.hpp"
#include "paged_attention.hpp"

namespace attention {

template <kvpage::element E>
struct problem {
  using pool_type = kvpage::page_pool<E, kvpage::tagged>;

  problem(const kvpage::page_shape& shape, const head_geometry& heads_,
          const std::vector<std::size_t>& lengths, std::uint32_t seed)
      : heads{heads_},
        pool{{.pages = 1 + 16 * lengths.size(), .tokens_per_page = shape.tokens_per_page()}},
        storage{shape, kvpage::page_layout::layer_major(shape, pool.size())},
        batch{{.rows = lengths.size(), .entries = pool.capacity(), .slots = lengths.size()}} {
    // Every byte FF: NaN in all four element types, page 0 and unwritten tokens included.
    std::memset(storage.view().block(0, 0), 0xFF, storage.view().layout().bytes());
    std::mt19937 random{seed};
    std::normal_distribution<float> normal;
    const std::size_t per_token = std::size_t{shape.heads()} * shape.dim();
    queries.resize(lengths.size() * heads.query_heads * shape.dim());
    for (float& value : queries) value = normal(random);
    for (const std::size_t length : lengths) {
      std::vector<float> keys(length * per_token), values(shape.parts() == 2 ? keys.size() : 0);
      for (std::vector<float>* part : {&keys, &values})
        for (float& value : *part) value = kvpage::decode(kvpage::encode<kvpage::bf16>(normal(random)));
      tables.emplace_back(pool);
      require(tables.back().append(length));
      std::vector<kvpage::slot_index> slots(length);
      for (std::size_t token = 0; token < length; ++token) slots[token] = *tables.back().slot(token);
      require(kvpage::append(storage.view(), 0, slots,
                             kvpage::token_arrays<const float>{keys.data(), values.data(), per_token}));
      require(batch.add(tables.back(), 0));
      answer(shape, keys, values, length);
    }
  }

  [[nodiscard]] batch_table table() const {
    return {batch.indptr().data(), batch.indices().data(), batch.seq_lens().data(),
            static_cast<std::uint32_t>(batch.rows())};
  }

  // The largest difference from the float64 answers; infinite if any output is not finite.
  [[nodiscard]] double error_of(std::span<const float> out) const {
    double worst = 0;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const double difference = std::abs(double{out[i]} - answers[i]);
      if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
      worst = (std::max)(worst, difference);
    }
    return worst;
  }

  head_geometry heads;
  pool_type pool;
  kvpage::page_storage<E> storage;
  kvpage::decode_batch<pool_type> batch;
  std::vector<kvpage::block_table<pool_type>> tables;
  std::vector<float> queries;   // [rows, query_heads, dim]
  std::vector<double> answers;  // [rows, query_heads, value_dim]

 private:
  static void require(kvpage::errc code) {
    if (code != kvpage::errc::ok) throw std::runtime_error(std::string(kvpage::to_string(code)));
  }

  void answer(const kvpage::page_shape& shape, const std::vector<float>& keys,
              const std::vector<float>& values, std::size_t length) {
    if (length == 0) {  // there are no keys to point into
      answers.resize(answers.size() + std::size_t{heads.query_heads} * heads.value_dim);
      return;
    }
    for (std::size_t head = 0; head < heads.query_heads; ++head) {
      const std::size_t kv_head = head / (heads.query_heads / shape.heads());
      const float* const query = queries.data() + answers.size() / heads.value_dim * shape.dim();
      const std::vector<float>& value_source = shape.parts() == 2 ? values : keys;
      const auto exact =
          exact_attention(query, shape.dim(), keys.data() + kv_head * shape.dim(),
                          value_source.data() + kv_head * shape.dim(), heads.value_dim,
                          std::size_t{shape.heads()} * shape.dim(), length, double{heads.softmax_scale});
      answers.insert(answers.end(), exact.begin(), exact.end());
    }
  }
};

// The lengths at which pages begin and end, and some others.  S = tokens per page.
inline std::vector<std::size_t> lengths_around(std::size_t s, std::uint32_t seed) {
  std::mt19937 random{seed};
  std::vector<std::size_t> lengths{0, 1, s - 1, s, s + 1, 2 * s};
  for (int i = 0; i < 4; ++i) lengths.push_back(random() % (6 * s));
  return lengths;
}

inline kvpage::page_shape gqa_shape(kvpage::head_order order, std::uint32_t element_bytes,
                                    kvpage::scale_rule scales = kvpage::scale_rule::none) {
  return kvpage::page_shape::kv({.layers = 1,
                                 .kv_heads = 2,
                                 .head_dim = 32,
                                 .tokens_per_page = 4,
                                 .element_bytes = element_bytes,
                                 .order = order,
                                 .scales = scales});
}
inline constexpr head_geometry gqa_heads{.query_heads = 6, .value_dim = 32, .softmax_scale = 0.17677669f};

inline kvpage::page_shape mla_shape(std::uint32_t element_bytes) {
  return kvpage::page_shape::mla(
      {.layers = 1, .latent_dim = 512, .rope_dim = 64, .tokens_per_page = 4, .element_bytes = element_bytes});
}
inline constexpr head_geometry mla_heads{.query_heads = 3, .value_dim = 512, .softmax_scale = 0.0417f};

}  // namespace attention
