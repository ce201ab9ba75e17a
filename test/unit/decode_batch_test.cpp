#include "kvpage/decode_batch.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "../support/configurations.hpp"
#include "../support/probed_pool.hpp"

namespace {

using kvpage::errc;
using kvpage::slot_index;
using pool_type = kvpage::page_pool<kvpage::bf16, kvpage::tagged>;
using table_type = kvpage::block_table<pool_type>;
using batch_type = kvpage::decode_batch<pool_type>;
using handle = pool_type::handle;
using ids = std::vector<std::int32_t>;

constexpr std::size_t S = 16;  // tokens per page

static_assert(!std::is_copy_constructible_v<batch_type> && !std::is_move_constructible_v<batch_type>);

template <class T>
std::vector<std::remove_const_t<T>> copy_of(std::span<T> values) {
  return {values.begin(), values.end()};
}

// All that a batch holds.
struct batch_state {
  explicit batch_state(const batch_type& batch)
      : indptr{copy_of(batch.indptr())},
        indices{copy_of(batch.indices())},
        last_page_len{copy_of(batch.last_page_len())},
        seq_lens{copy_of(batch.seq_lens())},
        slot_indptr{copy_of(batch.slot_indptr())},
        slots{copy_of(batch.slots())},
        granted{copy_of(batch.granted())} {}
  friend bool operator==(const batch_state&, const batch_state&) = default;

  ids indptr, indices, last_page_len, seq_lens, slot_indptr;
  std::vector<slot_index> slots;
  std::vector<handle> granted;
};

// Arrays of the caller's, filled with what must never be read.
struct caller_memory {
  explicit caller_memory(std::size_t rows, std::size_t entries, std::size_t slot_count)
      : indptr(rows + 1, -77),
        indices(entries, -77),
        last_page_len(rows, -77),
        seq_lens(rows, -77),
        slot_indptr(rows + 1, -77),
        slots(slot_count, -77),
        granted(entries, handle{77, 77}) {}
  [[nodiscard]] batch_type::arrays view() {
    return {indptr, indices, last_page_len, seq_lens, slot_indptr, slots, granted};
  }

  ids indptr, indices, last_page_len, seq_lens, slot_indptr;
  std::vector<slot_index> slots;
  std::vector<handle> granted;
};

struct decode_batch : ::testing::Test {
  table_type make_table(std::size_t tokens) {
    table_type table{*pool};
    EXPECT_EQ(table.append(tokens), errc::ok);
    return table;
  }

  kvpage_test::probed_pool<pool_type> pool{16};
};

TEST_F(decode_batch, one_source_three_forms) {
  const table_type a = make_table(2 * S + 3);  // pages 1 2 3
  const table_type b = make_table(S);          // page 4
  batch_type batch({.rows = 4, .entries = 8, .slots = 8});
  EXPECT_EQ(batch.add(a), errc::ok);
  EXPECT_EQ(batch.add(b, 2), errc::ok);
  EXPECT_EQ(batch.add_padding(), errc::ok);
  EXPECT_EQ(batch.rows(), 3U);
  EXPECT_EQ(batch.entries(), 4U);
  EXPECT_EQ(copy_of(batch.indptr()), (ids{0, 3, 4, 4}));
  EXPECT_EQ(copy_of(batch.indices()), (ids{1, 2, 3, 4}));
  EXPECT_EQ(copy_of(batch.last_page_len()), (ids{3, 16, 0}));
  EXPECT_EQ(copy_of(batch.seq_lens()), (ids{35, 16, 0}));
  EXPECT_EQ(copy_of(batch.slot_indptr()), (ids{0, 1, 3, 4}));
  EXPECT_EQ(copy_of(batch.slots()), (std::vector<slot_index>{3 * 16 + 2, 4 * 16 + 14, 4 * 16 + 15, -1}));
  EXPECT_EQ(copy_of(batch.granted()), (std::vector<handle>{{1, 1}, {2, 1}, {3, 1}, {4, 1}}));
  ids padded(4 * 3, -77);
  EXPECT_EQ(batch.export_padded(padded, 4, 3), errc::ok);
  EXPECT_EQ(padded, (ids{1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST_F(decode_batch, an_empty_batch_is_one_without_rows) {
  batch_type batch({.rows = 1, .entries = 0, .slots = 0});
  EXPECT_EQ(copy_of(batch.indptr()), ids{0});
  EXPECT_EQ(copy_of(batch.slot_indptr()), ids{0});
  EXPECT_TRUE(batch.indices().empty() && batch.seq_lens().empty() && batch.slots().empty());
  EXPECT_EQ(batch.export_padded({}, 0, 5), errc::ok);
  ids padded(6, -77);
  EXPECT_EQ(batch.export_padded(padded, 2, 3), errc::ok);
  EXPECT_EQ(padded, ids(6, 0));
}

TEST_F(decode_batch, case_F_a_row_that_moves_up_keeps_nothing_of_the_one_before) {
  const table_type row0 = make_table(5 * S);  // pages 1 to 5
  const table_type row1 = make_table(2 * S);  // pages 6 and 7
  batch_type batch({.rows = 2, .entries = 10, .slots = 2});
  ids padded(2 * 5, -77);
  EXPECT_EQ(batch.add(row0), errc::ok);
  EXPECT_EQ(batch.add(row1), errc::ok);
  EXPECT_EQ(batch.export_padded(padded, 2, 5), errc::ok);
  EXPECT_EQ(padded, (ids{1, 2, 3, 4, 5, 6, 7, 0, 0, 0}));
  batch.clear();
  EXPECT_EQ(batch.add(row1), errc::ok);
  EXPECT_EQ(batch.export_padded(padded, 2, 5), errc::ok);
  EXPECT_EQ(padded, (ids{6, 7, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(copy_of(batch.indptr()), (ids{0, 2}));
  EXPECT_EQ(copy_of(batch.indices()), (ids{6, 7}));
}

TEST_F(decode_batch, export_padded_refuses_what_does_not_fit_and_writes_nothing) {
  const table_type a = make_table(1);
  const table_type b = make_table(3 * S);
  batch_type batch({.rows = 2, .entries = 8, .slots = 2});
  EXPECT_EQ(batch.add(a), errc::ok);
  EXPECT_EQ(batch.add(b), errc::ok);
  ids out(6, -77);
  const ids untouched = out;
  EXPECT_EQ(batch.export_padded(out, 1, 3), errc::batch_full);
  EXPECT_EQ(batch.export_padded(out, 0, 0), errc::batch_full);
  EXPECT_EQ(batch.export_padded(out, 2, 2), errc::row_too_long);
  EXPECT_EQ(batch.export_padded(out, 2, 0), errc::row_too_long);
  EXPECT_EQ(batch.export_padded(out, 2, 4), errc::buffer_too_small);
  EXPECT_EQ(batch.export_padded(std::span{out}.first(5), 2, 3), errc::buffer_too_small);
  EXPECT_EQ(batch.export_padded(out, 3, 3), errc::buffer_too_small);
  constexpr std::size_t huge = std::numeric_limits<std::size_t>::max() / 2 + 1;  // rows x width wraps to 0
  EXPECT_EQ(batch.export_padded(out, 2, huge), errc::buffer_too_small);
  EXPECT_EQ(batch.export_padded(out, huge, 2), errc::buffer_too_small);
  EXPECT_EQ(out, untouched);
}

TEST_F(decode_batch, export_padded_writes_rows_x_width_and_no_more) {
  const table_type a = make_table(1);
  batch_type batch({.rows = 1, .entries = 1, .slots = 1});
  EXPECT_EQ(batch.add(a), errc::ok);
  ids out(7, -77);
  EXPECT_EQ(batch.export_padded(out, 2, 3), errc::ok);
  EXPECT_EQ(out, (ids{1, 0, 0, 0, 0, 0, -77}));
}

TEST_F(decode_batch, case_K_a_full_batch_refuses_a_row_and_stays_as_it_was) {
  const table_type one = make_table(S);
  const table_type two = make_table(2 * S);
  batch_type batch({.rows = 2, .entries = 2, .slots = 2});
  EXPECT_EQ(batch.add(one), errc::ok);
  const batch_state before{batch};
  EXPECT_EQ(batch.add(two), errc::batch_full);     // entries
  EXPECT_EQ(batch.add(one, 2), errc::batch_full);  // slots
  EXPECT_EQ(batch.add_padding(2), errc::batch_full);
  EXPECT_EQ(batch.add_padding(~std::size_t{0}), errc::batch_full);
  EXPECT_EQ(batch.add(one, ~std::size_t{0}), errc::batch_full);
  EXPECT_EQ(batch_state{batch}, before);
  EXPECT_EQ(batch.add(one), errc::ok);
  const batch_state full{batch};
  EXPECT_EQ(batch.add(table_type{*pool}, 0), errc::batch_full);  // rows
  EXPECT_EQ(batch.add_padding(0), errc::batch_full);
  EXPECT_EQ(batch_state{batch}, full);
}

TEST_F(decode_batch, case_F_more_new_tokens_than_the_row_holds_are_refused) {
  table_type table = make_table(2 * S);
  batch_type batch({.rows = 2, .entries = 4, .slots = 64});
  const batch_state before{batch};
  EXPECT_EQ(batch.add(table, 2 * S + 1), errc::outside_row);
  EXPECT_EQ(batch.add(table_type{*pool}), errc::outside_row);
  EXPECT_EQ(table.drop_front(1), errc::ok);
  EXPECT_EQ(batch.add(table, S + 1), errc::outside_row);  // would write into the dropped front
  EXPECT_EQ(batch_state{batch}, before);
  EXPECT_EQ(batch.add(table, S), errc::ok);
  EXPECT_EQ(batch.slots().size(), S);
}

TEST_F(decode_batch, a_sliding_window_row_reads_the_null_page_in_front) {
  table_type table = make_table(3 * S);
  EXPECT_EQ(table.drop_front(2), errc::ok);
  batch_type batch({.rows = 1, .entries = 4, .slots = 1});
  EXPECT_EQ(batch.add(table), errc::ok);
  EXPECT_EQ(copy_of(batch.indices()), (ids{0, 0, 3}));
  EXPECT_EQ(copy_of(batch.seq_lens()), ids{48});
}

TEST_F(decode_batch, case_G_padding_rows_read_and_write_nothing) {
  const table_type a = make_table(2);
  batch_type batch({.rows = 4, .entries = 4, .slots = 8});
  EXPECT_EQ(batch.add(a), errc::ok);
  EXPECT_EQ(batch.add_padding(3), errc::ok);
  EXPECT_EQ(batch.add_padding(0), errc::ok);
  EXPECT_EQ(copy_of(batch.indptr()), (ids{0, 1, 1, 1}));
  EXPECT_EQ(copy_of(batch.seq_lens()), (ids{2, 0, 0}));
  EXPECT_EQ(copy_of(batch.slots()), (std::vector<slot_index>{17, -1, -1, -1}));
}

TEST_F(decode_batch, case_N_a_cut_off_row_is_harmless_and_the_others_are_identical) {
  std::vector<table_type> tables;
  for (const std::size_t tokens : {S + 1, 3 * S, 2 * S, std::size_t{1}}) tables.push_back(make_table(tokens));
  batch_type batch({.rows = 4, .entries = 16, .slots = 8});
  for (const table_type& table : tables) EXPECT_EQ(batch.add(table, 1), errc::ok);
  const batch_state before{batch};
  ids padded_before(4 * 4), padded(4 * 4);
  EXPECT_EQ(batch.export_padded(padded_before, 4, 4), errc::ok);
  batch.cut_off(2);
  const batch_state after{batch};
  batch_state expected = before;
  expected.indices[5] = expected.indices[6] = 0;
  expected.seq_lens[2] = 0;
  expected.slots[2] = -1;
  EXPECT_EQ(after, expected);  // indptr and last_page_len included
  EXPECT_EQ(batch.export_padded(padded, 4, 4), errc::ok);
  for (std::size_t i = 0; i < padded.size(); ++i) EXPECT_EQ(padded[i], i / 4 == 2 ? 0 : padded_before[i]);
  batch.cut_off(2);
  EXPECT_EQ(batch_state{batch}, expected);
}

TEST_F(decode_batch, callers_memory_is_filled_in_place) {
  caller_memory memory{2, 4, 2};
  const table_type a = make_table(S + 1);
  batch_type batch{memory.view()};
  EXPECT_EQ(batch.add(a), errc::ok);
  EXPECT_EQ(memory.indptr, (ids{0, 2, -77}));
  EXPECT_EQ(memory.indices, (ids{1, 2, -77, -77}));
  EXPECT_EQ(memory.seq_lens, (ids{17, -77}));
  EXPECT_EQ(memory.granted[1], (handle{2, 1}));
  EXPECT_EQ(batch.indices().data(), memory.indices.data());
}

TEST_F(decode_batch, callers_arrays_that_are_too_short_are_refused) {
  caller_memory memory{3, 4, 2};
  const auto shortened = [&](auto array) {
    auto arrays = memory.view();
    arrays.*array = (arrays.*array).first((arrays.*array).size() - 1);
    return arrays;
  };
  using arrays = batch_type::arrays;
  EXPECT_THROW(batch_type{shortened(&arrays::indptr)}, std::invalid_argument);
  EXPECT_THROW(batch_type{shortened(&arrays::slot_indptr)}, std::invalid_argument);
  EXPECT_THROW(batch_type{shortened(&arrays::last_page_len)}, std::invalid_argument);
  EXPECT_THROW(batch_type{shortened(&arrays::granted)}, std::invalid_argument);
  EXPECT_NO_THROW(batch_type{shortened(&arrays::seq_lens)});  // fewer rows
  EXPECT_NO_THROW(batch_type{shortened(&arrays::indices)});   // fewer entries
  EXPECT_THROW(batch_type{arrays{}}, std::invalid_argument);
}

TEST_F(decode_batch, case_M_untagged_needs_no_array_of_handles) {
  using off_pool = kvpage::page_pool<kvpage::bf16, kvpage::untagged>;
  caller_memory memory{3, 4, 2};
  kvpage::decode_batch<off_pool> batch{kvpage::decode_batch<off_pool>::arrays{memory.indptr,
                                                                              memory.indices,
                                                                              memory.last_page_len,
                                                                              memory.seq_lens,
                                                                              memory.slot_indptr,
                                                                              memory.slots,
                                                                              {}}};
  kvpage_test::probed_pool<off_pool> off{4};
  kvpage::block_table<off_pool> table{*off};
  EXPECT_EQ(table.append(S + 1), errc::ok);
  EXPECT_EQ(batch.add(table), errc::ok);
  EXPECT_EQ(memory.indices, (ids{1, 2, -77, -77}));
}

TEST(decode_batch_limits, are_refused_by_value_and_bound_before_memory_is_taken) {
  constexpr std::size_t too_many = std::size_t{1} << 31;
  const auto refusal = [](const kvpage::batch_limits& limits) -> std::string {
    try {
      const batch_type batch{limits};
    } catch (const std::invalid_argument& refused) {
      return refused.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal({.rows = 0, .entries = 1, .slots = 1}),
            "decode_batch: rows is 0; it must be between 1 and 2147483646");
  EXPECT_NE(refusal({.rows = too_many, .entries = 1, .slots = 1}), "accepted");
  EXPECT_EQ(refusal({.rows = 1, .entries = too_many, .slots = 1}),
            "decode_batch: entries is 2147483648; it must be between 0 and 2147483647");
  EXPECT_NE(refusal({.rows = 1, .entries = ~std::size_t{0}, .slots = 1}), "accepted");
  EXPECT_NE(refusal({.rows = 1, .entries = 1, .slots = ~std::size_t{0}}), "accepted");
}

}  // namespace
