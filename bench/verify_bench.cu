// What the device verifier costs, next to what the same GPU needs for less: an empty launch, a copy of as many
// bytes, a random gather with the same page ids.  Times are the device's own, by events; a kernel that waits holds the
// stream while the host enqueues, so that its launches do not count.  The same batch is verified over and over: what
// fits into the L2 cache stays there, which in a decode step it may not.
//
//   verify/WHO/ROWS/PAGES     seconds a launch; items are the batch's pages
//     empty, empty_graph      an empty kernel: in a stream, in a graph
//     eager, graph            the verifier: in a stream, in a graph
//     step_graph              update and verifier in a graph, each step one token longer (by up to 4 pages a row),
//                            host's part not counted
//     copy                    moves 44 bytes a page: 12 B of table and grant, and one 32 B sector of tags
//     gather                  reads every page's tag and adds them up
//
// verify_table.py makes a table of the results.
#include <benchmark/benchmark.h>
#include <cuda_runtime.h>

#include <kvpage/cuda/verifier.cuh>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <stdexcept>
#include <vector>

namespace {

using pool_type = kvpage::page_pool<kvpage::fp8_e4m3, kvpage::tagged>;
using kvpage::cuda::device_batch;

constexpr std::size_t bytes_per_page = 12 + 32;
constexpr int launches_at_once = 20;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}
void check(kvpage::errc code) {
  if (code != kvpage::errc::ok) throw std::runtime_error(std::string(to_string(code)));
}

__global__ void empty() {}

// Holds a stream for about 200 us: longer than it takes the host to enqueue what is measured.
__global__ void hold() {
  for (int i = 0; i < 100; ++i) __nanosleep(2000);
}

__global__ void gather(device_batch<pool_type::handle> batch, std::uint64_t pages, unsigned* d_sum) {
  unsigned sum = 0;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < pages; i += stride)
    sum += batch.d_tags[static_cast<unsigned>(batch.out.d_indices[i])];
  if (sum == 1) *d_sum = sum;  // never, as far as the compiler can tell
}

// `rows` requests of `pages` pages each, on the device and verified once, their pages in shuffled order.
class workload {
 public:
  workload(std::uint32_t rows, std::uint32_t pages)
      : rows_{rows},
        pages_{std::uint64_t{rows} * pages},
        pool_({.pages = pages_ + std::uint64_t{rows} * spare_pages + 1, .tokens_per_page = tokens_per_page}),
        tables_(pool_, {.max_rows = rows,
                        .max_pages_per_row = pages + spare_pages,
                        .max_slots = rows,
                        .max_changed_entries = (std::max)(pages + spare_pages, rows * spare_pages),
                        .max_changed_tags = 4096,
                        .padded = false}),
        verifier_(tables_) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check(cudaEventCreate(&begin_));
    check(cudaEventCreate(&end_));
    check(cudaMalloc(&d_copy_, pages_ * bytes_per_page));
    check(cudaMalloc(&d_sum_, sizeof(unsigned)));

    std::vector<pool_type::handle> all(pool_.capacity());
    check(pool_.allocate(all));
    std::shuffle(all.begin(), all.end(), std::mt19937_64{1});
    check(pool_.release(all));
    for (std::uint32_t row = 0; row < rows; ++row) {
      check(requests_.emplace_back(pool_, pages + spare_pages).append(std::size_t{pages} * tokens_per_page));
      check(tables_.assign(row, requests_[row]));
      run_step(false);  // in steps of a row, so that little has to travel at once
    }
    run_step(true);
    const auto verdict = verifier_.verdicts().poll(tables_.steps_begun());
    if (verdict.state != kvpage::cuda::poll_state::verified || verdict.summary.failed_rows != 0 ||
        verdict.summary.entries != pages_)
      throw std::runtime_error("the batch has not been verified");
  }

  [[nodiscard]] std::uint64_t pages() const { return pages_; }

  // Seconds on the device between the first and the last of what `enqueue` puts into the stream.
  template <class Enqueue>
  double seconds(Enqueue enqueue) {
    hold<<<1, 1, 0, stream_>>>();
    check(cudaGetLastError());
    check(cudaEventRecord(begin_, stream_));
    enqueue();
    check(cudaEventRecord(end_, stream_));
    check(cudaEventSynchronize(end_));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return milliseconds * 1e-3;
  }

  void enqueue_empty() {
    empty<<<1, 1, 0, stream_>>>();
    check(cudaGetLastError());
  }
  void enqueue_verify() { check(verifier_.enqueue(stream_)); }
  void enqueue_step() {
    check(tables_.enqueue_update(stream_));
    check(verifier_.enqueue(stream_));
  }
  void enqueue_copy() {
    const std::size_t half = pages_ * bytes_per_page / 2;  // read and written: both are counted
    check(cudaMemcpyAsync(d_copy_ + half, d_copy_, half, cudaMemcpyDeviceToDevice, stream_));
  }
  void enqueue_gather() {
    const auto blocks = static_cast<unsigned>((std::min)(pages_ / 256 + 1, std::uint64_t{2048}));
    gather<<<blocks, 256, 0, stream_>>>(tables_.batch(), pages_, d_sum_);
    check(cudaGetLastError());
  }

  // A graph of what `enqueue` puts into the stream, `times` over.  The caller destroys it.
  template <class Enqueue>
  cudaGraphExec_t capture(Enqueue enqueue, int times) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < times; ++i) enqueue();
    check(cudaStreamEndCapture(stream_, &graph));
    check(cudaGraphInstantiate(&ready, graph, 0));
    check(cudaGraphUpload(ready, stream_));
    check(cudaGraphDestroy(graph));
    return ready;
  }

  // The batch as it was constructed, and its exports.
  void reset() {
    if (requests_[0].tokens() == first_tokens()) return;
    for (auto& request : requests_) check(request.truncate(first_tokens()));
    for (std::uint32_t row = 0; row < rows_; ++row) check(tables_.assign(row, requests_[row]));
    run_step(true);
  }

  void launch(cudaGraphExec_t graph) { check(cudaGraphLaunch(graph, stream_)); }

  // The host's part of a decode step: every request one token longer, until the spare pages are used up.
  void stage_decode() {
    for (std::uint32_t row = 0; row < rows_; ++row) {
      auto& request = requests_[row];
      const bool is_full = request.tokens() == first_tokens() + spare_pages * tokens_per_page;
      check(is_full ? request.truncate(first_tokens()) : request.append(1));
      check(tables_.assign(row, request));
      check(tables_.add(row));
    }
    check(tables_.stage().error());
  }

 private:
  static constexpr std::uint32_t spare_pages = 4, tokens_per_page = 16;

  [[nodiscard]] std::size_t first_tokens() const { return pages_ / rows_ * tokens_per_page; }

  void run_step(bool with_rows) {
    for (std::uint32_t row = 0; with_rows && row < rows_; ++row) check(tables_.add(row));
    check(tables_.stage().error());
    enqueue_step();
    check(cudaStreamSynchronize(stream_));
  }

  std::uint32_t rows_;
  std::uint64_t pages_;
  pool_type pool_;
  std::deque<kvpage::block_table<pool_type>> requests_;
  kvpage::cuda::device_tables<pool_type> tables_;
  kvpage::cuda::verifier<pool_type> verifier_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  std::byte* d_copy_ = nullptr;
  unsigned* d_sum_ = nullptr;
};

// One for each shape, as it was constructed; the largest takes gigabytes.  Not freed: the process ends with it.
workload& of_shape(const benchmark::State& state) {
  static std::map<std::pair<std::int64_t, std::int64_t>, workload*> workloads;
  workload*& found = workloads[{state.range(0), state.range(1)}];
  if (found == nullptr)
    found =
        new workload(static_cast<std::uint32_t>(state.range(0)), static_cast<std::uint32_t>(state.range(1)));
  found->reset();
  return *found;
}

void report(benchmark::State& state, const workload& work) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(work.pages()));
}

template <void (workload::*Enqueue)()>
void in_stream(benchmark::State& state) {
  workload& work = of_shape(state);
  for (auto _ : state) {
    const double all = work.seconds([&] {
      for (int i = 0; i < launches_at_once; ++i) (work.*Enqueue)();
    });
    state.SetIterationTime(all / launches_at_once);
  }
  report(state, work);
}

template <void (workload::*Enqueue)()>
void in_graph(benchmark::State& state) {
  workload& work = of_shape(state);
  const cudaGraphExec_t graph = work.capture([&] { (work.*Enqueue)(); }, launches_at_once);
  for (auto _ : state) state.SetIterationTime(work.seconds([&] { work.launch(graph); }) / launches_at_once);
  check(cudaGraphExecDestroy(graph));
  report(state, work);
}

void step_in_graph(benchmark::State& state) {
  workload& work = of_shape(state);
  const cudaGraphExec_t graph = work.capture([&] { work.enqueue_step(); }, 1);
  for (auto _ : state) {
    work.stage_decode();
    state.SetIterationTime(work.seconds([&] { work.launch(graph); }));
  }
  check(cudaGraphExecDestroy(graph));
  report(state, work);
}

#define KVPAGE_BENCH(who, ...) \
  BENCHMARK(__VA_ARGS__)       \
      ->Name("verify/" who)    \
      ->Args({1, 1})           \
      ->Args({1, 144})         \
      ->Args({8, 144})         \
      ->Args({64, 144})        \
      ->Args({256, 144})       \
      ->Args({64, 1024})       \
      ->Args({512, 2048})      \
      ->Args({64, 1 << 18})    \
      ->UseManualTime()        \
      ->Unit(benchmark::kMicrosecond)

KVPAGE_BENCH("empty", in_stream<&workload::enqueue_empty>);
KVPAGE_BENCH("empty_graph", in_graph<&workload::enqueue_empty>);
KVPAGE_BENCH("eager", in_stream<&workload::enqueue_verify>);
KVPAGE_BENCH("graph", in_graph<&workload::enqueue_verify>);
KVPAGE_BENCH("step_graph", step_in_graph);
KVPAGE_BENCH("copy", in_stream<&workload::enqueue_copy>);
KVPAGE_BENCH("gather", in_stream<&workload::enqueue_gather>);

}  // namespace
