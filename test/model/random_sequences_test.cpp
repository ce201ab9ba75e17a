// Long random sequences against the oracles.  KVPAGE_MODEL_OPERATIONS sets how many operations each subject
// is given; KVPAGE_MODEL_SEED the first of the seeds.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "replay.hpp"
#include "subjects.hpp"

namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

// A broken contract ends the process: say at least with which seed.
std::uint64_t running = 0;
[[noreturn]] void tell_seed() {
  std::fprintf(stderr, "terminated: KVPAGE_MODEL_SEED=%llu\n", static_cast<unsigned long long>(running));
  std::abort();
}

template <class Subject>
struct random_sequences : testing::Test {};
using all_subjects = kvpage_model::subjects<testing::Types>;
TYPED_TEST_SUITE(random_sequences, all_subjects);

TYPED_TEST(random_sequences, agree_with_the_oracle) {
  constexpr std::size_t length = 500;  // then afresh: small generations are soon used up
  const std::uint64_t operations = from_environment("KVPAGE_MODEL_OPERATIONS", 200'000);
  std::set_terminate(tell_seed);
  std::uint64_t seed = from_environment("KVPAGE_MODEL_SEED", 1);
  for (std::uint64_t done = 0; done < operations; done += length, ++seed) {
    running = seed;
    const auto sequence = kvpage_model::random_sequence(seed, length);
    const std::string found = kvpage_model::replay<TypeParam>(sequence);
    ASSERT_TRUE(found.empty()) << found << "\nKVPAGE_MODEL_SEED=" << seed << ", shrunk to:\n"
                               << kvpage_model::to_text(kvpage_model::shrunk<TypeParam>(sequence));
  }
}

}  // namespace
