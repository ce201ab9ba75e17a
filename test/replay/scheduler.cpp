// Whole replays: every kind of fault under both policies, pools that are too small, every element type, and
// verifiers that don't do their work, which must not go unnoticed.
#include "scheduler.hpp"

#include <gtest/gtest.h>

#include <string>

#include "replay.hpp"

namespace {

using kvpage::bf16;
using replay::fault_kind;
using replay::report;

replay::options with_faults(std::uint64_t of_each_kind) {
  replay::options chosen;
  chosen.pages = 16384;
  chosen.faults.fill(of_each_kind);
  return chosen;
}

const replay::trace& requests() {
  static const replay::trace made = replay::generate_trace(250, 3);
  return made;
}

replay::per_fault<std::uint64_t> each(std::uint64_t count) {
  replay::per_fault<std::uint64_t> all;
  all.fill(count);
  return all;
}

// What holds of every replay: each request has one end, and no page is left over.
void expect_everything_to_end(const report& of) {
  EXPECT_EQ(of.completed + of.aborted + of.rejected, of.requests);
  EXPECT_TRUE(of.audit_clean) << of.audit;
}

// And of those in which no page is given up by two: every reference came back once.
void expect_accounts_to_add_up(const report& of) {
  expect_everything_to_end(of);
  EXPECT_EQ(of.pages.granted, of.pages.released);
}

TEST(replay_tagged, without_faults_completes_everything) {
  const report of = run_replay(with_faults(0), requests());
  expect_accounts_to_add_up(of);
  EXPECT_EQ(of.completed, 250u);
  EXPECT_EQ(of.innocents_aborted, 0u);
  EXPECT_EQ(of.foreign_reads, 0u);
  EXPECT_EQ(of.audit, "clean");
  std::uint64_t tokens = 0;
  for (const auto& request : requests()) tokens += request.output_length;
  EXPECT_EQ(of.tokens, tokens);
  EXPECT_EQ(of.rows_verified, tokens);
}

// Cases B, F, N.
TEST(replay_tagged, detects_every_fault_and_aborts_its_victim_alone) {
  const report of = run_replay(with_faults(10), requests());
  expect_accounts_to_add_up(of);
  EXPECT_EQ(of.injected, each(10));
  EXPECT_EQ(of.detected, each(10));
  EXPECT_EQ(of.aborted, 50u);  // the victim of a double free has finished already
  EXPECT_EQ(of.innocents_aborted, 0u);
  EXPECT_EQ(of.foreign_reads, 0u);
  EXPECT_EQ(exit_status(of, true), 0);
}

// Each kind alone: nothing is detected by another one's doing.
TEST(replay_tagged, detects_each_kind_of_fault_alone) {
  for (std::size_t kind = 0; kind < replay::fault_names.size(); ++kind) {
    replay::options chosen = with_faults(0);
    chosen.faults[kind] = 25;
    const report of = run_replay(chosen, requests());
    EXPECT_EQ(of.injected[kind], 25u) << replay::fault_names[kind];
    EXPECT_EQ(of.detected, chosen.faults) << replay::fault_names[kind];
    EXPECT_EQ(exit_status(of, true), 0) << replay::fault_names[kind];
  }
}

// Nobody comes after the last request to be granted its pages: its double free is one at the end of the run.
TEST(replay_tagged, detects_a_double_free_of_the_last_request) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    replay::options chosen = with_faults(0);
    chosen.seed = seed;
    chosen.faults[fault_kind::double_free] = 1;
    const report of = run_replay(chosen, replay::generate_trace(1, seed));
    EXPECT_EQ(of.detected[fault_kind::double_free], of.injected[fault_kind::double_free]);
    expect_everything_to_end(of);
  }
}

TEST(replay_tagged, is_the_same_for_the_same_seed) {
  const report one = run_replay(with_faults(5), requests());
  const report other = run_replay(with_faults(5), requests());
  EXPECT_EQ(one.steps, other.steps);
  EXPECT_EQ(one.tokens, other.tokens);
  EXPECT_EQ(one.entries_verified, other.entries_verified);
  EXPECT_EQ(one.pages.granted, other.pages.granted);
}

// Case M.
TEST(replay_untagged, lets_foreign_reads_through_and_says_what_it_cannot_know) {
  replay::options chosen = with_faults(10);
  chosen.policy = "untagged";
  const report of = run_replay(chosen, requests());
  expect_everything_to_end(of);
  EXPECT_EQ(of.completed, 250u);
  EXPECT_EQ(of.injected, each(10));
  for (const fault_kind kind : {fault_kind::stale_table, fault_kind::early_free, fault_kind::wrong_page,
                                fault_kind::out_of_range, fault_kind::short_row}) {
    EXPECT_EQ(of.detected[kind], 0u);
  }
  EXPECT_GT(of.foreign_reads, 0u);
  EXPECT_EQ(of.rows_verified, 0u);
  EXPECT_EQ(of.audit.rfind("clean; cannot know: untagged", 0), 0u) << of.audit;
  EXPECT_EQ(exit_status(of, false), 0);
}

TEST(replay_untagged, without_faults_reads_nothing_foreign) {
  replay::options chosen = with_faults(0);
  chosen.policy = "untagged";
  EXPECT_EQ(run_replay(chosen, requests()).foreign_reads, 0u);
}

// Each kind that leads to reads does so, by itself: the oracle sees it.
TEST(replay_untagged, every_kind_of_fault_leads_to_foreign_reads) {
  for (std::size_t kind = 0; kind < replay::fault_names.size(); ++kind) {
    replay::options chosen = with_faults(0);
    chosen.policy = "untagged";
    chosen.faults[kind] = 25;
    EXPECT_GT(run_replay(chosen, requests()).foreign_reads, 0u) << replay::fault_names[kind];
  }
}

// Case K.
TEST(replay_small_pool, preempts_and_rejects_and_still_completes) {
  replay::options chosen = with_faults(5);
  chosen.pages = 600;
  const report of = run_replay(chosen, requests());
  expect_accounts_to_add_up(of);
  EXPECT_GT(of.preempted, 0u);
  EXPECT_GT(of.rejected, 0u);
  EXPECT_EQ(of.pages.peak_live, 600u);
  EXPECT_EQ(of.detected, each(5));
  EXPECT_EQ(of.innocents_aborted, 0u);
  EXPECT_EQ(of.foreign_reads, 0u);
}

// Case K: a request that can never fit does not wait, and one that fits exactly is served.
TEST(replay_small_pool, the_bound_of_what_fits_is_exact) {
  replay::options chosen;
  chosen.pages = 4;
  chosen.page_size = 16;
  const report of = run_replay(chosen, {{0, 60, 4, {}}, {0, 60, 5, {}}, {0, 1, 1, {}}});
  EXPECT_EQ(of.completed, 2u);
  EXPECT_EQ(of.rejected, 1u);
  EXPECT_EQ(of.tokens, 5u);
  EXPECT_EQ(of.pages.peak_live, 4u);
}

// Two requests that together outgrow the pool: the younger one yields, and goes on where it was.
TEST(replay_small_pool, a_preempted_request_keeps_what_it_decoded) {
  replay::options chosen;
  chosen.pages = 3;
  chosen.page_size = 16;
  const report of = run_replay(chosen, {{0, 10, 20, {}}, {0, 10, 20, {}}});
  EXPECT_EQ(of.completed, 2u);
  EXPECT_EQ(of.preempted, 1u);
  EXPECT_EQ(of.tokens, 40u);
}

TEST(replay_elements, all_give_the_same_report) {
  for (const char* element : {"bf16", "fp16", "fp8_e4m3", "fp8_e5m2"}) {
    replay::options chosen = with_faults(2);
    chosen.element = element;
    const report of = run_replay(chosen, requests());
    EXPECT_EQ(of.detected, each(2)) << element;
    EXPECT_EQ(of.aborted, 10u) << element;
    EXPECT_EQ(exit_status(of, true), 0) << element;
  }
}

// --- Prefix cache and window ---

// Request 1 finds the block that request 0 published.  Its last block ends with the prompt, and request 2's
// prompt ends within it: neither can be found.
TEST(replay_prefix_cache, accounts_for_every_block_seen_before) {
  replay::options chosen;
  chosen.page_size = 64;
  const report of = run_replay(
      chosen,
      {{0, 1200, 4, {7, 8, 9}}, {1000, 1024, 4, {7, 8}}, {2000, 1100, 4, {7, 8, 9}}, {3000, 600, 4, {1, 2}}});
  EXPECT_EQ(of.prefix.prompt_tokens, 3924u);
  EXPECT_EQ(of.prefix.blocks, 10u);
  EXPECT_EQ(of.prefix.blocks_seen, 5u);
  EXPECT_EQ(of.prefix.blocks_found, 3u);
  EXPECT_EQ(of.prefix.blocks_last, 1u);
  EXPECT_EQ(of.prefix.blocks_partial, 1u);
  EXPECT_EQ(of.prefix.blocks_missed, 0u);
  EXPECT_EQ(of.prefix.cached_tokens, 960u + 1088u);  // in pages of 64, not in blocks
  EXPECT_EQ(of.foreign_reads, 0u);
  EXPECT_TRUE(of.audit_clean) << of.audit;
}

// Two that arrive at once: the second cannot find what the first has yet to compute.
TEST(replay_prefix_cache, what_is_being_computed_is_not_found) {
  const report of = run_replay(replay::options{}, {{0, 1200, 4, {7, 8, 9}}, {0, 1200, 4, {7, 8, 9}}});
  EXPECT_EQ(of.prefix.blocks_seen, 3u);
  EXPECT_EQ(of.prefix.blocks_found, 0u);
  EXPECT_EQ(of.prefix.blocks_missed, 2u);
  EXPECT_EQ(of.prefix.blocks_partial, 1u);
}

TEST(replay_prefix_cache, is_evicted_for_new_requests_and_survives_preemption) {
  replay::options chosen = with_faults(0);
  chosen.pages = 600;
  const report of = run_replay(chosen, requests());
  expect_accounts_to_add_up(of);
  EXPECT_GT(of.prefix.cached_tokens, 0u);
  EXPECT_GT(of.prefix.evicted_pages, 0u);
  EXPECT_GT(of.preempted, 0u);
  EXPECT_EQ(of.foreign_reads, 0u);
}

TEST(replay_prefix_cache, off_finds_nothing) {
  replay::options chosen = with_faults(10);
  chosen.prefix_cache = false;
  const report of = run_replay(chosen, requests());
  expect_accounts_to_add_up(of);
  EXPECT_EQ(of.prefix.cached_tokens, 0u);
  EXPECT_EQ(of.prefix.evicted_pages, 0u);
  EXPECT_GT(of.prefix.blocks_seen, 0u);
  EXPECT_EQ(of.detected, each(10));
  EXPECT_EQ(of.aborted, 50u);
}

TEST(replay_window, holds_only_what_is_attended_to) {
  replay::options chosen = with_faults(10);
  chosen.window = 1024;
  const report of = run_replay(chosen, requests());
  expect_accounts_to_add_up(of);
  EXPECT_EQ(of.detected, each(10));
  EXPECT_EQ(of.innocents_aborted, 0u);
  EXPECT_EQ(of.foreign_reads, 0u);
  replay::options all = with_faults(10);
  all.prefix_cache = false;
  EXPECT_LT(of.pages.peak_live, run_replay(all, requests()).pages.peak_live);
}

// --- The harness can fail. ---

// Finds every row in order.
struct blind_verifier {
  template <class Pool>
  kvpage::result<kvpage::verify_summary> operator()(const kvpage::decode_batch<Pool>& batch, const Pool&,
                                                    kvpage::step_number step,
                                                    std::span<kvpage::verdict> verdicts) const {
    std::ranges::fill(verdicts, kvpage::verdict{});
    return kvpage::verify_summary{.step = step, .rows = batch.rows()};
  }
};

// Reports failures one row too far.
struct misplacing_verifier {
  template <class Pool>
  kvpage::result<kvpage::verify_summary> operator()(const kvpage::decode_batch<Pool>& batch, const Pool& pool,
                                                    kvpage::step_number step,
                                                    std::span<kvpage::verdict> verdicts) const {
    const auto summary = kvpage::verify(batch, pool, step, verdicts);
    const auto rows = verdicts.first(batch.rows());
    std::rotate(rows.begin(), rows.end() - 1, rows.end());
    return summary;
  }
};

// Answers for the step before.
struct late_verifier {
  template <class Pool>
  kvpage::result<kvpage::verify_summary> operator()(const kvpage::decode_batch<Pool>& batch, const Pool& pool,
                                                    kvpage::step_number step,
                                                    std::span<kvpage::verdict> verdicts) const {
    return kvpage::verify(batch, pool, step - 1, verdicts);
  }
};

template <class Pool>
using blind = replay::host_backend<Pool, blind_verifier>;
template <class Pool>
using misplacing = replay::host_backend<Pool, misplacing_verifier>;
template <class Pool>
using late = replay::host_backend<Pool, late_verifier>;

TEST(replay_harness, a_blind_verifier_is_found_out) {
  const report of = replay::scheduler<bf16, kvpage::tagged, blind>(with_faults(10), requests()).run();
  EXPECT_EQ(of.injected[fault_kind::wrong_page], 10u);
  EXPECT_EQ(of.detected[fault_kind::wrong_page], 0u);
  EXPECT_GT(of.foreign_reads, 0u);
  EXPECT_EQ(exit_status(of, true), 1);
}

TEST(replay_harness, blaming_an_innocent_row_is_found_out) {
  replay::options chosen = with_faults(0);
  chosen.faults[fault_kind::wrong_page] = 10;
  const report of = replay::scheduler<bf16, kvpage::tagged, misplacing>(chosen, requests()).run();
  EXPECT_GT(of.innocents_aborted, 0u);
  EXPECT_GT(of.foreign_reads, 0u);
  EXPECT_EQ(exit_status(of, true), 1);
}

TEST(replay_harness, a_step_without_its_verification_is_not_run) {
  replay::scheduler<bf16, kvpage::tagged, late> unverified(with_faults(0), requests());
  EXPECT_THROW((void)unverified.run(), std::logic_error);
}

}  // namespace
