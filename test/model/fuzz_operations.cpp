// libFuzzer target: any bytes are a sequence of operations (see cache_model.hpp).  With clang:
//   cmake --preset clang -DKVPAGE_FUZZ=ON && cmake --build build/clang --target fuzz_operations
//   build/clang/test/model/fuzz_operations test/model/corpus
#include <cstddef>
#include <cstdint>

#include "cache_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvpage_model;
  const std::span<const std::uint8_t> bytes(data, size);
  cache_run<setup<kvpage::tagged>>().run(bytes);
  cache_run<setup<kvpage::tagged, kvpage::prefix_hash, true>>().run(bytes);
  return 0;
}
