// An engine's decode loop: one captured graph of update, verifier and attention; a bug gives a request's page
// away; the device cuts that request off before it reads a foreign byte, and the host ends it when it hears.
#include <cuda_runtime.h>

#include <kvpage/cuda/verifier.cuh>

#include <array>
#include <iostream>
#include <optional>
#include <stdexcept>

namespace {

using fp8_pool = kvpage::page_pool<kvpage::fp8_e4m3, kvpage::tagged>;
using fp8_table = kvpage::block_table<fp8_pool>;
using kvpage::cuda::attention_inputs;
using kvpage::cuda::poll_state;

constexpr std::uint32_t max_rows = 4, pages_per_row = 8, tokens_per_page = 16, cache_pages = 1 + 32;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}
void check(kvpage::errc code) {
  if (code != kvpage::errc::ok) throw std::runtime_error(std::string(to_string(code)));
}

// Stands in for the model: writes each row's new token to its slot and then reads the row's tokens.  The
// "KV cache" holds one number a token, its owner's; *d_foreign counts the tokens read that are another's.
__global__ void attention(attention_inputs in, const int* d_owners, int* d_cache, unsigned* d_foreign) {
  const unsigned row = blockIdx.x;
  if (threadIdx.x == 0 && in.d_slots[row] != kvpage::skipped_slot) d_cache[in.d_slots[row]] = d_owners[row];
  __syncthreads();
  for (int token = static_cast<int>(threadIdx.x); token < in.d_seq_lens[row];
       token += static_cast<int>(blockDim.x)) {
    const std::size_t page =
        static_cast<std::size_t>(in.d_padded[row * in.padded_width + token / tokens_per_page]);
    if (d_cache[page * tokens_per_page + token % tokens_per_page] != d_owners[row]) atomicAdd(d_foreign, 1u);
  }
}

}  // namespace

int main() try {
  fp8_pool pool({.pages = cache_pages, .tokens_per_page = tokens_per_page});
  kvpage::cuda::device_tables tables(pool, {.max_rows = max_rows,
                                            .max_pages_per_row = pages_per_row,
                                            .max_slots = max_rows,
                                            .max_changed_entries = max_rows * pages_per_row,
                                            .max_changed_tags = 64,
                                            .csr = false});
  const kvpage::cuda::verifier verifier(tables);

  int* d_owners = nullptr;
  int* d_cache = nullptr;
  unsigned* d_foreign = nullptr;
  check(cudaMalloc(&d_owners, max_rows * sizeof(int)));
  check(cudaMalloc(&d_cache, cache_pages * tokens_per_page * sizeof(int)));
  check(cudaMalloc(&d_foreign, sizeof(unsigned)));
  check(cudaMemset(d_cache, 0, cache_pages * tokens_per_page * sizeof(int)));
  check(cudaMemset(d_foreign, 0, sizeof(unsigned)));
  constexpr std::array owners{1, 2, 3, 4};
  check(cudaMemcpy(d_owners, owners.data(), sizeof owners, cudaMemcpyHostToDevice));

  // Captured once: every address is fixed, rows and lengths are read on the device.
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t decode = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  check(tables.enqueue_update(stream));
  check(verifier.enqueue(stream));
  attention<<<max_rows, 64, 0, stream>>>(tables.inputs(), d_owners, d_cache, d_foreign);
  check(cudaGetLastError());
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&decode, graph, 0));

  std::array<std::optional<fp8_table>, max_rows> requests;
  for (auto& request : requests) request.emplace(pool);
  kvpage::step_number launched = 0, polled = 0;

  for (int i = 1; i <= 60; ++i) {
    if (i == 40) {  // Request 2 finishes and row 1 is another's.  A bug gives away request 3's first page.
      check(requests[1]->release(launched));
      check(pool.release(requests[2]->handles().first(1)));
    }

    // 1. The batch: every request that is alive decodes one token; a padding row stands for one that is not.
    for (std::uint32_t row = 0; row < max_rows; ++row) {
      if (requests[row]) {
        check(requests[row]->append(1));
        check(tables.assign(row, *requests[row]));
        check(tables.add(row));
      } else {
        check(tables.add_padding());
      }
    }

    // 2. The step: only changes travel.  The host waits for nothing but a ring of steps that is full.
    auto step = tables.stage();
    if (step.error() == kvpage::errc::not_ready) {
      check(cudaStreamSynchronize(stream));
      step = tables.stage();
    }
    check(step.error());
    check(cudaGraphLaunch(decode, stream));
    launched = *step;

    // 3. The verdicts that have arrived.  A request that failed is ended by its handles, which can never release
    //    what somebody else has been granted meanwhile.
    for (; polled < launched; ++polled) {
      const auto verdict = verifier.verdicts().poll(polled + 1);
      if (verdict.state == poll_state::pending) break;
      if (verdict.state == poll_state::missed) throw std::runtime_error("a step was not verified");
      for (const auto& failed : verdict.failed) {
        if (!requests[failed.row]) continue;  // cut off in several steps, ended once
        std::cout << "step " << polled + 1 << ": request " << failed.row + 1 << " is cut off, page "
                  << failed.finding.page << " is no longer its own\n";
        requests[failed.row]->abandon(launched);
        requests[failed.row].reset();
      }
    }
    if (const auto begun = tables.steps_begun(); begun > 1)
      pool.retire(begun - 1);  // in stream order, all done
  }

  unsigned foreign = 0;
  check(cudaMemcpyAsync(&foreign, d_foreign, sizeof foreign, cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));
  std::cout << foreign << " foreign tokens read; " << tables.stats().bytes / tables.stats().steps
            << " bytes uploaded a step\n";
  check(cudaGraphExecDestroy(decode));
  check(cudaGraphDestroy(graph));
  check(cudaStreamDestroy(stream));
  check(cudaFree(d_owners));
  check(cudaFree(d_cache));
  check(cudaFree(d_foreign));
  const bool only_request_3_ended = requests[0] && requests[1] && !requests[2] && requests[3];
  return foreign == 0 && only_request_3_ended ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
