# kvpage_add_mutant(NAME, the test that must catch it, the header, its text, the text in the mutant)

# --- What the verifier looks at ---

kvpage_add_mutant(expectation_read_back_from_live_tags verify_rows_test kernels/kvpage/kernels/verify_rows.cuh
  "entries[k].granted = batch.d_granted[row.first_entry + position];"
  "entries[k].granted = {static_cast<page_id>(entries[k].page), present_tag(batch, entries[k].page)};")
kvpage_add_mutant(last_page_of_a_row_unchecked verify_rows_test kernels/kvpage/kernels/verify_rows.cuh
  "if (position < row.pages) {
      entries[k].page"
  "if (position + 1 < row.pages) {
      entries[k].page")
kvpage_add_mutant(last_chunk_of_a_row_missing verify_rows_test include/kvpage/cuda/device_batch.cuh
  "(pages - 1) / pages_per_chunk + 1"
  "pages / pages_per_chunk")
kvpage_add_mutant(id_outside_the_pool_dereferenced verify_rows_test kernels/kvpage/kernels/verify_rows.cuh
  "return id < batch.pool_pages ? batch.d_tags[id] : 0;"
  "return batch.d_tags[id];")
kvpage_add_mutant(free_page_accepted verify_rows_test kernels/kvpage/kernels/verify_rows.cuh
  "granted.tag() % 2 == 1 || granted.is_null()"
  "true")

# --- How the blocks of a row agree ---

kvpage_add_mutant(verdict_not_reset verify_rows_test kernels/kvpage/kernels/verify_rows.cuh
  "args.scratch.d_rows[i] = {};"
  "args.scratch.d_rows[i].chunks_done = 0;")
kvpage_add_mutant(count_of_chunks_not_reset verify_rows_test kernels/kvpage/kernels/verify_rows.cuh
  "args.scratch.d_rows[i] = {};"
  "args.scratch.d_rows[i].first_bad = 0;")
kvpage_add_mutant(count_of_failed_rows_not_reset verify_rows_test kernels/kvpage/kernels/verify_rows.cuh
  "atomicExch(args.scratch.d_failed_rows, 0)"
  "atomicMax(args.scratch.d_failed_rows, 0)")
kvpage_add_mutant(first_block_decides_for_its_row verify_rows_test kernels/kvpage/kernels/verify_rows.cuh
  "!= chunks - 1) return false;"
  "!= 0) return false;")
kvpage_add_mutant(no_fence_between_export_and_cut verify_rows_test kernels/kvpage/kernels/verify_rows.cuh
  "  __threadfence();
  if (atomicAdd(&meeting.chunks_done, 1)"
  "  if (atomicAdd(&meeting.chunks_done, 1)")

# --- What a failed row leaves behind ---

kvpage_add_mutant(padded_form_not_cut verify_rows_test kernels/kvpage/kernels/verify_rows.cuh
  "out.d_padded[row_index * out.padded_width + i] = null_page"
  "static_cast<void>(0)")
kvpage_add_mutant(slots_not_cut verify_rows_test kernels/kvpage/kernels/verify_rows.cuh
  "passed ? slot_of(batch, row, i) : skipped_slot"
  "slot_of(batch, row, i)")
kvpage_add_mutant(length_not_cut verify_rows_test kernels/kvpage/kernels/verify_rows.cuh
  "passed || args.cut == cuda::cut_off::null_pages"
  "true")

# --- What the update leaves behind ---

kvpage_add_mutant(padded_ids_not_cleared device_tables_test kernels/kvpage/kernels/update_tables.cuh
  "out.d_padded[row * out.padded_width + k] = null_page"
  "static_cast<void>(row)")
kvpage_add_mutant(indices_not_cleared device_tables_test kernels/kvpage/kernels/update_tables.cuh
  "out.d_indices[i] = null_page"
  "static_cast<void>(i)")
kvpage_add_mutant(unverified_length_stays device_tables_test kernels/kvpage/kernels/update_tables.cuh
  "out.d_seq_lens[i] = 0;"
  "")
kvpage_add_mutant(step_that_was_not_staged_counts staging_ring_test kernels/kvpage/kernels/update_tables.cuh
  "*static_cast<const volatile step_number*>(&staged) == step"
  "true")
kvpage_add_mutant(each_block_decides_whether_a_step_is_staged staging_ring_test
  kernels/kvpage/kernels/update_tables.cuh
  "takes = (first == undecided ? own : first) == taken"
  "takes = is_staged")

# --- What the host sends ---

kvpage_add_mutant(step_number_not_written_last staging_ring_test include/kvpage/cuda/device_tables.cuh
  "const auto slot = staging_.at(step);"
  "const auto slot = staging_.at(step); slot.step = step;")
kvpage_add_mutant(staging_slot_overwritten_early staging_ring_test include/kvpage/cuda/device_tables.cuh
  "if (step > begun + options_.staging_slots) return errc::not_ready;"
  "")
kvpage_add_mutant(image_of_tags_overwritten_early staging_ring_test include/kvpage/cuda/device_tables.cuh
  "if (all_tags && tags_.image_step() > begun) return errc::not_ready;"
  "")
kvpage_add_mutant(overflow_of_changed_tags_ignored device_tables_test include/kvpage/cuda/page_tags.cuh
  "return journal_.overflowed();"
  "return image_step_ == 0;")
kvpage_add_mutant(tail_of_a_reused_row_not_sent device_tables_test include/kvpage/cuda/resident_rows.cuh
  "(std::max)(std::size_t{held.pages}, pages.size())"
  "pages.size()")
kvpage_add_mutant(rewritten_entries_not_sent device_tables_test include/kvpage/block_table.hpp
  "if (kept != pages_.size()) history_.rewritten_from(kept);"
  "")
kvpage_add_mutant(releases_not_recorded device_tables_test include/kvpage/page_pool.hpp
  "    return release_from(i, pages, 0);
  journals_.record(pages);"
  "    return release_from(i, pages, 0);")
