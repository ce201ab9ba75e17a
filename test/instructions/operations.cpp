// One hot operation a run, named by the argument, for a counter of instructions: what lies inside count_*
// is counted.  Prints how many pages, entries, tokens or values that was.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <kvpage/kvpage.hpp>
#include <string_view>
#include <vector>

namespace {

void require_ok(kvpage::errc code) {
  if (code != kvpage::errc::ok) std::abort();
}

constexpr std::size_t rounds = 100;

template <class P>
struct scene {
  using pool_type = kvpage::page_pool<kvpage::bf16, P>;
  pool_type pool{{.pages = 4096}};
  std::vector<typename pool_type::handle> pages = std::vector<typename pool_type::handle>(144);
  kvpage::block_table<pool_type> table{pool, 256};
  kvpage::decode_batch<pool_type> batch{{.rows = 1, .entries = 256, .slots = 1}};
  std::vector<kvpage::verdict> verdicts = std::vector<kvpage::verdict>(1);
};

template <class P>
[[gnu::noinline]] std::size_t count_grant_and_release(scene<P>& s) {
  for (std::size_t i = 0; i < rounds; ++i) {
    require_ok(s.pool.allocate(s.pages));
    require_ok(s.pool.release(s.pages));
  }
  return rounds * s.pages.size();
}

template <class P>
[[gnu::noinline]] std::size_t count_one_page(scene<P>& s) {
  for (std::size_t i = 0; i < rounds; ++i) {
    require_ok(s.pool.allocate({s.pages.data(), 1}));
    require_ok(s.pool.release({s.pages.data(), 1}));
  }
  return rounds;
}

template <class P>
[[gnu::noinline]] std::size_t count_retain_and_release(scene<P>& s) {
  for (std::size_t i = 0; i < rounds; ++i) {
    require_ok(s.pool.retain(s.pages));
    require_ok(s.pool.release(s.pages));
  }
  return rounds * s.pages.size();
}

template <class P>
[[gnu::noinline]] std::size_t count_append(scene<P>& s) {
  for (std::size_t i = 0; i < 1600; ++i) require_ok(s.table.append(1));
  return 1600;
}

template <class P>
[[gnu::noinline]] std::size_t count_export(scene<P>& s) {
  for (std::size_t i = 0; i < rounds; ++i) {
    s.batch.clear();
    require_ok(s.batch.add(s.table));
  }
  return rounds * s.table.pages();
}

template <class P>
[[gnu::noinline]] std::size_t count_verify(scene<P>& s) {
  for (std::size_t i = 0; i < rounds; ++i) {
    if (kvpage::verify(s.batch, s.pool, i + 1, s.verdicts).value().failed_rows != 0) std::abort();
  }
  return rounds * s.batch.entries();
}

// As every x86-64 runs it, whatever else the processor can do.
[[gnu::noinline]] std::size_t count_convert(const std::vector<kvpage::bf16>& from,
                                            std::vector<kvpage::fp8_e4m3>& to) {
  kvpage::detail::transform_blocks(from.data(), to.data(), from.size(), [](kvpage::bf16 value) {
    return kvpage::convert_value<kvpage::fp8_e4m3>(value);
  });
  return from.size();
}

template <class P>
std::size_t run(std::string_view operation) {
  if (operation == "convert") {
    std::vector<kvpage::fp8_e4m3> to(4096);
    return count_convert(std::vector<kvpage::bf16>(4096), to);
  }
  scene<P> s;
  if (operation == "grant_and_release") return count_grant_and_release(s);
  if (operation == "one_page") return count_one_page(s);
  if (operation == "append") return count_append(s);
  if (operation == "retain_and_release") {
    require_ok(s.pool.allocate(s.pages));
    return count_retain_and_release(s);
  }
  require_ok(s.table.append(144 * s.table.tokens_per_page()));
  if (operation == "export") return count_export(s);
  require_ok(s.batch.add(s.table));
  if (operation == "verify") return count_verify(s);
  std::abort();
}

}  // namespace

int main(int, char** arguments) {  // OPERATION POLICY
  const std::string_view policy = arguments[2];
  std::printf("%zu\n",
              policy == "tagged" ? run<kvpage::tagged>(arguments[1]) : run<kvpage::untagged>(arguments[1]));
}
