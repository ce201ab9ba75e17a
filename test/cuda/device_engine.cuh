// An engine in small for tests: requests on the host, their tables on the device, and an oracle for both.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <kvpage/cuda/verifier.cuh>
#include <kvpage/verify.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "device_memory.cuh"

inline constexpr kvpage::cuda::table_options small_tables{.max_rows = 6,
                                                          .max_pages_per_row = 12,
                                                          .max_slots = 16,
                                                          .max_changed_entries = 72,
                                                          .max_changed_tags = 64};

// Releases a page of a request and grants it to somebody else.
template <class Pool>
void steal(Pool& pool, const kvpage::block_table<Pool>& request, std::size_t entry) {
  std::array page{request.handles()[entry]};
  ASSERT_EQ(pool.release(page), kvpage::errc::ok);
  ASSERT_EQ(pool.allocate(page), kvpage::errc::ok);
}

// What attention would read after a step.
struct exported_step {
  std::vector<std::int32_t> seq_lens, indptr, indices, last_page_len, padded;
  std::vector<kvpage::slot_index> slots;

  friend bool operator==(const exported_step&, const exported_step&) = default;
};

// What a step must give: the exports, and the host verifier's verdicts.
struct expected_step {
  exported_step exports;
  std::vector<kvpage::verdict> verdicts;
  std::uint64_t entries = 0;
};

template <class Pool>
class device_engine {
 public:
  using table_type = kvpage::block_table<Pool>;

  device_engine(Pool& pool, const kvpage::cuda::table_options& options)
      : tables(pool, options),
        verifier(tables),
        requests(options.max_rows),
        pool_{pool},
        options_{options},
        most_entries_{std::size_t{options.max_rows} * options.max_pages_per_row},
        oracle_({options.max_rows, most_entries_, options.max_slots}) {
    EXPECT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (auto& request : requests) request.emplace(pool);
  }
  ~device_engine() {
    if (graph_ != nullptr) EXPECT_CUDA(cudaGraphExecDestroy(graph_));
    EXPECT_CUDA(cudaStreamDestroy(stream));
  }
  device_engine(const device_engine&) = delete;
  device_engine& operator=(const device_engine&) = delete;

  // Request r's table; it is assigned to row r.
  [[nodiscard]] table_type& request(std::uint32_t row) { return *requests[row]; }

  // Adds row `row` to the batch, on the device and for the oracle.
  void add(std::uint32_t row, std::uint32_t new_tokens = 1) {
    ASSERT_EQ(tables.assign(row, request(row)), kvpage::errc::ok);
    ASSERT_EQ(tables.add(row, new_tokens), kvpage::errc::ok);
    ASSERT_EQ(oracle_.add(request(row), new_tokens), kvpage::errc::ok);
  }
  void add_padding() {
    ASSERT_EQ(tables.add_padding(), kvpage::errc::ok);
    ASSERT_EQ(oracle_.add_padding(), kvpage::errc::ok);
  }

  // Stages the batch, which must succeed, and says what it must give.
  expected_step stage() {
    expected_step expected = predict();
    const auto step = tables.stage();
    EXPECT_TRUE(step) << to_string(step.error());
    if (step) newest = *step;
    return expected;
  }

  // What the batch added so far must give; forgets it.
  expected_step predict() {
    expected_step expected{.exports = {},
                           .verdicts = std::vector<kvpage::verdict>(oracle_.rows()),
                           .entries = oracle_.entries()};
    EXPECT_TRUE(kvpage::verify(oracle_, pool_, 1, expected.verdicts));
    for (std::size_t row = 0; row < oracle_.rows(); ++row) {
      if (expected.verdicts[row].state != kvpage::row_state::ok) oracle_.cut_off(row);
    }
    exported_step& out = expected.exports;
    const auto fill = [](auto& to, const auto& from, std::size_t size, auto rest) {
      to.assign(from.begin(), from.end());
      to.resize(size, rest);
    };
    fill(out.seq_lens, oracle_.seq_lens(), options_.max_rows, 0);
    fill(out.indptr, oracle_.indptr(), options_.max_rows + 1, static_cast<std::int32_t>(oracle_.entries()));
    fill(out.indices, oracle_.indices(), most_entries_, 0);
    fill(out.last_page_len, oracle_.last_page_len(), options_.max_rows, 0);
    fill(out.slots, oracle_.slots(), options_.max_slots, kvpage::skipped_slot);
    out.padded.resize(most_entries_);
    EXPECT_EQ(oracle_.export_padded(out.padded, options_.max_rows, options_.max_pages_per_row),
              kvpage::errc::ok);
    oracle_.clear();
    return expected;
  }

  void enqueue() {
    ASSERT_CUDA(tables.enqueue_update(stream));
    ASSERT_CUDA(verifier.enqueue(stream));
  }

  // The same two launches from a graph, captured in the mode that forbids allocating and waiting.
  void replay() {
    if (graph_ == nullptr) capture();
    ASSERT_CUDA(cudaGraphLaunch(graph_, stream));
  }

  // Reads what is on the device now, in stream order.
  [[nodiscard]] exported_step read() const {
    const kvpage::cuda::attention_inputs& in = tables.inputs();
    return {read_sync(in.d_seq_lens, options_.max_rows, stream),
            read_sync(in.d_indptr, options_.max_rows + 1, stream),
            read_sync(in.d_indices, most_entries_, stream),
            read_sync(in.d_last_page_len, options_.max_rows, stream),
            read_sync(in.d_padded, most_entries_, stream),
            read_sync(in.d_slots, options_.max_slots, stream)};
  }

  // Compares the device's exports and verdicts of step `step`, the newest that was enqueued.
  void check(const expected_step& expected, kvpage::step_number step) {
    const exported_step found = read();
    EXPECT_EQ(found.seq_lens, expected.exports.seq_lens);
    EXPECT_EQ(found.indptr, expected.exports.indptr);
    EXPECT_EQ(found.indices, expected.exports.indices);
    EXPECT_EQ(found.last_page_len, expected.exports.last_page_len);
    EXPECT_EQ(found.padded, expected.exports.padded);
    EXPECT_EQ(found.slots, expected.exports.slots);
    check_verdicts(expected, step);
  }

  void check_verdicts(const expected_step& expected, kvpage::step_number step) const {
    const auto found = verifier.verdicts().poll(step);
    ASSERT_EQ(found.state, kvpage::cuda::poll_state::verified);
    std::vector<kvpage::verdict> verdicts(expected.verdicts.size());
    std::uint64_t failed = 0;
    for (const auto& row : found.failed) verdicts.at(row.row) = row.finding;
    for (const auto& verdict : expected.verdicts) failed += verdict.state != kvpage::row_state::ok;
    EXPECT_EQ(verdicts, expected.verdicts);
    EXPECT_EQ(found.summary,
              (kvpage::verify_summary{step, expected.verdicts.size(), expected.entries, failed}));
  }

  // One step from begin to end.
  void run_and_check(bool from_graph = false) {
    const expected_step expected = stage();
    from_graph ? replay() : enqueue();
    check(expected, newest);
  }

  kvpage::cuda::device_tables<Pool> tables;
  kvpage::cuda::verifier<Pool> verifier;
  std::vector<std::optional<table_type>> requests;
  cudaStream_t stream = nullptr;
  kvpage::step_number newest = 0;  // the step staged last

 private:
  void capture() {
    cudaGraph_t graph = nullptr;
    ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    enqueue();
    ASSERT_CUDA(cudaStreamEndCapture(stream, &graph));
    std::size_t nodes = 0;
    ASSERT_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
    std::vector<cudaGraphNode_t> all(nodes);
    ASSERT_CUDA(cudaGraphGetNodes(graph, all.data(), &nodes));
    EXPECT_EQ(nodes, 2u) << "launches and copies a step";
    for (const cudaGraphNode_t node : all) {
      cudaGraphNodeType type{};
      ASSERT_CUDA(cudaGraphNodeGetType(node, &type));
      EXPECT_EQ(type, cudaGraphNodeTypeKernel);
    }
    ASSERT_CUDA(cudaGraphInstantiate(&graph_, graph, 0));
    ASSERT_CUDA(cudaGraphDestroy(graph));
  }

  Pool& pool_;
  kvpage::cuda::table_options options_;
  std::size_t most_entries_;
  kvpage::decode_batch<Pool> oracle_;
  cudaGraphExec_t graph_ = nullptr;
};
