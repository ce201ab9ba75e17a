// prefill_decode.cpp on the device: pages, tables, verification, conversion and attention in one stream.
#include <cuda_runtime.h>

#include <iostream>
#include <kvpage/cuda/device_storage.cuh>
#include <kvpage/cuda/device_tables.cuh>
#include <kvpage/cuda/storage_operations.cuh>
#include <kvpage/cuda/verifier.cuh>

#include "attention/paged_attention.cuh"
#include "prefill_decode.hpp"

namespace {

using namespace example;
using example::require;
namespace cuda = kvpage::cuda;

void require(cudaError_t code, const char* what) { cuda::detail::require_success(what, code); }

// An array in device memory, written and read by blocking copies.
template <class T>
class device_array {
 public:
  explicit device_array(std::size_t size) : size_{size} {
    require(cudaMalloc(reinterpret_cast<void**>(&d_data_), size * sizeof(T)), "allocating an array");
  }
  explicit device_array(std::span<const T> values) : device_array(values.size()) { write(values); }
  device_array(const device_array&) = delete;
  device_array& operator=(const device_array&) = delete;
  ~device_array() { static_cast<void>(cudaFree(d_data_)); }

  void write(std::span<const T> values) {
    require(cudaMemcpy(d_data_, values.data(), values.size_bytes(), cudaMemcpyHostToDevice),
            "writing an array");
  }
  [[nodiscard]] std::vector<T> read_sync(cudaStream_t stream) const {
    std::vector<T> values(size_);
    require(cudaMemcpyAsync(values.data(), d_data_, size_ * sizeof(T), cudaMemcpyDeviceToHost, stream),
            "reading");
    require(cudaStreamSynchronize(stream), "waiting");
    return values;
  }
  [[nodiscard]] T* data() const { return d_data_; }

 private:
  T* d_data_ = nullptr;
  std::size_t size_;
};

// One side: who owns which page, on the host; the bytes, tables and verdicts, on the device.
template <kvpage::element E>
struct side {
  using pool_type = kvpage::page_pool<E, kvpage::tagged>;
  using table_type = kvpage::block_table<pool_type>;

  side(const kvpage::page_shape& shape, std::span<const float> calibrated, cudaStream_t stream_)
      : pool{{.pages = 32, .tokens_per_page = shape.tokens_per_page()}},
        storage{shape, kvpage::page_layout::layer_major(shape, pool.size()), calibrated},
        tables{pool,
               {.max_rows = requests,
                .max_pages_per_row = 16,
                .max_slots = 256,
                .max_changed_entries = 64,
                .max_changed_tags = 64}},
        verifier{tables},
        stream{stream_} {}

  // Makes room for new tokens in every row, verifies the batch, and writes their K and V: no slot of a row
  // that fails is written.
  void write(const model& source, std::span<table_type> rows, std::span<const std::size_t> new_tokens) {
    std::size_t total = 0;
    for (std::uint32_t row = 0; row < requests; ++row) {
      require(rows[row].append(new_tokens[row]), "growing a row");
      require(tables.assign(row, rows[row]), "assigning a row");
      require(tables.add(row, static_cast<std::uint32_t>(new_tokens[row])), "adding a row");
      total += new_tokens[row];
    }
    step = tables.stage().value();
    require(tables.enqueue_update(stream), "updating tables");
    require(verifier.enqueue(stream), "verifying");
    for (std::uint32_t layer = 0; layer < layers && total != 0; ++layer) {
      const device_array<float> d_keys{
          std::span<const float>{new_vectors(source, layer, 0, rows, new_tokens)}};
      const device_array<float> d_values{
          std::span<const float>{new_vectors(source, layer, 1, rows, new_tokens)}};
      require(
          cuda::enqueue_append(storage.view(), layer, tables.inputs().d_slots, total,
                               kvpage::token_arrays<const float>{d_keys.data(), d_values.data(), per_token},
                               nullptr, stream),
          "writing K and V");
      require(cudaStreamSynchronize(stream), "waiting");  // before the arrays go
    }
  }

  // The new tokens' vectors of all rows, one after the other, as the exported slots have them.
  [[nodiscard]] static std::vector<float> new_vectors(const model& source, std::uint32_t layer,
                                                      std::uint32_t part, std::span<const table_type> rows,
                                                      std::span<const std::size_t> new_tokens) {
    std::vector<float> vectors;
    for (std::size_t row = 0; row < requests; ++row) {
      const auto own =
          source.vectors(layer, part, row, rows[row].tokens() - new_tokens[row], new_tokens[row]);
      vectors.insert(vectors.end(), own.begin(), own.end());
    }
    return vectors;
  }

  // The largest error of any layer's attention.
  [[nodiscard]] double attention_error(const model& source, std::size_t decoded) const {
    const cuda::attention_inputs& in = tables.inputs();
    const attention::batch_table d_table{in.d_indptr, in.d_indices, in.d_seq_lens, requests};
    const device_array<float> d_queries{std::span<const float>{source.queries}}, d_out{source.queries.size()};
    double worst = 0;
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      require(attention::enqueue_decode_attention(storage.view(), layer, d_table, heads, d_queries.data(),
                                                  d_out.data(), stream),
              "attention");
      worst = (std::max)(worst, source.error_of(layer, decoded, d_out.read_sync(stream)));
    }
    const cuda::step_verdict verdict = verifier.verdicts().poll(step);
    if (verdict.state != cuda::poll_state::verified || verdict.summary.failed_rows != 0)
      throw std::runtime_error("a row failed verification");
    return worst;
  }

  pool_type pool;
  cuda::device_storage<E> storage;
  cuda::device_tables<pool_type> tables;
  cuda::verifier<pool_type> verifier;
  cudaStream_t stream;
  kvpage::step_number step = 0;
};

// Enqueues the conversion of a row, from the pages that one side's verifier has exported to the other's.
template <class Table>
void enqueue_takeover(const side<bf16>& from, std::size_t from_pages_before, const side<fp8_e4m3>& to,
                      std::size_t to_pages_before, const Table& table, cudaStream_t stream) {
  require(cuda::enqueue_convert_pages(from.storage.view(), from.tables.inputs().d_indices + from_pages_before,
                                      to.storage.view(), to.tables.inputs().d_indices + to_pages_before,
                                      table.tokens(), stream),
          "converting");
}

void run(cudaStream_t stream) {
  const model source;
  report result;
  side<bf16> prefill{prefill_shape, {}, stream};
  side<fp8_e4m3> decode{decode_shape, source.calibrated_scales(), stream};

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
    require(check_ticket(prefill.pool, presented), "checking a ticket");
    require(tables.emplace_back(decode.pool).append(presented.tokens), "accepting a ticket");
  }
  const std::size_t none[requests] = {}, one[requests] = {1, 1};
  decode.write(source, tables, none);  // exports the verified rows, which the conversion writes
  std::size_t from_pages = 0, to_pages = 0;
  for (std::size_t row = 0; row < requests; ++row) {
    enqueue_takeover(prefill, from_pages, decode, to_pages, tables[row], stream);
    from_pages += tickets[row].pages.size();
    to_pages += tables[row].pages();
  }
  result.fp8_error = decode.attention_error(source, 0);  // waits: the prefill pages have been read
  for (const ticket& presented : tickets) require(prefill.pool.release(presented.pages), "ending a ticket");
  result.second_use = check_ticket(prefill.pool, tickets[0]);

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
    cudaStream_t stream = nullptr;
    require(cudaStreamCreate(&stream), "creating a stream");
    run(stream);
    require(cudaStreamDestroy(stream), "destroying a stream");
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
