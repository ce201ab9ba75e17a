// Short sequences that have told a faulty library from a sound one, replayed against every subject.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "replay.hpp"
#include "subjects.hpp"

namespace {

template <class Subject>
struct corpus : testing::Test {};
using all_subjects = kvpage_model::subjects<testing::Types>;
TYPED_TEST_SUITE(corpus, all_subjects);

TYPED_TEST(corpus, agrees_with_the_oracle) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(KVPAGE_MODEL_CORPUS)) {
    std::ifstream text(entry.path());
    const auto operations = kvpage_model::from_text(text);
    EXPECT_FALSE(operations.empty()) << entry.path();
    EXPECT_EQ(kvpage_model::replay<TypeParam>(operations), "") << entry.path();
    ++files;
  }
  EXPECT_NE(files, 0U);
}

}  // namespace
