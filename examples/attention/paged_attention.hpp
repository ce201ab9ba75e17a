// A reference for tests and examples: decode attention that reads K and V through a block table, for MHA,
// GQA and MLA.  Written to be read; FlashInfer and FlashMLA are written to be fast.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <kvpage/kvpage.hpp>

namespace attention {

// What a decode step attends to: the exported table of a verified batch (CSR), one query token a row.
struct batch_table {
  const std::int32_t* indptr;    // [rows + 1]
  const std::int32_t* indices;   // [indptr[rows]]
  const std::int32_t* seq_lens;  // [rows]
  std::uint32_t rows;
};

// Query heads share KV heads evenly.  MLA: every query head reads the one latent vector, whose first
// value_dim values are the V.
struct head_geometry {
  std::uint32_t query_heads;
  std::uint32_t value_dim;
  float softmax_scale;
};

// One thread does all of a head's work.
struct one_lane {
  static constexpr std::uint32_t count = 1;
  [[nodiscard]] KVPAGE_HOST_DEVICE std::uint32_t index() const { return 0; }
  [[nodiscard]] KVPAGE_HOST_DEVICE float sum(float value) const { return value; }
};

// Attention of one query head of one row: out[value_dim] = softmax(scale x q . K) V over the row's tokens.
// Reads the first `length` tokens of `pages` and no other byte; 0 tokens give zeros.  The weights' maximum
// is kept as it grows, so that one pass is enough.
template <class Lanes, kvpage::element E>
KVPAGE_HOST_DEVICE void attend(const Lanes& lanes, const kvpage::page_storage_view<E>& cache,
                               std::uint32_t layer, std::uint32_t kv_head, const std::int32_t* pages,
                               std::uint32_t length, const head_geometry& heads, const float* query,
                               float* out) {
  const kvpage::page_shape& shape = cache.shape();
  for (std::uint32_t i = lanes.index(); i < heads.value_dim; i += Lanes::count) out[i] = 0;
  float largest = -INFINITY;
  float total = 0;
  for (std::uint32_t token = 0; token < length; ++token) {
    const auto page = static_cast<kvpage::page_id>(pages[token / shape.tokens_per_page()]);
    const std::uint32_t in_page = token % shape.tokens_per_page();
    const auto key = cache.vector(page, layer, 0, in_page, kv_head);
    const auto value = shape.parts() == 2 ? cache.vector(page, layer, 1, in_page, kv_head) : key;

    float score = 0;
    for (std::uint32_t i = lanes.index(); i < shape.dim(); i += Lanes::count)
      score += query[i] * key.value(shape, i);
    score = lanes.sum(score) * heads.softmax_scale;

    const float new_largest = largest > score ? largest : score;
    const float shrink = expf(largest - new_largest);
    const float weight = expf(score - new_largest);
    for (std::uint32_t i = lanes.index(); i < heads.value_dim; i += Lanes::count)
      out[i] = out[i] * shrink + weight * value.value(shape, i);
    total = total * shrink + weight;
    largest = new_largest;
  }
  if (length == 0) return;
  for (std::uint32_t i = lanes.index(); i < heads.value_dim; i += Lanes::count) out[i] /= total;
}

// queries [rows, query_heads, dim], out [rows, query_heads, value_dim].
template <kvpage::element E>
void decode_attention(const kvpage::page_storage_view<E>& cache, std::uint32_t layer,
                      const batch_table& table, const head_geometry& heads, const float* queries,
                      float* out) {
  const std::uint32_t heads_per_kv_head = heads.query_heads / cache.shape().heads();
  for (std::size_t row = 0; row < table.rows; ++row)
    for (std::size_t head = 0; head < heads.query_heads; ++head) {
      const std::size_t i = row * heads.query_heads + head;
      attend(one_lane{}, cache, layer, static_cast<std::uint32_t>(head) / heads_per_kv_head,
             table.indices + table.indptr[row], static_cast<std::uint32_t>(table.seq_lens[row]), heads,
             queries + i * cache.shape().dim(), out + i * heads.value_dim);
    }
}

}  // namespace attention
