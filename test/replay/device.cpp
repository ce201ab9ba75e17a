// Whole replays on the device: the same as on the host, faults and all.
#include <gtest/gtest.h>

#include <cstdint>

#include "replay.hpp"

namespace {

using replay::fault_kind;
using replay::report;

// Short, because kernels may be interpreted; 50 requests of 2 to 10 pages that decode 4 to 13 tokens.
replay::trace short_requests() {
  replay::trace requests;
  for (std::uint32_t i = 0; i < 50; ++i)
    requests.push_back({100.0 * (i / 2), 20 + i * 37 % 120, 4 + i * 7 % 10, {}});
  return requests;
}

replay::options with_faults(std::uint64_t of_each_kind) {
  replay::options chosen;
  chosen.pages = 120;
  chosen.page_size = 16;
  chosen.max_rows = 8;
  chosen.faults.fill(of_each_kind);
  return chosen;
}

replay::per_fault<std::uint64_t> each(std::uint64_t count) {
  replay::per_fault<std::uint64_t> all;
  all.fill(count);
  return all;
}

report on(const char* backend, replay::options chosen) {
  chosen.backend = backend;
  return run_replay(chosen, short_requests());
}

// What does not depend on where a step runs.
void expect_same(const report& device, const report& host) {
  EXPECT_EQ(device.completed, host.completed);
  EXPECT_EQ(device.aborted, host.aborted);
  EXPECT_EQ(device.steps, host.steps);
  EXPECT_EQ(device.tokens, host.tokens);
  EXPECT_EQ(device.rows_verified, host.rows_verified);
  EXPECT_EQ(device.entries_verified, host.entries_verified);
  EXPECT_EQ(device.pages.granted, host.pages.granted);
  EXPECT_EQ(device.pages.released, host.pages.released);
  EXPECT_EQ(device.injected, host.injected);
  EXPECT_EQ(device.detected, host.detected);
  EXPECT_EQ(device.audit, host.audit);
}

// Cases B, F, N.
TEST(replay_device, detects_every_fault_and_aborts_its_victim_alone) {
  const report of = on("cuda", with_faults(3));
  expect_same(of, on("cpu", with_faults(3)));
  EXPECT_EQ(of.injected, each(3));
  EXPECT_EQ(of.detected, each(3));
  EXPECT_EQ(of.aborted, 15u);  // the victim of a double free has finished already
  EXPECT_EQ(of.innocents_aborted, 0u);
  EXPECT_EQ(of.foreign_reads, 0u);
  EXPECT_EQ(exit_status(of, true), 0);
}

TEST(replay_device, takes_two_launches_a_step_and_uploads_what_changed) {
  replay::options chosen = with_faults(0);
  const report of = on("cuda", chosen);
  expect_same(of, on("cpu", chosen));
  EXPECT_EQ(of.foreign_reads, 0u);
  EXPECT_EQ(of.launches_per_step, 2.0);
  chosen.policy = "untagged";  // all tables travel, without tags
  EXPECT_GT(of.bytes_uploaded_per_step, 0.0);
  EXPECT_EQ(on("cuda", chosen).launches_per_step, 0.0);
}

// Case M.
TEST(replay_device, untagged_lets_foreign_reads_through_and_launches_no_verifier) {
  replay::options chosen = with_faults(0);
  chosen.policy = "untagged";
  for (const fault_kind kind : {fault_kind::wrong_page, fault_kind::out_of_range, fault_kind::short_row})
    chosen.faults[kind] = 3;
  const report of = on("cuda", chosen);
  const report host = on("cpu", chosen);
  expect_same(of, host);
  EXPECT_GT(of.foreign_reads, 0u);
  EXPECT_EQ(of.foreign_reads, host.foreign_reads);
  EXPECT_EQ(of.rows_verified, 0u);
  EXPECT_EQ(of.launches_per_step, 0.0);
}

TEST(replay_device, serves_other_elements_and_windows) {
  for (const char* element : {"fp16", "fp8_e4m3"}) {
    replay::options chosen = with_faults(1);
    chosen.element = element;
    chosen.window = 40;
    const report of = on("cuda", chosen);
    expect_same(of, on("cpu", chosen));
    EXPECT_EQ(of.detected, each(1)) << element;
    EXPECT_EQ(of.foreign_reads, 0u) << element;
  }
}

}  // namespace
