// The ring of staged steps: when a slot is written, when it is read, and launches that find none.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <kvpage/cuda/verifier.cuh>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "device_engine.cuh"
#include "device_memory.cuh"

namespace {

using kvpage::errc;
using kvpage::cuda::table_options;

using pool_type = kvpage::page_pool<kvpage::bf16, kvpage::tagged>;
using engine = device_engine<pool_type>;

// Calls back whenever a tag is read, as stage() does halfway through.
struct watched_pool : pool_type {
  using pool_type::pool_type;
  std::function<void()> on_read;

  [[nodiscard]] kvpage::page_tag tag(kvpage::page_id page) const {
    if (on_read) on_read();
    return pool_type::tag(page);
  }
};

// Launches an update while the host stages its step, at any moment of it, again and again.
void stage_while_updates_run(std::uint32_t max_changed_tags) {
  constexpr std::uint32_t rows = 4, pages_per_row = 32;
  pool_type pool(
      {.pages = 1 + rows * pages_per_row, .tokens_per_page = 4, .reuse = kvpage::reuse_order::fifo});
  engine device(pool, {.max_rows = rows,
                       .max_pages_per_row = pages_per_row,
                       .max_slots = 2048,  // and so the emulated device's most blocks
                       .max_changed_entries = rows * pages_per_row,
                       .max_changed_tags = max_changed_tags});
  dice random(test_seed());
  const kvpage::step_number steps = is_emulated() ? 60 : 10000;
  for (kvpage::step_number step = 1; step <= steps && !testing::Test::HasFailure(); ++step) {
    SCOPED_TRACE(step);
    for (std::uint32_t row = 0; row < rows; ++row) {
      ASSERT_EQ(device.request(row).release(), errc::ok);
      ASSERT_EQ(device.request(row).append(1 + random() % (4 * pages_per_row)), errc::ok);
      device.add(row);
    }
    const expected_step expected = device.predict();

    std::atomic<bool> runs = false;
    std::thread waiting([&] {
      runs = true;
      EXPECT_CUDA(device.tables.enqueue_update(device.stream));  // a GPU begins at once,
      EXPECT_CUDA(cudaStreamSynchronize(device.stream));         // the emulated device here
    });
    while (!runs) {
    }
    for (std::uint32_t spins = random() % (1u << random() % 18); spins != 0 && runs; --spins) {
    }
    EXPECT_TRUE(device.tables.stage());
    waiting.join();

    if (device.tables.steps_begun() < step) ASSERT_CUDA(device.tables.enqueue_update(device.stream));
    ASSERT_CUDA(device.verifier.enqueue(device.stream));
    device.check(expected, step);
  }
}

}  // namespace

TEST(staging_ring, case_F_staging_slots_are_not_overwritten_before_the_device_has_read_them) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, small_tables);
  std::vector<expected_step> expected;
  for (std::uint32_t step = 1; step <= 12; ++step) {
    ASSERT_EQ(device.request(step % 6).append(step % 3 + 1), errc::ok);
    for (std::uint32_t row = 0; row <= step % 6; ++row) {
      if (device.request(row).tokens() != 0) device.add(row);
    }
    if (step > device.tables.steps_begun() + small_tables.staging_slots) {
      const auto stats = device.tables.stats();
      const auto refused = device.tables.stage();
      EXPECT_EQ(refused.error(), errc::not_ready);
      EXPECT_EQ(device.tables.stats(), stats);
      ASSERT_CUDA(cudaStreamSynchronize(device.stream));  // a step later: the same batch goes through
    }
    expected.push_back(device.stage());
    device.enqueue();
  }
  device.check(expected.back(), 12);
  for (std::uint32_t step = 1; step <= 12; ++step) device.check_verdicts(expected[step - 1], step);
}

TEST(staging_ring, steps_staged_ahead_of_their_launches_wait_in_the_ring) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, small_tables);
  std::vector<expected_step> expected;
  for (std::uint32_t row = 0; row < small_tables.staging_slots; ++row) {
    ASSERT_EQ(device.request(row).append(5 + row), errc::ok);
    device.add(row);
    expected.push_back(device.stage());
  }
  EXPECT_EQ(device.tables.stage().error(), errc::not_ready);
  for (std::uint32_t step = 1; step <= small_tables.staging_slots; ++step) {
    device.enqueue();
    device.check(expected[step - 1], step);
  }
}

TEST(staging_ring, the_image_of_all_tags_is_not_overwritten_before_the_device_has_read_it) {
  table_options options = small_tables;
  options.max_changed_tags = 0;
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, options);
  ASSERT_EQ(device.request(0).append(4), errc::ok);
  device.add(0);
  const expected_step first = device.stage();
  steal(pool, device.request(0), 0);
  ASSERT_EQ(device.tables.add(0), errc::ok);
  EXPECT_EQ(device.tables.stage().error(), errc::not_ready);
  device.enqueue();
  device.check(first, 1);
  ASSERT_TRUE(device.tables.stage());
  device.enqueue();
  ASSERT_CUDA(cudaStreamSynchronize(device.stream));
  EXPECT_EQ(device.verifier.verdicts().poll(2).summary.failed_rows, 1u);
}

TEST(staging_ring, a_launch_without_a_staged_step_is_an_empty_batch_and_does_not_count) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, small_tables);
  ASSERT_EQ(device.request(0).append(9), errc::ok);
  device.add(0);
  device.run_and_check();
  device.replay();
  EXPECT_EQ(device.read(), device.predict().exports);
  EXPECT_EQ(device.tables.steps_begun(), 1u);
  device.add(0);
  device.run_and_check(true);
}

TEST(staging_ring, case_F_an_update_in_the_midst_of_staging_takes_nothing) {
  watched_pool pool({.pages = 60, .tokens_per_page = 4});
  device_engine<watched_pool> device(pool, small_tables);
  for (kvpage::step_number step = 1; step < 10; ++step) {  // the first sends all tags, the others changes
    ASSERT_EQ(device.request(0).append(5), errc::ok);
    device.add(0);
    const expected_step expected = device.predict();
    int launches = 0;
    pool.on_read = [&] {
      ASSERT_CUDA(device.tables.enqueue_update(device.stream));
      ASSERT_CUDA(cudaStreamSynchronize(device.stream));
      EXPECT_EQ(device.tables.steps_begun(), step - 1);
      ++launches;
    };
    ASSERT_TRUE(device.tables.stage());
    pool.on_read = nullptr;
    EXPECT_GT(launches, 0);
    device.enqueue();
    device.check(expected, step);
  }
}

TEST(staging_ring, case_F_an_update_that_staging_overlaps_with_takes_all_of_the_step_or_nothing) {
  stage_while_updates_run(256);
}
TEST(staging_ring, case_F_so_does_one_that_takes_all_tags) { stage_while_updates_run(0); }

TEST(staging_ring, a_second_update_for_one_step_is_an_empty_batch_that_nobody_can_take_for_verified) {
  pool_type pool({.pages = 60, .tokens_per_page = 4});
  engine device(pool, small_tables);
  ASSERT_EQ(device.request(0).append(9), errc::ok);
  device.add(0);
  static_cast<void>(device.stage());
  ASSERT_CUDA(device.tables.enqueue_update(device.stream));
  device.enqueue();
  EXPECT_EQ(device.read(), device.predict().exports);
  EXPECT_EQ(device.tables.steps_begun(), 1u);
  EXPECT_EQ(device.verifier.verdicts().poll(1).state, kvpage::cuda::poll_state::pending);
  device.add(0);
  device.run_and_check();
  EXPECT_EQ(device.verifier.verdicts().poll(1).state, kvpage::cuda::poll_state::missed);
}
