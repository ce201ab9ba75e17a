// Attention through pages against float64, over caches whose every unwritten byte is NaN.
#include <gtest/gtest.h>

#include <vector>

#include "attention_problem.hpp"

namespace {

using attention::problem;
using kvpage::bf16;
using kvpage::fp8_e4m3;
using kvpage::head_order;
using kvpage::scale_rule;

template <class E>
double error(const kvpage::page_shape& shape, const attention::head_geometry& heads, std::uint32_t seed) {
  const problem<E> p{shape, heads, attention::lengths_around(shape.tokens_per_page(), seed), seed};
  std::vector<float> out(p.answers.size(), 7.0f);
  attention::decode_attention(p.storage.view(), 0, p.table(), heads, p.queries.data(), out.data());
  return p.error_of(out);
}

TEST(attention, bf16_is_within_2e_3_of_float64_at_every_length_case_g_case_h) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    for (const head_order order : {head_order::nhd, head_order::hnd})
      EXPECT_LT(error<bf16>(attention::gqa_shape(order, 2), attention::gqa_heads, seed), 2e-3);
    EXPECT_LT(error<bf16>(attention::mla_shape(2), attention::mla_heads, seed), 2e-3);
  }
}

// Normal deviates, 6 % at most off each: what is read is close, and finite.
TEST(attention, case_j_fp8_is_finite_and_close_where_pages_are_partly_written) {
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    EXPECT_LT(error<fp8_e4m3>(attention::gqa_shape(head_order::nhd, 1), attention::gqa_heads, seed), 0.3);
    EXPECT_LT(error<fp8_e4m3>(attention::gqa_shape(head_order::hnd, 1, scale_rule::per_token_head),
                              attention::gqa_heads, seed),
              0.3);
    EXPECT_LT(error<fp8_e4m3>(attention::mla_shape(1), attention::mla_heads, seed), 0.3);
    EXPECT_LT(error<fp8_e4m3>(kvpage::page_shape::mla_656(1, 4), attention::mla_heads, seed), 0.3);
    const attention::head_geometry heads_584{.query_heads = 3, .value_dim = 448, .softmax_scale = 0.044f};
    EXPECT_LT(error<fp8_e4m3>(kvpage::page_shape::mla_584(1, 4), heads_584, seed), 0.3);
  }
}

// Page 0 full of NaN bytes, row [p, q, 0, 0], length 5, S = 4.
TEST(attention, case_g_a_padded_row_never_reads_page_0) {
  const kvpage::page_shape shape = attention::gqa_shape(head_order::nhd, 2);
  const problem<bf16> p{shape, attention::gqa_heads, {5}, 1};
  std::vector<std::int32_t> row(4);
  ASSERT_EQ(p.batch.export_padded(row, 1, 4), kvpage::errc::ok);
  ASSERT_EQ(row[2], 0);
  const std::int32_t indptr[] = {0, 4}, seq_lens[] = {5};
  std::vector<float> out(p.answers.size());
  attention::decode_attention(p.storage.view(), 0, {indptr, row.data(), seq_lens, 1}, attention::gqa_heads,
                              p.queries.data(), out.data());
  EXPECT_LT(p.error_of(out), 2e-3);
}

TEST(attention, case_n_a_row_that_was_cut_off_gives_zeros_and_the_others_their_answers) {
  const kvpage::page_shape shape = attention::gqa_shape(head_order::nhd, 2);
  problem<bf16> p{shape, attention::gqa_heads, {5, 9, 3}, 1};
  std::vector<float> whole(p.answers.size()), cut(p.answers.size());
  attention::decode_attention(p.storage.view(), 0, p.table(), p.heads, p.queries.data(), whole.data());
  p.batch.cut_off(1);
  attention::decode_attention(p.storage.view(), 0, p.table(), p.heads, p.queries.data(), cut.data());
  const std::size_t row = whole.size() / 3;
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(cut[i], i / row == 1 ? 0.0f : whole[i]);
}

}  // namespace
