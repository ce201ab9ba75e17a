// The report: its keys, and which findings make the program fail.
#include "report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace {

using nlohmann::json;
using replay::fault_kind;

replay::report good() {
  replay::report of;
  of.audit_clean = true;
  of.audit = "clean";
  of.injected[fault_kind::short_row] = of.detected[fault_kind::short_row] = 3;
  return of;
}

TEST(report, json_has_these_keys_and_no_others) {
  replay::report of = good();
  of.pages.peak_live = 17;
  of.ns_per_page = 2.5;
  of.launches_per_step = 2;
  of.prefix.cached_tokens = 640;
  of.prefix.blocks_seen = 2;
  of.prefix.blocks_found = of.prefix.blocks_missed = 1;
  std::ostringstream out;
  write_json(out, of);
  const json counts = {{"injected", 0}, {"detected", 0}};
  const json expected = {
      {"requests", 0},
      {"completed", 0},
      {"aborted", 0},
      {"preempted", 0},
      {"rejected", 0},
      {"steps", 0},
      {"tokens", 0},
      {"rows_verified", 0},
      {"entries_verified", 0},
      {"faults",
       {{"stale_table", counts},
        {"early_free", counts},
        {"wrong_page", counts},
        {"out_of_range", counts},
        {"short_row", {{"injected", 3}, {"detected", 3}}},
        {"double_free", counts}}},
      {"innocents_aborted", 0},
      {"foreign_reads", 0},
      {"pages", {{"capacity", 0}, {"peak_live", 17}, {"granted", 0}, {"released", 0}, {"retired", 0}}},
      {"prefix",
       {{"prompt_tokens", 0},
        {"cached_tokens", 640},
        {"blocks", 0},
        {"blocks_seen", 2},
        {"blocks_found", 1},
        {"blocks_partial", 0},
        {"blocks_last", 0},
        {"blocks_missed", 1},
        {"evicted_pages", 0}}},
      {"audit", "clean"},
      {"ns_per_page", 2.5},
      {"ns_per_admitted_page", 0.0},
      {"ns_per_entry", 0.0},
      {"us_per_step", 0.0},
      {"launches_per_step", 2.0},
      {"bytes_uploaded_per_step", 0.0}};
  EXPECT_EQ(json::parse(out.str()), expected);
}

TEST(report, holds_no_times_where_kernels_are_interpreted) {
  replay::report of = good();
  of.us_per_step = 7;
  of.is_timed = false;
  std::ostringstream out, table;
  write_json(out, of);
  for (const char* time : {"ns_per_page", "ns_per_admitted_page", "ns_per_entry", "us_per_step"})
    EXPECT_TRUE(json::parse(out.str()).at(time).is_null()) << time;
  write_table(table, of, {});
  EXPECT_EQ(table.str().find("us per step"), std::string::npos);
}

TEST(report, exit_status_is_0_if_all_is_well) {
  EXPECT_EQ(exit_status(good(), true), 0);
  EXPECT_EQ(exit_status(good(), false), 0);
}

TEST(report, a_failed_audit_always_fails) {
  replay::report of = good();
  of.audit_clean = false;
  EXPECT_EQ(exit_status(of, true), 1);
  EXPECT_EQ(exit_status(of, false), 1);
}

TEST(report, what_gets_through_fails_a_verified_run_only) {
  replay::report undetected = good(), innocent = good(), foreign = good();
  --undetected.detected[fault_kind::short_row];
  innocent.innocents_aborted = 1;
  foreign.foreign_reads = 1;
  for (const replay::report& of : {undetected, innocent, foreign}) {
    EXPECT_EQ(exit_status(of, true), 1);
    EXPECT_EQ(exit_status(of, false), 0);
  }
}

}  // namespace
