// A program that uses what there is and verifies it, once for each KVPAGE_SUBJECT: untagged, tagged.
#include <kvpage/kvpage.hpp>

#include <array>

using pool_type = kvpage::page_pool<kvpage::fp8_e4m3, kvpage::KVPAGE_SUBJECT>;
using kvpage::errc;

int main() {
  pool_type pool({.pages = 65, .tokens_per_page = 16});
  kvpage::block_table<pool_type> table(pool);
  kvpage::decode_batch<pool_type> batch({.rows = 2, .entries = 64, .slots = 2});
  std::array<kvpage::verdict, 2> verdicts;
  for (kvpage::step_number step = 1; step < 100; ++step) {
    if (table.append(1) != errc::ok || batch.add(table) != errc::ok) return 1;
    if (!kvpage::verify(batch, pool, step, verdicts) || verdicts[0].state != kvpage::row_state::ok) return 1;
    batch.clear();
  }
  return table.release() == errc::ok && pool.audit().clean() ? 0 : 1;
}
