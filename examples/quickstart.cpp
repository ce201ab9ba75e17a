// Two requests, one physical cache, one stale block table: caught before it reads.
#include <kvpage/kvpage.hpp>

#include <array>
#include <iostream>

using fp8_pool = kvpage::page_pool<kvpage::fp8_e4m3, kvpage::tagged>;  // or untagged: no tags, no cost
using fp8_table = kvpage::block_table<fp8_pool>;
using kvpage::errc;

int main() {
  fp8_pool pages({.pages = 1 + 64, .tokens_per_page = 16});  // page 0 is the null page
  fp8_table alice(pages), bob(pages);

  // Prompts of 40 and 20 tokens: three pages and two, or an error and nothing has changed.
  if (alice.append(40) != errc::ok || bob.append(20) != errc::ok) return 1;

  // A bug in the engine: Alice's first page is given up while her row still names it, and is granted again.
  std::array<fp8_pool::handle, 1> given_up{alice.handles()[0]}, granted_again;
  if (pages.release(given_up) != errc::ok || pages.allocate(granted_again) != errc::ok) return 1;

  // One decode step: one new token a row, its page ids for attention, and the handles that were granted.
  kvpage::decode_batch<fp8_pool> batch({.rows = 2, .entries = 64, .slots = 2});
  if (alice.append(1) != errc::ok || bob.append(1) != errc::ok) return 1;
  if (batch.add(alice) != errc::ok || batch.add(bob) != errc::ok) return 1;

  // Before attention runs: does every row still own what it is about to read?
  std::array<kvpage::verdict, 2> verdicts;
  if (!kvpage::verify(batch, pages, 1, verdicts)) return 1;
  for (std::size_t row = 0; row < batch.rows(); ++row) {
    if (verdicts[row].state == kvpage::row_state::ok) continue;
    batch.cut_off(row);  // null page, length 0, slot -1; the other rows are untouched
    std::cout << "row " << row << ": page " << verdicts[row].page << " was granted with tag "
              << verdicts[row].expected_tag << " and now has tag " << verdicts[row].found_tag << '\n';
  }
  // Ends Alice's request: her two other pages are released, the new owner's page is not.
  std::cout << alice.abandon() << " page was no longer hers; " << pages.stats().free << " pages free\n";
  return pages.audit().clean() ? 0 : 1;
}
