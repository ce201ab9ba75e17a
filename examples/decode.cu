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

// Stands in for the model.  The "KV cache" holds one number a token: its request's.
struct model {
  unsigned cache[cache_pages * tokens_per_page];
  unsigned foreign_reads;  // tokens read that are another's
};

// Writes each row's new token to its slot and then reads the row's tokens.
__global__ void attention(attention_inputs in, model* d_model) {
  const unsigned row = blockIdx.x;
  const unsigned owner = row + 1;
  if (threadIdx.x == 0 && in.d_slots[row] != kvpage::skipped_slot) d_model->cache[in.d_slots[row]] = owner;
  __syncthreads();
  for (int token = static_cast<int>(threadIdx.x); token < in.d_seq_lens[row]; token += blockDim.x) {
    const std::int64_t page = in.d_padded[row * in.padded_width + token / tokens_per_page];
    if (d_model->cache[page * tokens_per_page + token % tokens_per_page] != owner)
      atomicAdd(&d_model->foreign_reads, 1u);
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

  model* d_model = nullptr;
  check(cudaMalloc(&d_model, sizeof(model)));
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(cudaMemsetAsync(d_model, 0, sizeof(model), stream));

  // Captured once: every address is fixed, rows and lengths are read on the device.
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t decode = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  check(tables.enqueue_update(stream));
  check(verifier.enqueue(stream));
  attention<<<max_rows, 64, 0, stream>>>(tables.inputs(), d_model);
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
      if (verdict.state != poll_state::verified) throw std::runtime_error("a step was not verified");
      for (const auto& failed : verdict.failed) {
        if (!requests[failed.row]) continue;  // cut off in several steps, ended once
        std::cout << "step " << polled + 1 << ": request " << failed.row + 1 << " is cut off, page "
                  << failed.finding.page << " is no longer its own\n";
        requests[failed.row]->abandon(launched);
        requests[failed.row].reset();
        check(tables.clear(failed.row));  // should the device's copies be wrong, nobody inherits them
        tables.resend_tags();
      }
    }
    pool.retire(tables.steps_over());
  }

  model state;
  check(cudaMemcpyAsync(&state, d_model, sizeof state, cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));
  std::cout << state.foreign_reads << " foreign tokens read; " << tables.stats().bytes / tables.stats().steps
            << " bytes uploaded a step\n";
  check(cudaGraphExecDestroy(decode));
  check(cudaGraphDestroy(graph));
  check(cudaStreamDestroy(stream));
  check(cudaFree(d_model));
  const bool only_request_3_ended = requests[0] && requests[1] && !requests[2] && requests[3];
  return state.foreign_reads == 0 && only_request_3_ended ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
