// Attention in float64 over arrays, without pages: what paged attention is measured against.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace attention {

// One query head.  keys [tokens, dim] and values [tokens, value_dim], `stride` apart; 0 tokens give zeros.
inline std::vector<double> exact_attention(const float* query, std::size_t dim, const float* keys,
                                           const float* values, std::size_t value_dim, std::size_t stride,
                                           std::size_t tokens, double softmax_scale) {
  std::vector<double> weights(tokens);
  for (std::size_t token = 0; token < tokens; ++token) {
    for (std::size_t i = 0; i < dim; ++i)
      weights[token] += double{query[i]} * double{keys[token * stride + i]};
    weights[token] *= softmax_scale;
  }
  const double largest = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
  double total = 0;
  for (double& weight : weights) total += weight = std::exp(weight - largest);

  std::vector<double> out(value_dim);
  for (std::size_t token = 0; token < tokens; ++token)
    for (std::size_t i = 0; i < value_dim; ++i)
      out[i] += weights[token] / total * double{values[token * stride + i]};
  return out;
}

}  // namespace attention
