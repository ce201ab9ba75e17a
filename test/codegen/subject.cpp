// The operations that are compared, once for each KVPAGE_SUBJECT: by_hand, or (KVPAGE_IS_LIBRARY) a policy.
#include <kvpage/kvpage.hpp>

#include "by_hand.hpp"

// The rare paths are elsewhere, for both: what is compared are calls to them.
extern template class kvpage::page_pool<kvpage::bf16, kvpage::untagged>;
extern template class kvpage::page_pool<kvpage::bf16, kvpage::tagged>;

namespace {

struct by_hand_types {
  using pool = by_hand::pool;
  using handle = by_hand::page;
  using table = by_hand::table;
  using batch = by_hand::batch;
};

template <kvpage::integrity_policy P>
struct kvpage_types {
  using pool = kvpage::page_pool<kvpage::bf16, P>;
  using handle = typename pool::handle;
  using table = kvpage::block_table<pool>;
  using batch = kvpage::decode_batch<pool>;
};

#define KVPAGE_SUBJECT_by_hand by_hand_types
#define KVPAGE_SUBJECT_untagged kvpage_types<kvpage::untagged>
#define KVPAGE_SUBJECT_tagged kvpage_types<kvpage::tagged>
#define KVPAGE_JOIN(a, b) a##b
#define KVPAGE_TYPES(subject) KVPAGE_JOIN(KVPAGE_SUBJECT_, subject)

using types = KVPAGE_TYPES(KVPAGE_SUBJECT);
using pool = types::pool;
using handle = types::handle;
using table = types::table;
using batch = types::batch;

// Neither a byte a page, nor a byte an object.
using plain = kvpage_types<kvpage::untagged>;
static_assert(sizeof(plain::handle) == sizeof(by_hand::page));
static_assert(sizeof(plain::pool) == sizeof(by_hand::pool));
static_assert(sizeof(plain::table) == sizeof(by_hand::table));
static_assert(sizeof(plain::batch) == sizeof(by_hand::batch));
static_assert(sizeof(kvpage::detail::page_record<kvpage::untagged>) == sizeof(std::uint32_t));

}  // namespace

// Flattened, so that all of an operation lies in its function.
extern "C" {

[[gnu::flatten]] kvpage::errc op_allocate(pool& p, handle* out, std::size_t count) {
  return p.allocate({out, count});
}
[[gnu::flatten]] kvpage::errc op_retain(pool& p, const handle* pages, std::size_t count) {
  return p.retain({pages, count});
}
[[gnu::flatten]] kvpage::errc op_release(pool& p, const handle* pages, std::size_t count) {
  return p.release({pages, count});
}
[[gnu::flatten]] kvpage::errc op_append(table& t, std::size_t tokens) { return t.append(tokens); }

[[gnu::flatten]] kvpage::errc op_export_padded(const batch& b, std::int32_t* out, std::size_t rows,
                                               std::size_t width) {
  return b.export_padded({out, rows * width}, rows, width);
}

// What an engine does with its batch in every step: rebuild it, and have it verified before it is read.
[[gnu::flatten]] kvpage::errc op_decode_step(batch& b, const table* tables, std::size_t rows,
                                             [[maybe_unused]] const pool& p,
                                             [[maybe_unused]] kvpage::verdict* verdicts,
                                             [[maybe_unused]] kvpage::step_number step) {
  b.clear();
  for (std::size_t row = 0; row < rows; ++row) KVPAGE_TRY(b.add(tables[row], 1));
#if KVPAGE_IS_LIBRARY
  KVPAGE_TRY(kvpage::verify(b, p, step, {verdicts, rows}).error());
#endif
  return kvpage::errc::ok;
}
}
