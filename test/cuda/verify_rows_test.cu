// The verifier's kernel against the host verifier, on tables that no block table would produce.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <kvpage/cuda/verifier.cuh>
#include <kvpage/verify.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "device_memory.cuh"

namespace {

using kvpage::null_page;
using kvpage::page_id;
using kvpage::page_tag;
using kvpage::row_state;
using kvpage::verdict;
using kvpage::cuda::batch_row;
using kvpage::cuda::cut_off;

using pool_type = kvpage::page_pool<kvpage::fp8_e4m3, kvpage::tagged>;
using handle_type = pool_type::handle;

constexpr std::uint32_t tokens_per_page = 16;

// What the host verifier asks of a pool.
struct tag_table {
  using handle = handle_type;

  std::vector<page_tag> tags;

  [[nodiscard]] std::size_t size() const { return tags.size(); }
  [[nodiscard]] page_tag tag(page_id page) const { return tags[page]; }
  void prefetch(page_id) const {}
  [[nodiscard]] std::uint32_t tokens_per_page() const { return ::tokens_per_page; }
};

struct test_row {
  std::vector<std::int32_t> ids;
  std::vector<handle_type> granted;
  std::uint32_t tokens = 0;
  std::uint32_t new_tokens = 0;
};

struct limits {
  std::uint32_t rows;
  std::uint32_t entries;  // over all rows
  std::uint32_t slots;
  std::uint32_t width;  // of the padded form; 0: none
};

// An engine's own tables and a verifier for them.
class harness {
 public:
  harness(const limits& most, const tag_table& table, cut_off cut = cut_off::null_pages_and_length)
      : most_{most},
        table_{table},
        cut_{cut},
        d_tags_(table.size()),
        d_ids_(most.entries),
        d_granted_(most.entries),
        d_rows_(most.rows),
        d_step_(1),
        d_seq_lens_(most.rows),
        d_slots_(most.slots),
        d_indices_(most.entries),
        d_padded_(std::size_t{most.rows} * most.width),
        begun_(nullptr) {
    EXPECT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    void* begun = nullptr;
    EXPECT_CUDA(cudaHostAlloc(&begun, sizeof(kvpage::step_number), cudaHostAllocMapped));
    begun_ = new (begun) kvpage::step_number{0};
    write_sync(d_tags_.data(), table.tags, stream_);
    verifier_.emplace(batch(), *begun_, kvpage::cuda::verifier_options{.cut = cut, .verdict_slots = 2});
  }
  ~harness() {
    verifier_.reset();
    EXPECT_CUDA(cudaFreeHost(begun_));
    EXPECT_CUDA(cudaStreamDestroy(stream_));
  }
  harness(const harness&) = delete;
  harness& operator=(const harness&) = delete;

  [[nodiscard]] kvpage::step_number step() const { return *begun_; }
  [[nodiscard]] const kvpage::cuda::verdict_ring& verdicts() const { return verifier_->verdicts(); }
  cudaError_t enqueue() { return verifier_->enqueue(stream_); }

  // Puts the rows into the source arrays and marks every export as not written.
  void load(const std::vector<test_row>& rows) {
    rows_ = rows;
    std::vector<batch_row> batch;
    std::vector<std::int32_t> ids;
    std::vector<handle_type> granted;
    std::uint32_t slots = 0;
    kvpage::cuda::step_info step{
        .step = ++*begun_, .is_staged = 1, .rows = static_cast<std::uint32_t>(rows.size())};
    for (const test_row& row : rows) {
      const auto pages = static_cast<std::uint32_t>(row.ids.size());
      batch.push_back({.first_entry = ids.size(),
                       .pages = pages,
                       .tokens = row.tokens,
                       .new_tokens = row.new_tokens,
                       .chunks_before = step.chunks,
                       .pages_before = step.entries,
                       .slots_before = slots});
      ids.insert(ids.end(), row.ids.begin(), row.ids.end());
      granted.insert(granted.end(), row.granted.begin(), row.granted.end());
      step.entries += pages;
      slots += row.new_tokens;
      step.chunks += kvpage::cuda::chunks_for(pages);
    }
    write_sync(d_rows_.data(), batch, stream_);
    write_sync(d_ids_.data(), ids, stream_);
    write_sync(d_granted_.data(), granted, stream_);
    write_sync(d_step_.data(), std::vector{step}, stream_);
    for (auto& [d_data, size] : exports())
      EXPECT_CUDA(cudaMemsetAsync(d_data, untouched_byte, size, stream_));
  }

  // As a stray write would: what the verifier is about to read is not what was loaded.
  void overwrite_pages(std::uint32_t row, std::uint32_t pages) {
    auto rows = read_sync(d_rows_.data(), row + 1, stream_);
    rows[row].pages = pages;
    write_sync(d_rows_.data(), rows, stream_);
  }

  // Compares the step's verdicts and every export with what the host verifier says.
  void check() {
    EXPECT_CUDA(cudaStreamSynchronize(stream_));
    const auto seq_lens = read_sync(d_seq_lens_.data(), d_seq_lens_.size(), stream_);
    const auto slots = read_sync(d_slots_.data(), d_slots_.size(), stream_);
    const auto indices = read_sync(d_indices_.data(), d_indices_.size(), stream_);
    const auto padded = read_sync(d_padded_.data(), d_padded_.size(), stream_);

    std::vector<std::int32_t> want_seq_lens, want_indices, want_padded(padded.size(), untouched_id);
    std::vector<kvpage::slot_index> want_slots;
    std::vector<verdict> want;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const test_row& row = rows_[r];
      want.push_back(
          kvpage::detail::verify_row(table_, row.ids, row.granted, static_cast<std::int32_t>(row.tokens)));
      // Where only the padded form is too narrow, the host's export refuses the row: row_too_long.
      if (most_.width != 0 && want.back().state == row_state::ok &&
          kvpage::pages_for(row.tokens, tokens_per_page) > most_.width)
        want.back() = {.state = row_state::short_row, .position = most_.width};
      const bool passed = want.back().state == row_state::ok;
      want_seq_lens.push_back(passed || cut_ == cut_off::null_pages ? static_cast<std::int32_t>(row.tokens)
                                                                    : 0);
      for (std::size_t i = 0; i < row.ids.size(); ++i) {
        want_indices.push_back(passed ? row.ids[i] : 0);
        if (i < most_.width) want_padded[r * most_.width + i] = want_indices.back();
      }
      for (std::uint32_t position = row.tokens - row.new_tokens; position < row.tokens; ++position) {
        const std::int32_t page = passed ? row.ids[position / tokens_per_page] : 0;
        want_slots.push_back(page == 0
                                 ? kvpage::skipped_slot
                                 : kvpage::slot_index{page} * tokens_per_page + position % tokens_per_page);
      }
    }
    want_seq_lens.resize(seq_lens.size(), untouched_id);
    want_indices.resize(indices.size(), untouched_id);
    want_slots.resize(slots.size(), untouched_slot);
    EXPECT_EQ(seq_lens, want_seq_lens);
    EXPECT_EQ(slots, want_slots);
    EXPECT_EQ(indices, want_indices);
    EXPECT_EQ(padded, want_padded);

    const auto found = verifier_->verdicts().poll(step());
    ASSERT_EQ(found.state, kvpage::cuda::poll_state::verified);
    std::vector<verdict> got(rows_.size());
    for (const auto& failed : found.failed) got.at(failed.row) = failed.finding;
    EXPECT_EQ(got, want);
    const auto failed = static_cast<std::uint64_t>(
        std::ranges::count_if(want, [](const verdict& v) { return v.state != row_state::ok; }));
    std::size_t entries = 0;
    for (const test_row& row : rows_) entries += row.ids.size();
    EXPECT_EQ(found.summary, (kvpage::verify_summary{step(), rows_.size(), entries, failed}));
  }

  void run(const std::vector<test_row>& rows) {
    load(rows);
    EXPECT_CUDA(enqueue());
    check();
  }

 private:
  static constexpr int untouched_byte = 0x5a;
  static constexpr std::int32_t untouched_id = 0x5a5a5a5a;
  static constexpr kvpage::slot_index untouched_slot = 0x5a5a5a5a5a5a5a5a;

  [[nodiscard]] std::vector<std::pair<void*, std::size_t>> exports() const {
    return {{d_seq_lens_.data(), d_seq_lens_.size() * sizeof(std::int32_t)},
            {d_slots_.data(), d_slots_.size() * sizeof(kvpage::slot_index)},
            {d_indices_.data(), d_indices_.size() * sizeof(std::int32_t)},
            {d_padded_.data(), d_padded_.size() * sizeof(std::int32_t)}};
  }

  [[nodiscard]] kvpage::cuda::device_batch<handle_type> batch() const {
    kvpage::cuda::device_batch<handle_type> batch;
    batch.d_tags = d_tags_.data();
    batch.d_ids = d_ids_.data();
    batch.d_granted = d_granted_.data();
    batch.d_rows = d_rows_.data();
    batch.d_step = d_step_.data();
    batch.out.d_seq_lens = d_seq_lens_.data();
    batch.out.d_slots = d_slots_.data();
    batch.out.d_indices = d_indices_.data();
    batch.out.d_padded = most_.width == 0 ? nullptr : d_padded_.data();
    batch.out.padded_width = most_.width;
    batch.pool_pages = static_cast<std::uint32_t>(table_.size());
    batch.tokens_per_page = tokens_per_page;
    batch.max_rows = most_.rows;
    batch.max_chunks = most_.rows + most_.entries / kvpage::cuda::pages_per_chunk;
    return batch;
  }

  limits most_;
  tag_table table_;
  cut_off cut_;
  cudaStream_t stream_ = nullptr;
  device_array<page_tag> d_tags_;
  device_array<std::int32_t> d_ids_;
  device_array<handle_type> d_granted_;
  device_array<batch_row> d_rows_;
  device_array<kvpage::cuda::step_info> d_step_;
  device_array<std::int32_t> d_seq_lens_;
  device_array<kvpage::slot_index> d_slots_;
  device_array<std::int32_t> d_indices_;
  device_array<std::int32_t> d_padded_;
  kvpage::step_number* begun_;
  std::optional<kvpage::cuda::verifier<pool_type>> verifier_;
  std::vector<test_row> rows_;
};

// Tags of `pages` pages, some of them free.
tag_table random_tags(std::size_t pages, dice& random) {
  tag_table table{{0, 2}};
  while (table.tags.size() < pages) table.tags.push_back(random() % 7);
  return table;
}

// A row that passes: pages with a live tag, and now and then a null page, as a sliding window leaves it.
test_row sound_row(const tag_table& table, std::size_t pages, dice& random) {
  test_row row;
  while (row.ids.size() < pages) {
    const auto page = static_cast<page_id>(random() % table.size());
    if (page != null_page && table.tag(page) % 2 == 0) continue;
    row.ids.push_back(static_cast<std::int32_t>(page));
    row.granted.emplace_back(page, table.tag(page));
  }
  if (pages != 0)
    row.tokens = static_cast<std::uint32_t>((pages - 1) * tokens_per_page + 1 + random() % tokens_per_page);
  row.new_tokens = (std::min)(row.tokens, static_cast<std::uint32_t>(random() % 3));
  return row;
}

bool is_free(page_tag tag) { return tag % 2 == 0; }

// Something goes wrong with one entry of a row, or with its length.
void corrupt(test_row& row, const tag_table& table, dice& random) {
  const auto size = static_cast<std::int32_t>(table.size());
  if (row.ids.empty() || random() % 8 == 0) {
    row.tokens += tokens_per_page * (1 + random() % 3);
    return;
  }
  const std::size_t at = random() % 3 == 0 ? row.ids.size() - 1 : random() % row.ids.size();
  std::int32_t& id = row.ids[at];
  handle_type& granted = row.granted[at];
  switch (random() % 10) {
    case 0: id = 0x7fff'ffff; break;
    case 1: id = -1; break;
    case 2: id = size; break;
    case 3: id = 0; break;
    case 4: id = static_cast<std::int32_t>(random() % table.size()); break;
    case 5: granted = {granted.id(), granted.tag() + 1}; break;
    case 6: granted = {granted.id(), granted.tag() ^ 0x8000'0000}; break;
    case 7: granted = {}; break;
    case 8: granted = {static_cast<page_id>(size), 1}, id = size; break;
    case 9:  // a free page, "granted" with the tag it has
      id = static_cast<std::int32_t>(std::ranges::find_if(table.tags.begin() + 1, table.tags.end(), is_free) -
                                     table.tags.begin());
      granted = {static_cast<page_id>(id), table.tag(static_cast<page_id>(id))};
      break;
  }
}

std::uint32_t rounds(std::uint32_t emulated) { return is_emulated() ? emulated : 100 * emulated; }

}  // namespace

TEST(verify_rows, random_batches_with_random_corruptions_get_the_host_verifiers_verdicts) {
  dice random(test_seed());
  const tag_table table = random_tags(200, random);
  harness device({.rows = 9, .entries = 9 * 40, .slots = 32, .width = 40}, table);
  for (std::uint32_t round = 0; round < rounds(150); ++round) {
    std::vector<test_row> rows;
    for (std::size_t count = random() % 10; rows.size() < count;) {
      rows.push_back(sound_row(table, random() % 5 == 0 ? 0 : random() % 41, random));
      if (random() % 3 == 0) corrupt(rows.back(), table, random);
    }
    device.run(rows);
    if (HasFailure()) FAIL() << "in round " << round;
  }
}

TEST(verify_rows, the_first_bad_position_is_found_across_chunks) {
  dice random(1);
  const tag_table table = random_tags(50, random);
  constexpr std::uint32_t chunk = kvpage::cuda::pages_per_chunk;
  harness device({.rows = 4, .entries = 4 * chunk, .slots = 8, .width = 0}, table);
  const test_row sound = sound_row(table, 2 * chunk + 5, random);
  for (const std::size_t position : {0u, chunk - 1, chunk, 2 * chunk - 1, 2 * chunk, 2 * chunk + 4}) {
    test_row row = sound;
    row.ids[position] = 0x7fff'ffff;
    row.ids.back() = -1;
    device.run({sound_row(table, 3, random), row, sound_row(table, 5, random)});
    if (HasFailure()) FAIL() << "at position " << position;
  }
  device.run({sound});
}

TEST(verify_rows, rows_of_chunk_boundary_lengths) {
  dice random(2);
  const tag_table table = random_tags(50, random);
  constexpr std::uint32_t chunk = kvpage::cuda::pages_per_chunk;
  harness device({.rows = 4, .entries = 4 * chunk, .slots = 8, .width = 2 * chunk}, table);
  for (const std::uint32_t pages : {chunk - 1, chunk, chunk + 1, 2 * chunk}) {
    test_row bad_at_the_end = sound_row(table, pages, random);
    bad_at_the_end.ids.back() = -1;
    device.run({sound_row(table, pages, random), bad_at_the_end});
  }
}

TEST(verify_rows, case_I_ids_outside_the_pool_are_reported_and_not_dereferenced) {
  const tag_table table{{0, 1}};
  harness device({.rows = 4, .entries = 8, .slots = 4, .width = 2}, table);
  std::vector<test_row> rows;
  for (const std::int32_t id : {0x7fff'ffff, -1, static_cast<std::int32_t>(0x8000'0000), 2})
    rows.push_back({{1, id}, {{1, 1}, {static_cast<page_id>(id), 1}}, 20, 1});
  device.run(rows);
  for (const auto& failed : device.verdicts().poll(device.step()).failed)
    EXPECT_EQ(failed.finding.state, row_state::bad_page);
}

TEST(verify_rows, case_N_exactly_the_stale_row_fails_and_the_others_are_exported_unchanged) {
  const tag_table table{{0, 1, 3, 5, 7, 9}};
  harness device({.rows = 4, .entries = 8, .slots = 4, .width = 4}, table);
  std::vector<test_row> rows;
  for (const std::int32_t id : {1, 2, 3, 4})
    rows.push_back(
        {{id, 5}, {{static_cast<page_id>(id), table.tags[static_cast<std::size_t>(id)]}, {5, 9}}, 17, 1});
  rows[2].granted[0] = {3, 3};  // granted, released, and granted again to somebody else
  device.run(rows);
  const auto found = device.verdicts().poll(device.step());
  ASSERT_EQ(found.failed.size(), 1u);
  EXPECT_EQ(found.failed[0].row, 2u);
  EXPECT_EQ(found.failed[0].finding, (verdict{row_state::stale_page, 0, 3, 3, 3, 5}));
}

TEST(verify_rows, a_failed_row_may_keep_its_length_and_reads_the_null_page) {
  const tag_table table{{0, 1, 3}};
  harness device({.rows = 2, .entries = 4, .slots = 2, .width = 2}, table, cut_off::null_pages);
  device.run({{{1, 2}, {{1, 1}, {2, 1}}, 32, 1}, {{1}, {{1, 1}}, 16, 1}});
}

TEST(verify_rows, case_G_zero_rows_and_padding_rows_pass) {
  const tag_table table{{0, 1}};
  harness device({.rows = 3, .entries = 1, .slots = 2, .width = 1}, table);
  device.run({});
  device.run({{}, {}, {}});
  device.run({{{1}, {{1, 1}}, 1, 1}, {}, {}});
}

TEST(verify_rows, case_H_a_row_with_fewer_pages_than_its_length_needs_fails) {
  const tag_table table{{0, 1}};
  harness device({.rows = 3, .entries = 4, .slots = 4, .width = 1}, table);
  device.run({{{1}, {{1, 1}}, 16, 1}, {{1}, {{1, 1}}, 17, 1}, {{}, {}, 1, 1}});
  EXPECT_EQ(device.verdicts().poll(device.step()).summary.failed_rows, 2u);
}

TEST(verify_rows, case_F_a_row_wider_than_the_padded_table_stays_out_of_its_neighbours) {
  const tag_table table{{0, 1, 3, 5, 7, 9, 11}};
  harness device({.rows = 3, .entries = 7, .slots = 3, .width = 2}, table);
  device.run({{{1, 2, 3}, {{1, 1}, {2, 3}, {3, 5}}, 40, 1},
              {{4, 5}, {{4, 7}, {5, 9}}, 32, 1},
              {{6, 2}, {{6, 11}, {2, 3}}, 17, 1}});
  ASSERT_EQ(device.verdicts().poll(device.step()).failed.size(), 1u);
  EXPECT_EQ(device.verdicts().poll(device.step()).failed[0].finding,
            (verdict{.state = row_state::short_row, .position = 2}));
  device.run({{{1, 2, 3}, {{1, 1}, {2, 3}, {3, 5}}, 20, 1}, {{4, 5}, {{4, 7}, {5, 9}}, 32, 1}});
  EXPECT_EQ(device.verdicts().poll(device.step()).summary.failed_rows, 0u);
}

TEST(verify_rows, case_F_a_rows_record_that_was_written_over_misleads_no_later_step) {
  constexpr std::uint32_t chunk = kvpage::cuda::pages_per_chunk;
  dice random(5);
  const tag_table table = random_tags(100, random);
  harness device({.rows = 1, .entries = 2 * chunk, .slots = 1024, .width = 0}, table);
  test_row long_row = sound_row(table, 2 * chunk, random);
  device.run({long_row});
  device.load({sound_row(table, 1, random)});
  device.overwrite_pages(0, chunk + 1);  // a second chunk, which the step knows nothing of
  EXPECT_CUDA(device.enqueue());
  long_row.ids.back() = 0x7fff'ffff;
  device.run({long_row});
  EXPECT_EQ(device.verdicts().poll(device.step()).summary.failed_rows, 1u);
}

TEST(verify_rows, a_row_of_a_million_pages_next_to_256_short_ones) {
  if (is_emulated() && test_seed() > 1) GTEST_SKIP() << "seconds of interpretation: once for each schedule";
  dice random(3);
  const tag_table table = random_tags(1000, random);
  constexpr std::size_t million = 1'000'000;
  harness device({.rows = 257, .entries = million + 256 * 4, .slots = 1024, .width = 0}, table);
  std::vector<test_row> rows;
  for (int i = 0; i < 256; ++i) rows.push_back(sound_row(table, random() % 5, random));
  corrupt(rows[17], table, random);
  rows.insert(rows.begin() + 100, sound_row(table, million, random));
  rows[100].ids[987'654] = 0x7fff'ffff;
  device.run(rows);
}

TEST(verify_rows, a_step_that_was_not_staged_is_not_reported) {
  const tag_table table{{0, 1}};
  harness device({.rows = 1, .entries = 1, .slots = 1, .width = 1}, table);
  EXPECT_EQ(device.verdicts().poll(1).state, kvpage::cuda::poll_state::pending);
  device.run({{{1}, {{1, 1}}, 1, 1}});
  EXPECT_EQ(device.verdicts().poll(2).state, kvpage::cuda::poll_state::pending);
  device.load({});  // step 2 begins and is never verified
  EXPECT_EQ(device.verdicts().poll(2).state, kvpage::cuda::poll_state::pending);
  device.load({});
  EXPECT_EQ(device.verdicts().poll(2).state, kvpage::cuda::poll_state::missed);
  EXPECT_CUDA(device.enqueue());
  device.check();
  EXPECT_EQ(device.verdicts().poll(1).state,
            kvpage::cuda::poll_state::expired);  // two slots: too late to ask
}
