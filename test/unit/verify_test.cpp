#include "kvpage/verify.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "../support/configurations.hpp"
#include "../support/probed_pool.hpp"

namespace {

using kvpage::errc;
using kvpage::row_state;
using kvpage::verdict;
using kvpage::verify_summary;

constexpr std::size_t S = 16;  // tokens per page

// A step's rows in arrays of the test's own, where any of them can be corrupted after the fact.
template <class Policy>
struct step {
  using pool_type = kvpage::page_pool<kvpage::fp8_e5m2, Policy>;
  using table_type = kvpage::block_table<pool_type>;
  using batch_type = kvpage::decode_batch<pool_type>;
  using handle = typename pool_type::handle;

  explicit step(const std::vector<std::size_t>& row_tokens) {
    for (const std::size_t tokens : row_tokens) {
      tables.emplace_back(*pool);
      EXPECT_EQ(tables.back().append(tokens), errc::ok);
      EXPECT_EQ(batch.add(tables.back(), 0), errc::ok);
    }
  }

  std::vector<verdict> verify() {
    std::vector<verdict> verdicts(batch.rows());
    const auto summary = kvpage::verify(batch, *pool, 7, std::span{verdicts});
    EXPECT_TRUE(summary);
    std::uint64_t failed = 0;
    for (const verdict& found : verdicts) failed += found.state != row_state::ok;
    EXPECT_EQ(summary.value(), (verify_summary{7, batch.rows(), batch.entries(), failed}));
    return verdicts;
  }

  // Exactly row `row` fails, with this verdict.
  void expect_only(std::size_t row, const verdict& expected) {
    std::vector<verdict> all(batch.rows());
    all[row] = expected;
    const auto found = verify();
    for (std::size_t r = 0; r < found.size(); ++r) {
      EXPECT_EQ(found[r].state, all[r].state) << "row " << r;
      EXPECT_EQ(found[r], all[r]) << "row " << r;
    }
  }

  kvpage_test::probed_pool<pool_type> pool{32};
  std::vector<std::int32_t> indptr = std::vector<std::int32_t>(9), indices = std::vector<std::int32_t>(64),
                            last_page_len = std::vector<std::int32_t>(8),
                            seq_lens = std::vector<std::int32_t>(8),
                            slot_indptr = std::vector<std::int32_t>(9);
  std::vector<handle> granted = std::vector<handle>(64);
  batch_type batch{
      typename batch_type::arrays{indptr, indices, last_page_len, seq_lens, slot_indptr, {}, granted}};
  std::vector<table_type> tables;
};

template <class Policy>
struct verify : ::testing::Test {};

using tagged_policies = ::testing::Types<kvpage::tagged, kvpage_test::tagged8, kvpage_test::tagged2>;
TYPED_TEST_SUITE(verify, tagged_policies, );

TYPED_TEST(verify, rows_that_read_their_own_pages_pass) {
  step<TypeParam> s{{1, S, 3 * S + 1, 0}};
  EXPECT_EQ(s.batch.add_padding(), errc::batch_full);  // this batch takes no slots
  EXPECT_EQ(s.batch.add_padding(0), errc::ok);
  EXPECT_EQ(s.verify(), std::vector<verdict>(5));
}

TYPED_TEST(verify, no_rows_are_no_failure) {
  step<TypeParam> s{{}};
  EXPECT_TRUE(s.verify().empty());
}

// Two pools of one type may well hold the same ids and tags: only the pool itself tells them apart.
TYPED_TEST(verify, another_pool_of_the_same_type_is_a_programming_error) {
  step<TypeParam> s{{S}}, other{{S}};
  ASSERT_EQ(s.tables[0].handles()[0], other.tables[0].handles()[0]);
  EXPECT_TRUE(s.batch.is_of(*s.pool));
  EXPECT_FALSE(s.batch.is_of(*other.pool));
  std::vector<verdict> verdicts(1);
  EXPECT_DEATH((void)kvpage::verify(s.batch, *other.pool, 1, std::span{verdicts}), "");
  EXPECT_DEATH((void)s.batch.add(other.tables[0], 0), "");
  s.batch.clear();
  EXPECT_EQ(s.batch.add(other.tables[0], 0), errc::ok);
  EXPECT_TRUE(s.batch.is_of(*other.pool));
}

TYPED_TEST(verify, case_N_a_page_given_up_is_found_before_it_is_reused) {
  step<TypeParam> s{{S, 2 * S, S}};
  const auto kept = s.granted[2];
  EXPECT_EQ(s.pool->release({&kept, 1}), errc::ok);
  s.expect_only(1, {.state = row_state::stale_page,
                    .position = 1,
                    .page = static_cast<std::int32_t>(kept.id()),
                    .granted_page = kept.id(),
                    .expected_tag = kept.tag(),
                    .found_tag = kept.tag() + 1});
}

TYPED_TEST(verify, case_N_row_2_of_4_is_stale_and_cleaning_it_up_leaves_the_new_owner_alone) {
  step<TypeParam> s{{S, 2 * S, 2 * S, S}};
  const auto lost = s.tables[2].handles()[0];
  EXPECT_EQ(s.pool->release({&lost, 1}), errc::ok);
  const auto owner = s.pool.grant(1)[0];
  ASSERT_EQ(owner.id(), lost.id());
  s.expect_only(2, {.state = row_state::stale_page,
                    .position = 0,
                    .page = static_cast<std::int32_t>(lost.id()),
                    .granted_page = lost.id(),
                    .expected_tag = lost.tag(),
                    .found_tag = owner.tag()});
  const auto indices = s.indices;
  const auto seq_lens = s.seq_lens;
  s.batch.cut_off(2);
  for (std::size_t i = 0; i < s.batch.entries(); ++i)
    EXPECT_EQ(s.indices[i], i == 3 || i == 4 ? 0 : indices[i]);
  for (std::size_t row = 0; row < 4; ++row) EXPECT_EQ(s.seq_lens[row], row == 2 ? 0 : seq_lens[row]);
  EXPECT_EQ(s.tables[2].abandon(), 1U);
  EXPECT_EQ(s.pool->references(lost.id()), 1U);
  EXPECT_EQ(s.pool->check(owner), errc::ok);
}

TYPED_TEST(verify, case_N_a_page_out_of_generations_is_stale_for_every_old_handle) {
  if constexpr (TypeParam::last_live_tag == 3) {
    step<TypeParam> s{{S}};
    const auto first = s.granted[0];
    EXPECT_EQ(s.tables[0].release(), errc::ok);
    const auto last = s.pool.grant(1)[0];
    ASSERT_EQ(last.id(), first.id());
    EXPECT_EQ(s.pool->release({&last, 1}), errc::ok);
    EXPECT_EQ(s.pool->state(first.id()), kvpage::page_state::retired);
    EXPECT_EQ(s.verify()[0].state, row_state::stale_page);
    for (const kvpage::page_tag tag : {0U, 1U, 2U, 3U}) {
      s.granted[0] = {first.id(), tag};
      EXPECT_EQ(s.verify()[0].state, row_state::stale_page) << "tag " << tag;
    }
  }
}

TYPED_TEST(verify, an_id_outside_the_pool_is_bad_and_not_looked_up) {
  for (const std::int32_t id :
       {33, 34, -1, std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min()}) {
    step<TypeParam> s{{S, 3 * S, S}};
    s.indices[2] = id;
    s.expect_only(1, {.state = row_state::bad_page,
                      .position = 1,
                      .page = id,
                      .granted_page = s.granted[2].id(),
                      .expected_tag = s.granted[2].tag()});
  }
}

TYPED_TEST(verify, an_id_swapped_for_another_live_page_of_the_same_tag_is_found) {
  step<TypeParam> s{{S, 3 * S, S}};
  s.indices[2] = s.indices[0];
  ASSERT_EQ(s.granted[2].tag(), s.granted[0].tag());
  s.expect_only(1, {.state = row_state::stale_page,
                    .position = 1,
                    .page = s.indices[0],
                    .granted_page = s.granted[2].id(),
                    .expected_tag = 1,
                    .found_tag = 1});
}

TYPED_TEST(verify, two_pages_of_one_row_that_changed_places_are_found) {
  step<TypeParam> s{{3 * S}};
  std::swap(s.indices[0], s.indices[2]);
  EXPECT_EQ(s.verify()[0].state, row_state::stale_page);
  EXPECT_EQ(s.verify()[0].position, 0U);
}

TYPED_TEST(verify, an_id_that_became_the_null_page_is_found) {
  step<TypeParam> s{{S, 2 * S}};
  s.indices[1] = 0;
  s.expect_only(1, {.state = row_state::stale_page,
                    .position = 0,
                    .page = 0,
                    .granted_page = s.granted[1].id(),
                    .expected_tag = 1,
                    .found_tag = 0});
}

TYPED_TEST(verify, an_expectation_that_was_never_a_grant_does_not_hold) {
  step<TypeParam> s{{S}};
  const auto free_page = static_cast<kvpage::page_id>(20);
  s.indices[0] = 20;
  s.granted[0] = {free_page, s.pool->tag(free_page)};  // equal, but even: a free page's
  EXPECT_EQ(s.verify()[0].state, row_state::stale_page);
  s.indices[0] = 0;
  s.granted[0] = {0, 1};
  EXPECT_EQ(s.verify()[0].state, row_state::stale_page);
  s.granted[0] = {};  // the null page's pair is valid
  EXPECT_EQ(s.verify()[0].state, row_state::ok);
}

TYPED_TEST(verify, a_row_longer_than_its_pages_is_short) {
  step<TypeParam> s{{S, 2 * S, 0}};
  s.seq_lens[1] = 2 * S + 1;
  s.expect_only(1, {.state = row_state::short_row, .position = 2});
  s.seq_lens[1] = std::numeric_limits<std::int32_t>::max();
  s.expect_only(1, {.state = row_state::short_row, .position = 2});
  s.seq_lens[1] = -1;  // an unsigned length to those who read it so
  s.expect_only(1, {.state = row_state::short_row, .position = 2});
  s.seq_lens[1] = 2 * S;
  s.seq_lens[2] = 1;
  s.expect_only(2, {.state = row_state::short_row, .position = 0});
}

TYPED_TEST(verify, a_wrong_page_counts_before_a_short_row) {
  step<TypeParam> s{{2 * S}};
  s.seq_lens[0] = 3 * S;
  s.indices[1] = 99;
  EXPECT_EQ(s.verify()[0].state, row_state::bad_page);
}

TYPED_TEST(verify, every_entry_counts_even_past_the_rows_length) {
  step<TypeParam> s{{4 * S}};
  s.seq_lens[0] = 1;
  s.indices[3] = 32;
  EXPECT_EQ(s.verify()[0].position, 3U);
}

TYPED_TEST(verify, rows_do_not_influence_each_other) {
  for (unsigned broken = 0; broken < 32; ++broken) {  // every subset of five rows
    step<TypeParam> s{{S, 2 * S, 3 * S, 1, 2 * S + 1}};
    for (std::size_t row = 0; row < 5; ++row) {
      if ((broken >> row & 1) != 0) s.indices[static_cast<std::size_t>(s.indptr[row + 1]) - 1] = -5;
    }
    const auto found = s.verify();
    for (std::size_t row = 0; row < 5; ++row)
      EXPECT_EQ(found[row].state, (broken >> row & 1) != 0 ? row_state::bad_page : row_state::ok);
  }
}

TYPED_TEST(verify, pages_dropped_in_front_pass_as_the_null_page) {
  step<TypeParam> s{{}};
  s.tables.emplace_back(*s.pool);
  EXPECT_EQ(s.tables[0].append(3 * S), errc::ok);
  EXPECT_EQ(s.tables[0].drop_front(2), errc::ok);
  EXPECT_EQ(s.batch.add(s.tables[0], 0), errc::ok);
  EXPECT_EQ(s.verify()[0], verdict{});
  s.indices[0] = 1;  // but they may not come back
  EXPECT_EQ(s.verify()[0].state, row_state::stale_page);
}

TYPED_TEST(verify, pages_that_are_shared_published_or_cut_off_by_truncation) {
  step<TypeParam> s{{2 * S}};
  const auto page = s.granted[0];
  EXPECT_EQ(s.pool->retain({&page, 1}), errc::ok);
  EXPECT_EQ(s.pool->publish(page), errc::ok);
  EXPECT_EQ(s.verify()[0], verdict{});
  EXPECT_EQ(s.pool->release({&page, 1}), errc::ok);
  EXPECT_EQ(s.verify()[0], verdict{});
  EXPECT_EQ(s.tables[0].truncate(S), errc::ok);  // the batch was exported before
  EXPECT_EQ(s.verify()[0].position, 1U);
}

TYPED_TEST(verify, too_few_verdicts_and_nothing_is_verified) {
  step<TypeParam> s{{S, S}};
  std::vector<verdict> verdicts(1, verdict{.position = 77});
  EXPECT_EQ(kvpage::verify(s.batch, *s.pool, 7, std::span{verdicts}).error(), errc::buffer_too_small);
  EXPECT_EQ(verdicts[0].position, 77U);
  std::vector<verdict> more(3, verdict{.position = 77});
  EXPECT_TRUE(kvpage::verify(s.batch, *s.pool, 7, std::span{more}));
  EXPECT_EQ(more[1], verdict{});
  EXPECT_EQ(more[2].position, 77U);
}

// Whether a page that was released and granted again shows, once `rebuild` has had its way with the batch.
template <class Policy>
bool stale_row_is_found(const std::function<void(step<Policy>&)>& rebuild) {
  step<Policy> s{{S}};
  EXPECT_EQ(s.tables[0].release(), errc::ok);
  (void)s.pool.grant(1);
  rebuild(s);
  return s.verify()[0].state == row_state::stale_page;
}

// The mutant that this library exists to avoid: expectations read back from live state always match.
TYPED_TEST(verify, case_N_expectations_are_those_of_the_grant_as_rebuilt_ones_would_always_match) {
  EXPECT_TRUE(stale_row_is_found<TypeParam>([](step<TypeParam>&) {}));
  EXPECT_FALSE(stale_row_is_found<TypeParam>([](step<TypeParam>& s) {
    const auto id = static_cast<kvpage::page_id>(s.indices[0]);
    s.granted[0] = {id, s.pool->tag(id)};
  }));
}

TYPED_TEST(verify, case_N_a_batch_takes_its_expectations_from_the_table_not_from_the_pool) {
  step<TypeParam> s{{S}};
  const auto kept = s.tables[0].handles()[0];
  EXPECT_EQ(s.pool->release({&kept, 1}), errc::ok);
  (void)s.pool.grant(1);
  s.batch.clear();
  EXPECT_EQ(s.batch.add(s.tables[0], 0), errc::ok);  // the next step, with the same stale table
  EXPECT_EQ(s.granted[0], kept);
  EXPECT_EQ(s.verify()[0].state, row_state::stale_page);
}

TEST(verify_untagged, case_M_does_nothing_and_says_so) {
  step<kvpage::untagged> s{{S, 2 * S}};
  s.indices[0] = -1;
  std::vector<verdict> verdicts(2, verdict{.position = 77});
  EXPECT_EQ(kvpage::verify(s.batch, *s.pool, 7, std::span{verdicts}).value(), (verify_summary{.step = 7}));
  EXPECT_EQ(verdicts[0].position, 77U);
  EXPECT_TRUE(kvpage::verify(s.batch, *s.pool, 7, {}));
}

}  // namespace
