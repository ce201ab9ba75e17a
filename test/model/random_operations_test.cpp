// Long random sequences of operations against the model, for every policy; and the corpus of sequences that
// once mattered.  KVPAGE_MODEL_OPERATIONS sets how many operations (per policy), KVPAGE_MODEL_SEED where to
// begin.  A failure prints its seed and the shortest sequence found that still fails.
#include <gtest/gtest.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "cache_model.hpp"

namespace {

using kvpage_model::operation_bytes;
using sequence = std::vector<std::uint8_t>;

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

std::string in_hex(const sequence& bytes) {
  std::ostringstream out;
  out << std::hex << std::setfill('0');
  for (std::size_t i = 0; i < bytes.size(); ++i)
    out << (i % operation_bytes == 0 && i != 0 ? " " : "") << std::setw(2) << unsigned{bytes[i]};
  return out.str();
}

// The sequence under way, for contract violations, which end the program.
sequence* under_way = nullptr;
[[noreturn]] void print_and_abort() {
  if (under_way != nullptr) std::cerr << "contract violated by " << in_hex(*under_way) << std::endl;
  std::abort();
}

// What went wrong; empty if nothing did.
template <class Setup>
std::string run(sequence& bytes) {
  under_way = &bytes;
  std::set_terminate(print_and_abort);
  try {
    kvpage_model::cache_run<Setup>().run(bytes);
    return {};
  } catch (const kvpage_model::mismatch& found) {
    return found.what();
  }
}

// Leaves out operations, ever fewer at once, as long as it still fails.
template <class Setup>
sequence shrunk(sequence failing) {
  for (std::size_t chunk = failing.size() / operation_bytes / 2; chunk != 0; chunk /= 2) {
    for (std::size_t at = 0; (at + chunk) * operation_bytes <= failing.size();) {
      sequence shorter = failing;
      const auto first = shorter.begin() + static_cast<std::ptrdiff_t>(at * operation_bytes);
      shorter.erase(first, first + static_cast<std::ptrdiff_t>(chunk * operation_bytes));
      if (run<Setup>(shorter).empty()) {
        ++at;
      } else {
        failing = std::move(shorter);
      }
    }
  }
  return failing;
}

template <class Setup>
class model : public testing::Test {};

using tagged3 = kvpage::basic_tagged<std::uint8_t, 3>;  // four grants, then a page retires
using kvpage::prefix_hash;
using kvpage::tagged;
using kvpage::untagged;
using kvpage_model::always_7;
using kvpage_model::setup;
using setups = testing::Types<setup<untagged>, setup<tagged>, setup<tagged3>, setup<tagged, always_7>,
                              setup<untagged, prefix_hash, true>, setup<tagged, prefix_hash, true>>;
TYPED_TEST_SUITE(model, setups);

TYPED_TEST(model, random_operations_agree) {
  constexpr std::size_t length = 200;
  const std::uint64_t operations = from_environment("KVPAGE_MODEL_OPERATIONS", 200'000);
  std::uint64_t seed = from_environment("KVPAGE_MODEL_SEED", 1);
  for (std::uint64_t done = 0; done < operations; done += length, ++seed) {
    std::mt19937_64 random(seed);
    sequence bytes(length * operation_bytes);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    const std::string wrong = run<TypeParam>(bytes);
    if (wrong.empty()) continue;
    sequence shortest = shrunk<TypeParam>(bytes);
    FAIL() << "KVPAGE_MODEL_SEED=" << seed << ": " << wrong << "\nshortest: " << run<TypeParam>(shortest)
           << ": " << in_hex(shortest);
  }
}

TYPED_TEST(model, corpus_agrees) {
  std::size_t replayed = 0;
  for (const auto& file : std::filesystem::directory_iterator(KVPAGE_MODEL_CORPUS)) {
    std::ifstream in(file.path(), std::ios::binary);
    sequence bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(run<TypeParam>(bytes), "") << file.path();
    ++replayed;
  }
  EXPECT_GT(replayed, 0u);
}

}  // namespace
