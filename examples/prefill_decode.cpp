// Prefill in BF16, decode in FP8: prompts are computed into one pool and handed to another, with twice the
// tokens in the same memory.  Both sides verify before they read.
#include "prefill_decode.hpp"

#include <array>
#include <iostream>

namespace {

using namespace example;

// One side: who owns which page, the bytes, and the present batch.
template <kvpage::element E>
struct side {
  using pool_type = kvpage::page_pool<E, kvpage::tagged>;
  using table_type = kvpage::block_table<pool_type>;

  side(const kvpage::page_shape& shape, std::span<const float> calibrated)
      : pool{{.pages = 32, .tokens_per_page = shape.tokens_per_page()}},
        storage{shape, kvpage::page_layout::layer_major(shape, pool.size()), calibrated},
        batch{{.rows = requests, .entries = 64, .slots = 256}} {}

  // Makes room for new tokens in every row, verifies the batch, and writes their K and V.
  void write(const model& source, std::span<table_type> tables, std::span<const std::size_t> new_tokens) {
    batch.clear();
    for (std::size_t row = 0; row < requests; ++row) {
      require(tables[row].append(new_tokens[row]), "growing a row");
      require(batch.add(tables[row], new_tokens[row]), "adding a row");
    }
    verify();
    for (std::size_t row = 0; row < requests; ++row)
      for (std::uint32_t layer = 0; layer < layers; ++layer) {
        const std::size_t first = tables[row].tokens() - new_tokens[row];
        const auto begin = static_cast<std::size_t>(batch.slot_indptr()[row]);
        require(kvpage::append(storage.view(), layer, batch.slots().subspan(begin, new_tokens[row]),
                               kvpage::token_arrays<const float>{
                                   source.vectors(layer, 0, row, first, new_tokens[row]).data(),
                                   source.vectors(layer, 1, row, first, new_tokens[row]).data(), per_token}),
                "writing K and V");
      }
  }

  // Every row still owns what it is about to read, or its request ends here.
  void verify() {
    std::array<kvpage::verdict, requests> verdicts;
    const auto summary = kvpage::verify(batch, pool, ++step, verdicts);
    if (!summary || summary.value().failed_rows != 0) throw std::runtime_error("a row failed verification");
  }

  // The largest error of any layer's attention.
  [[nodiscard]] double attention_error(const model& source, std::size_t decoded) const {
    const attention::batch_table table{batch.indptr().data(), batch.indices().data(), batch.seq_lens().data(),
                                       requests};
    double worst = 0;
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      std::vector<float> out(source.queries.size());
      attention::decode_attention(storage.view(), layer, table, heads, source.queries.data(), out.data());
      worst = (std::max)(worst, source.error_of(layer, decoded, out));
    }
    return worst;
  }

  pool_type pool;
  kvpage::page_storage<E> storage;
  kvpage::decode_batch<pool_type> batch;
  kvpage::step_number step = 0;
};

// Takes over a ticket's tokens: fresh pages, converted bytes.  The ticket's references end with it.
errc accept(const ticket& presented, side<bf16>& from, side<fp8_e4m3>& to,
            side<fp8_e4m3>::table_type& table) {
  KVPAGE_TRY(check_ticket(from.pool, presented));
  KVPAGE_TRY(table.append(presented.tokens));
  KVPAGE_TRY(kvpage::convert_pages(
      kvpage::paged_tokens{from.storage.view(), from.pool, std::span{presented.pages}, presented.tokens},
      kvpage::paged_tokens{to.storage.view(), to.pool, table.handles(), table.tokens()}));
  return from.pool.release(presented.pages);
}

void run() {
  const model source;
  report result;
  side<bf16> prefill{prefill_shape, {}};
  side<fp8_e4m3> decode{decode_shape, source.calibrated_scales()};

  std::vector<ticket> tickets;
  {
    std::vector<side<bf16>::table_type> tables;
    for (std::size_t row = 0; row < requests; ++row) tables.emplace_back(prefill.pool);
    prefill.write(source, tables, prompt_tokens);
    result.bf16_error = prefill.attention_error(source, 0);
    for (const auto& table : tables) tickets.push_back(issue_ticket(prefill.pool, table));
  }  // the prefill requests end; the tickets keep their pages

  std::vector<side<fp8_e4m3>::table_type> tables;
  for (const ticket& presented : tickets) {
    tables.emplace_back(decode.pool);
    require(accept(presented, prefill, decode, tables.back()), "accepting a ticket");
  }
  side<fp8_e4m3>::table_type refused{decode.pool};
  result.second_use = accept(tickets[0], prefill, decode, refused);

  const std::array<std::size_t, requests> none{}, one{1, 1};
  decode.write(source, tables, none);
  result.fp8_error = decode.attention_error(source, 0);
  for (std::size_t step = 0; step < decode_steps; ++step) decode.write(source, tables, one);
  result.fp8_error_after_decoding = decode.attention_error(source, decode_steps);
  print(result);

  if (prefill.pool.stats().free != prefill.pool.capacity())
    throw std::runtime_error("prefill pages are left over");
  if (result.second_use == errc::ok) throw std::runtime_error("a ticket was accepted twice");
}

}  // namespace

int main() {
  try {
    run();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
