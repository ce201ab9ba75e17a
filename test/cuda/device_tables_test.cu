// Steps from block tables to attention's inputs: what travels, in which order, and what a batch then shows.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <kvpage/cuda/verifier.cuh>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "device_engine.cuh"
#include "device_memory.cuh"

namespace {

using kvpage::errc;
using kvpage::row_state;
using kvpage::cuda::poll_state;
using kvpage::cuda::table_options;

using pool_type = kvpage::page_pool<kvpage::bf16, kvpage::tagged>;
using engine = device_engine<pool_type>;

std::size_t host_allocations = 0;

// As far as the row and the pool have room for it.
void grow(kvpage::block_table<pool_type>& request, pool_type& pool, std::size_t tokens) {
  if (request.tokens() + tokens > std::size_t{small_tables.max_pages_per_row} * pool.tokens_per_page())
    return;
  kvpage::page_copy<pool_type::handle> copy;
  static_cast<void>(request.append(tokens, copy));
  if (!copy.source.is_null()) static_cast<void>(pool.release({&copy.source, 1}));
}

// Whatever can happen to a request between two steps.
void advance(engine& device, pool_type& pool, std::uint32_t row, dice& random) {
  auto& request = device.request(row);
  const std::size_t tokens = request.tokens();
  auto& other = device.request(random() % small_tables.max_rows);
  switch (random() % 12) {
    case 0: static_cast<void>(request.abandon()); break;
    case 1: request = kvpage::block_table<pool_type>(pool); break;
    case 2:
      static_cast<void>(request.truncate(tokens - (std::min)(tokens, std::size_t{random() % 9})));
      break;
    case 3: static_cast<void>(request.drop_front(1)); break;
    case 4:
      static_cast<void>(request.truncate(tokens / 2));
      grow(request, pool, tokens / 3);
      break;
    case 5: std::swap(request, other); break;
    case 6:
      if (&other == &request) break;
      static_cast<void>(other.abandon());
      static_cast<void>(request.fork(other));
      break;
    default: break;
  }
  grow(request, pool, 1 + random() % 9);
}

void random_steps(bool from_graph) {
  dice random(test_seed());
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, small_tables);
  const int steps = is_emulated() ? 40 : 4000;
  for (int step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
    SCOPED_TRACE(step);
    for (std::uint32_t row = 0; row < small_tables.max_rows; ++row) advance(device, pool, row, random);
    const auto& victim = device.request(random() % small_tables.max_rows);
    if (random() % 3 == 0 && victim.pages() > victim.dropped_pages())
      static_cast<void>(pool.release({&victim.handles()[victim.dropped_pages()], 1}));
    for (std::uint32_t row = 0; row < small_tables.max_rows; ++row) {
      if (random() % 4 == 0) continue;
      const auto& request = device.request(row);
      const std::size_t held = request.tokens() - request.dropped_pages() * pool.tokens_per_page();
      device.add(row, static_cast<std::uint32_t>((std::min)(held, std::size_t{random() % 3})));
    }
    device.run_and_check(from_graph);
  }
}

}  // namespace

#ifndef __CUDA_ARCH__  // or nvcc takes them for the device's as well
// Counts the host's allocations.  Not inlined: g++ takes an inlined free() for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++host_allocations;
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

TEST(device_tables, random_steps_give_the_host_oracles_verdicts_and_exports) { random_steps(false); }
TEST(device_tables, random_steps_replayed_from_one_graph_do_too) { random_steps(true); }

TEST(device_tables, one_captured_graph_serves_batches_of_1_7_and_64_rows) {
  constexpr table_options options{.max_rows = 64,
                                  .max_pages_per_row = 4,
                                  .max_slots = 64,
                                  .max_changed_entries = 256,
                                  .max_changed_tags = 256};
  pool_type pool({.pages = 300, .tokens_per_page = 4});
  engine device(pool, options);
  for (const std::uint32_t rows : {1u, 7u, 64u, 7u, 1u, 64u}) {
    for (std::uint32_t row = 0; row < rows; ++row) {
      ASSERT_EQ(device.request(row).append(2), errc::ok);
      device.add(row);
    }
    steal(pool, device.request(rows / 2), 0);
    device.run_and_check(true);
    const auto found = device.verifier.verdicts().poll(device.newest);
    ASSERT_EQ(found.failed.size(), 1u);
    EXPECT_EQ(found.failed[0].row, rows / 2);
    EXPECT_EQ(device.request(rows / 2).abandon(), 1u);  // the page that is no longer its own stays granted
  }
}

TEST(device_tables, the_host_allocates_nothing_in_a_step) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, small_tables);
  kvpage::block_table<pool_type> request(pool, 12);
  for (int step = 0; step < 3; ++step) {
    ASSERT_EQ(request.append(9), errc::ok);
    const std::size_t before = host_allocations;
    ASSERT_EQ(device.tables.assign(0, request), errc::ok);
    ASSERT_EQ(device.tables.add(0, 9), errc::ok);
    ASSERT_TRUE(device.tables.stage());
    EXPECT_EQ(host_allocations, before);
    device.enqueue();
    ASSERT_CUDA(cudaStreamSynchronize(device.stream));
  }
}

TEST(device_tables, more_changed_tags_than_planned_send_all_of_them) {
  table_options options = small_tables;
  options.max_changed_tags = 3;
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, options);
  ASSERT_EQ(device.request(0).append(4), errc::ok);
  device.add(0);
  device.run_and_check();
  EXPECT_EQ(device.tables.stats().full_tag_uploads, 1u);  // the first step

  ASSERT_EQ(device.request(1).append(8), errc::ok);
  device.add(1);
  device.run_and_check();
  EXPECT_EQ(device.tables.stats().full_tag_uploads, 1u);
  EXPECT_EQ(device.tables.stats().changed_tags, 2u);

  ASSERT_EQ(device.request(2).append(16), errc::ok);
  steal(pool, device.request(0), 0);
  for (std::uint32_t row = 0; row < 3; ++row) device.add(row);
  device.run_and_check();
  EXPECT_EQ(device.tables.stats().full_tag_uploads, 2u);
}

TEST(device_tables, case_F_a_reused_row_shows_nothing_of_its_predecessor) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, small_tables);
  ASSERT_EQ(device.request(0).append(20), errc::ok);
  ASSERT_EQ(device.request(1).append(8), errc::ok);
  device.add(0, 3);
  device.add(1);
  device.run_and_check();
  // Row 0 finishes, row 1 moves up.
  ASSERT_EQ(device.request(0).release(), errc::ok);
  std::swap(device.request(0), device.request(1));
  ASSERT_EQ(device.tables.clear(1), errc::ok);
  device.add(0);
  device.run_and_check();
  const auto ids = read_sync(device.tables.batch().d_ids, small_tables.max_pages_per_row, device.stream);
  for (std::size_t i = device.request(0).pages(); i < ids.size(); ++i) EXPECT_EQ(ids[i], 0);
}

TEST(device_tables, a_row_assigned_twice_in_one_step_holds_the_second_table) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, small_tables);
  ASSERT_EQ(device.request(0).append(20), errc::ok);
  ASSERT_EQ(device.tables.assign(0, device.request(0)), errc::ok);
  ASSERT_EQ(device.request(0).release(), errc::ok);
  ASSERT_EQ(device.tables.clear(0), errc::ok);
  ASSERT_EQ(device.request(0).append(7), errc::ok);
  device.add(0);
  device.run_and_check();
  EXPECT_EQ(device.tables.stats().changed_entries, 5u);
}

TEST(device_tables, case_A_a_step_in_flight_is_not_judged_by_later_tags) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, small_tables);
  ASSERT_EQ(device.request(0).append(9), errc::ok);
  device.add(0);
  const expected_step first = device.stage();
  device.enqueue();
  steal(pool, device.request(0), 1);
  device.add(0);
  const expected_step second = device.stage();
  device.enqueue();
  device.check(second, 2);
  device.check_verdicts(first, 1);
  EXPECT_EQ(first.verdicts[0].state, row_state::ok);
  EXPECT_EQ(second.verdicts[0].state, row_state::stale_page);
}

TEST(device_tables, case_A_updates_on_a_stream_of_their_own_are_ordered_by_events) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, small_tables);
  cudaStream_t updates = nullptr;
  cudaEvent_t updated = nullptr, read = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&updates, cudaStreamNonBlocking));
  ASSERT_CUDA(cudaEventCreateWithFlags(&updated, cudaEventDisableTiming));
  ASSERT_CUDA(cudaEventCreateWithFlags(&read, cudaEventDisableTiming));
  std::int32_t* lengths = nullptr;
  ASSERT_CUDA(cudaMallocHost(&lengths, 4 * small_tables.max_rows * sizeof(std::int32_t)));
  std::vector<expected_step> expected;
  for (std::uint32_t step = 0; step < 4; ++step) {
    ASSERT_EQ(device.request(0).append(5), errc::ok);
    ASSERT_EQ(device.request(step + 1).append(3), errc::ok);
    device.add(0);
    device.add(step + 1);
    if (step == 2) steal(pool, device.request(0), 1);
    expected.push_back(device.stage());
    ASSERT_CUDA(device.tables.enqueue_update(updates));
    ASSERT_CUDA(cudaEventRecord(updated, updates));
    ASSERT_CUDA(cudaStreamWaitEvent(device.stream, updated, 0));
    ASSERT_CUDA(device.verifier.enqueue(device.stream));
    ASSERT_CUDA(cudaMemcpyAsync(lengths + step * small_tables.max_rows, device.tables.inputs().d_seq_lens,
                                small_tables.max_rows * sizeof(std::int32_t), cudaMemcpyDeviceToHost,
                                device.stream));
    ASSERT_CUDA(cudaEventRecord(read, device.stream));
    ASSERT_CUDA(cudaStreamWaitEvent(updates, read, 0));
  }
  ASSERT_CUDA(cudaStreamSynchronize(device.stream));
  for (std::uint32_t step = 0; step < 4; ++step) {
    device.check_verdicts(expected[step], step + 1);
    const std::int32_t* const begin = lengths + step * small_tables.max_rows;
    EXPECT_EQ(std::vector(begin, begin + small_tables.max_rows), expected[step].exports.seq_lens);
  }
  ASSERT_CUDA(cudaFreeHost(lengths));
  ASSERT_CUDA(cudaEventDestroy(read));
  ASSERT_CUDA(cudaEventDestroy(updated));
  ASSERT_CUDA(cudaStreamSynchronize(updates));
  ASSERT_CUDA(cudaStreamDestroy(updates));
}

TEST(device_tables, only_changes_travel) {
  constexpr table_options options{.max_rows = 4,
                                  .max_pages_per_row = 200,
                                  .max_slots = 4,
                                  .max_changed_entries = 800,
                                  .max_changed_tags = 800};
  pool_type pool({.pages = 1000, .tokens_per_page = 16});
  engine device(pool, options);
  const auto step = [&](std::uint64_t entries, std::uint64_t tags) {
    const auto before = device.tables.stats();
    for (std::uint32_t row = 0; row < 4; ++row) device.add(row);
    device.run_and_check();
    const auto& after = device.tables.stats();
    EXPECT_EQ(after.changed_entries - before.changed_entries, entries);
    EXPECT_EQ(after.changed_tags - before.changed_tags, tags);
    return after.bytes - before.bytes;
  };
  for (std::uint32_t row = 0; row < 4; ++row) ASSERT_EQ(device.request(row).append(100 * 16 - row), errc::ok);
  const std::uint64_t first = step(400, 0);  // all tags, as in every first step
  EXPECT_EQ(first, 36 + 4 * 32 + 400 * 16 + 1000 * 4);

  for (std::uint32_t row = 0; row < 4; ++row) ASSERT_EQ(device.request(row).append(1), errc::ok);
  EXPECT_EQ(step(1, 1), 36 + 4 * 32 + 16 + 8);  // row 0 grows by a page
  EXPECT_EQ(step(0, 0), 36 + 4 * 32);

  ASSERT_EQ(device.request(2).truncate(98 * 16), errc::ok);  // speculation taken back, and grown again
  ASSERT_EQ(device.request(2).append(16), errc::ok);
  step(2, 2);
  ASSERT_EQ(device.request(3).drop_front(3), errc::ok);
  step(3, 3);
}

TEST(device_tables, case_N_a_table_that_was_rewritten_twice_is_compared_and_never_stale) {
  pool_type pool({.pages = 60, .tokens_per_page = 4, .reuse = kvpage::reuse_order::fifo});
  engine device(pool, small_tables);
  ASSERT_EQ(device.request(0).append(40), errc::ok);
  device.add(0);
  device.run_and_check();
  ASSERT_EQ(device.request(0).truncate(8), errc::ok);
  ASSERT_EQ(device.request(0).append(20), errc::ok);
  ASSERT_EQ(device.request(0).truncate(24), errc::ok);
  ASSERT_EQ(device.request(0).append(10), errc::ok);
  device.add(0);
  device.run_and_check();
  EXPECT_EQ(device.tables.stats().changed_entries, 10u + 8u);
}

TEST(device_tables, two_of_them_follow_the_same_requests) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine first(pool, small_tables), second(pool, small_tables);
  for (int step = 0; step < 6; ++step) {
    ASSERT_EQ(first.request(0).append(5), errc::ok);
    if (step % 2 == 1) ASSERT_EQ(first.request(0).truncate(first.request(0).tokens() - 6), errc::ok);
    first.add(0);
    first.run_and_check();
    if (step % 3 != 2) continue;
    std::swap(first.request(0), second.request(0));
    second.add(0);
    second.run_and_check();
    std::swap(first.request(0), second.request(0));
  }
}

TEST(device_tables, a_step_that_is_not_verified_reads_nothing_and_is_noticed) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, small_tables);
  ASSERT_EQ(device.request(0).append(9), errc::ok);
  ASSERT_EQ(device.request(1).append(30), errc::ok);
  ASSERT_EQ(device.request(2).append(5), errc::ok);
  for (std::uint32_t row = 0; row < 3; ++row) device.add(row);
  device.run_and_check();
  device.add(1);
  device.add(0);
  static_cast<void>(device.stage());
  ASSERT_CUDA(device.tables.enqueue_update(device.stream));
  const exported_step unverified = device.read();
  EXPECT_EQ(unverified.seq_lens, std::vector<std::int32_t>(small_tables.max_rows, 0));
  EXPECT_EQ(unverified.slots, std::vector<kvpage::slot_index>(small_tables.max_slots, kvpage::skipped_slot));
  // For kernels that go by the plan instead of the lengths: not the ids of an earlier batch either.
  EXPECT_EQ(unverified.indptr, (std::vector<std::int32_t>{0, 8, 11, 11, 11, 11, 11}));
  EXPECT_EQ(unverified.indices, std::vector<std::int32_t>(unverified.indices.size(), 0));
  EXPECT_EQ(unverified.padded, std::vector<std::int32_t>(unverified.padded.size(), 0));
  EXPECT_EQ(device.verifier.verdicts().poll(2).state, poll_state::pending);
  device.add(0);
  static_cast<void>(device.stage());
  ASSERT_CUDA(device.tables.enqueue_update(device.stream));
  ASSERT_CUDA(cudaStreamSynchronize(device.stream));
  EXPECT_EQ(device.verifier.verdicts().poll(2).state, poll_state::missed);
  EXPECT_EQ(device.verifier.verdicts().poll(3).state, poll_state::pending);
}

TEST(device_tables, padding_rows_read_and_write_nothing) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, small_tables);
  ASSERT_EQ(device.request(0).append(9), errc::ok);
  device.add_padding();
  device.add(0);
  device.add_padding();
  device.run_and_check();
  device.run_and_check();  // no rows at all
}

TEST(device_tables, errors_leave_the_batch_and_the_rows_as_they_were) {
  table_options options = small_tables;
  options.max_changed_entries = 12;
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, options);
  ASSERT_EQ(device.request(0).append(40), errc::ok);
  ASSERT_EQ(device.request(1).append(12), errc::ok);
  ASSERT_EQ(device.request(2).append(52), errc::ok);
  ASSERT_EQ(device.tables.assign(0, device.request(0)), errc::ok);
  EXPECT_EQ(device.tables.assign(1, device.request(1)), errc::batch_full);  // 10 + 3 changes
  EXPECT_EQ(device.tables.assign(2, device.request(2)), errc::row_too_long);
  EXPECT_EQ(device.tables.add(1), errc::outside_row);  // holds nothing yet
  EXPECT_EQ(device.tables.add(0, 41), errc::outside_row);
  EXPECT_EQ(device.tables.add(0, 17), errc::batch_full);  // slots
  device.add(0);
  device.run_and_check();
  device.add(1);
  device.run_and_check();
  for (int row = 0; row < 6; ++row) ASSERT_EQ(device.tables.add_padding(0), errc::ok);
  EXPECT_EQ(device.tables.add_padding(0), errc::batch_full);
  device.tables.drop_batch();
  device.add(0);
  device.run_and_check();
}

TEST(device_tables, case_F_a_row_of_the_batch_does_not_change_before_the_step_is_staged) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, small_tables);
  ASSERT_EQ(device.request(0).append(20), errc::ok);
  ASSERT_EQ(device.request(1).append(7), errc::ok);
  device.add(0);
  EXPECT_EQ(device.tables.assign(0, device.request(1)), errc::row_in_batch);
  EXPECT_EQ(device.tables.clear(0), errc::row_in_batch);
  device.run_and_check();

  std::swap(device.request(0), device.request(1));
  device.add(0);
  ASSERT_EQ(device.request(0).append(30), errc::ok);
  EXPECT_EQ(device.tables.assign(0, device.request(0)), errc::row_in_batch);
  device.tables.drop_batch();
  static_cast<void>(device.predict());
  device.add(0);
  device.run_and_check();
}

TEST(device_tables, case_G_no_row_is_in_a_batch_twice) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, small_tables);
  ASSERT_EQ(device.request(0).append(20), errc::ok);
  device.add(0);
  EXPECT_EQ(device.tables.add(0), errc::row_in_batch);  // it would write its slot twice
  device.run_and_check();
  device.add(0);
  device.run_and_check();
}

TEST(device_tables_death, a_row_that_is_none_is_a_contract_violation) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, small_tables);
  EXPECT_DEATH(static_cast<void>(device.tables.assign(small_tables.max_rows, device.request(0))), "");
  EXPECT_DEATH(static_cast<void>(device.tables.clear(small_tables.max_rows)), "");
  EXPECT_DEATH(static_cast<void>(device.tables.add(small_tables.max_rows)), "");
}

TEST(device_tables_death, a_table_of_another_pool_is_a_contract_violation) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  pool_type pool({.pages = 65, .tokens_per_page = 4}), other({.pages = 65, .tokens_per_page = 4});
  engine device(pool, small_tables);
  const kvpage::block_table<pool_type> table(other);
  EXPECT_DEATH(static_cast<void>(device.tables.assign(0, table)), "");
}

TEST(device_tables, steps_are_over_once_the_next_has_begun) {
  pool_type pool({.pages = 65, .tokens_per_page = 4});
  engine device(pool, small_tables);
  EXPECT_EQ(device.tables.steps_over(), 0u);
  for (kvpage::step_number step = 1; step <= 3; ++step) {
    ASSERT_EQ(*device.tables.stage(), step);
    EXPECT_CUDA(device.tables.enqueue_update(device.stream));
    EXPECT_CUDA(cudaStreamSynchronize(device.stream));
    EXPECT_EQ(device.tables.steps_over(), step - 1);
  }
}

TEST(device_tables, options_out_of_range_are_refused) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  table_options options = small_tables;
  options.max_changed_entries = 11;
  EXPECT_THROW(kvpage::cuda::device_tables(pool, options), std::invalid_argument);
  options = small_tables;
  options.max_rows = 0;
  EXPECT_THROW(kvpage::cuda::device_tables(pool, options), std::invalid_argument);
  options = small_tables;
  options.max_rows = options.max_pages_per_row = options.max_changed_entries = 0x7fff'ffff;
  EXPECT_THROW(kvpage::cuda::device_tables(pool, options), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(kvpage::cuda::device_tables<pool_type>::required_memory(pool, options)),
               std::invalid_argument);
}

TEST(device_tables, verdicts_stay_readable_longer_than_steps_are_staged_ahead) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  const kvpage::cuda::device_tables tables(pool, small_tables);
  const std::uint32_t least = small_tables.staging_slots + 2;
  EXPECT_THROW(kvpage::cuda::verifier(tables, {.verdict_slots = least - 1}), std::invalid_argument);
  EXPECT_EQ(kvpage::cuda::verifier(tables, {.verdict_slots = least}).verdicts().max_age(), least);
}

// Something has written over the device's copies: the row that read them fails, and only that one.
TEST(device_tables, case_F_a_failed_rows_successor_is_sent_whole) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, small_tables);
  ASSERT_EQ(device.request(0).append(12), errc::ok);
  ASSERT_EQ(device.request(0).fork(device.request(1)), errc::ok);  // shares the pages
  const auto shared = device.request(0).handles()[1];
  device.add(0);
  device.run_and_check();

  const auto in = device.tables.batch();
  write_sync(const_cast<std::int32_t*>(in.d_ids) + 1, std::vector<std::int32_t>{33}, device.stream);
  write_sync(const_cast<kvpage::page_tag*>(in.d_tags) + device.request(0).handles()[2].id(),
             std::vector<kvpage::page_tag>{77}, device.stream);
  device.add(0);
  ASSERT_TRUE(device.tables.stage());
  device.enqueue();
  EXPECT_CUDA(cudaStreamSynchronize(device.stream));
  const auto found = device.verifier.verdicts().poll(2);
  ASSERT_EQ(found.failed.size(), 1u);
  EXPECT_EQ(found.failed[0].finding,
            (kvpage::verdict{row_state::stale_page, 1, 33, shared.id(), shared.tag(), 0}));

  ASSERT_EQ(device.request(0).abandon(), 0u);
  ASSERT_EQ(device.tables.clear(0), errc::ok);
  device.tables.resend_tags();
  std::swap(device.request(0), device.request(1));
  static_cast<void>(device.predict());  // forgets the row that failed
  device.add(0);
  device.run_and_check();
  EXPECT_EQ(device.verifier.verdicts().poll(device.newest).summary.failed_rows, 0u);
}

TEST(device_tables, live_in_the_callers_memory_if_there_is_some) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  const auto sizes = kvpage::cuda::device_tables<pool_type>::required_memory(pool, small_tables);
  const device_array<std::byte> device_block(sizes.device);
  void* pinned = nullptr;
  ASSERT_CUDA(cudaHostAlloc(&pinned, sizes.pinned, cudaHostAllocMapped));
  {
    kvpage::cuda::device_tables tables(pool, small_tables,
                                       {device_block.data(), static_cast<std::byte*>(pinned)});
    const auto verifier_sizes = kvpage::cuda::verifier<pool_type>::required_memory(tables.batch(), {});
    const device_array<std::byte> verifier_block(verifier_sizes.device);
    void* verdicts = nullptr;
    ASSERT_CUDA(cudaHostAlloc(&verdicts, verifier_sizes.pinned, cudaHostAllocMapped));
    {
      const kvpage::cuda::verifier verifier(tables, {},
                                            {verifier_block.data(), static_cast<std::byte*>(verdicts)});
      kvpage::block_table<pool_type> request(pool);
      ASSERT_EQ(request.append(9), errc::ok);
      ASSERT_EQ(tables.assign(5, request), errc::ok);
      ASSERT_EQ(tables.add(5), errc::ok);
      ASSERT_TRUE(tables.stage());
      ASSERT_CUDA(tables.enqueue_update(cudaStreamPerThread));
      ASSERT_CUDA(verifier.enqueue(cudaStreamPerThread));
      ASSERT_CUDA(cudaStreamSynchronize(cudaStreamPerThread));
      EXPECT_EQ(verifier.verdicts().poll(1).summary, (kvpage::verify_summary{1, 1, 3, 0}));
    }
    ASSERT_CUDA(cudaFreeHost(verdicts));
  }
  ASSERT_CUDA(cudaFreeHost(pinned));
}

TEST(device_tables, half_of_the_callers_memory_or_a_misaligned_block_is_refused) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  alignas(kvpage::cuda::memory_alignment) std::array<std::byte, 2> block{};
  for (const kvpage::cuda::memory_blocks& given :
       {kvpage::cuda::memory_blocks{block.data(), nullptr},
        kvpage::cuda::memory_blocks{nullptr, block.data()},
        kvpage::cuda::memory_blocks{block.data(), block.data() + 1}})
    EXPECT_THROW(kvpage::cuda::device_tables(pool, small_tables, given), std::invalid_argument);
}

TEST(device_tables, case_N_tags_that_run_out_retire_the_page_and_never_validate_again) {
  using narrow_pool = kvpage::page_pool<kvpage::fp8_e4m3, kvpage::basic_tagged<std::uint8_t, 2>>;
  narrow_pool pool({.pages = 2, .tokens_per_page = 4});
  device_engine<narrow_pool> device(pool, small_tables);
  ASSERT_EQ(device.request(0).append(1), errc::ok);
  std::array page{device.request(0).handles()[0]};
  device.add(0);
  device.run_and_check();
  for (int generation = 0; pool.stats().retired == 0; ++generation) {
    ASSERT_LT(generation, 4);
    ASSERT_EQ(pool.release(page), errc::ok);
    device.add(0);
    device.run_and_check();
    EXPECT_EQ(device.verifier.verdicts().poll(device.newest).summary.failed_rows, 1u);
    static_cast<void>(pool.allocate(page));
  }
}

TEST(device_tables, case_M_untagged_they_are_empty) {
  using untagged_pool = kvpage::page_pool<kvpage::fp8_e4m3, kvpage::untagged>;
  using tables_type = kvpage::cuda::device_tables<untagged_pool>;
  using verifier_type = kvpage::cuda::verifier<untagged_pool>;
  static_assert(std::is_empty_v<tables_type> && std::is_empty_v<verifier_type>);
  untagged_pool pool({.pages = 4});
  tables_type tables(pool, small_tables);
  const verifier_type verifier(tables);
  EXPECT_EQ(tables_type::required_memory(pool, small_tables).device, 0u);
  EXPECT_CUDA(tables.enqueue_update(nullptr));
  EXPECT_CUDA(verifier.enqueue(nullptr));
}
