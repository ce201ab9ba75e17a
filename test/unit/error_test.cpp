#include <gtest/gtest.h>
#include <kvpage/error.hpp>

#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace {

using kvpage::errc;
using kvpage::result;

errc passes_on(errc code, bool& went_on) {
  KVPAGE_TRY(code);
  went_on = true;
  return errc::ok;
}

std::string refusal(std::uint32_t value) {
  try {
    kvpage::detail::require_between("tokens per page", value, 1, 256);
  } catch (const std::invalid_argument& refused) {
    return refused.what();
  }
  return "";
}

}  // namespace

TEST(error, every_code_has_a_text_of_its_own) {
  std::set<std::string_view> texts;
  for (auto code = errc::ok; code <= errc::buffer_too_small;
       code = static_cast<errc>(static_cast<int>(code) + 1))
    EXPECT_TRUE(texts.insert(to_string(code)).second) << to_string(code);
  EXPECT_FALSE(texts.contains("unknown error"));
  EXPECT_EQ(to_string(static_cast<errc>(255)), "unknown error");
}

TEST(error, case_K_exhausted_is_not_never_fits) { EXPECT_NE(errc::exhausted, errc::never_fits); }

TEST(error, result_holds_a_value_or_the_reason) {
  const result<int> good = 7;
  EXPECT_TRUE(good);
  EXPECT_EQ(good.error(), errc::ok);
  EXPECT_EQ(*good, 7);
  EXPECT_EQ(good.value(), 7);
  const result<std::pair<int, int>> both = std::pair{1, 2};
  EXPECT_EQ(both->second, 2);

  const result<int> bad = errc::outside_row;
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error(), errc::outside_row);
}

TEST(error_death, reading_a_failed_result_is_a_contract_violation) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const result<int> bad = errc::exhausted;
  EXPECT_DEATH((void)bad.value(), "");
  EXPECT_DEATH((void)result<int>{errc::ok}, "");
}

TEST(error, try_returns_the_error_and_goes_on_after_ok) {
  bool went_on = false;
  EXPECT_EQ(passes_on(errc::stale_handle, went_on), errc::stale_handle);
  EXPECT_FALSE(went_on);
  EXPECT_EQ(passes_on(errc::ok, went_on), errc::ok);
  EXPECT_TRUE(went_on);
}

TEST(error, a_refused_option_names_value_and_bounds) {
  EXPECT_EQ(refusal(0), "tokens per page is 0; it must be between 1 and 256");
  EXPECT_EQ(refusal(257), "tokens per page is 257; it must be between 1 and 256");
  EXPECT_EQ(refusal(1), "");
  EXPECT_EQ(refusal(256), "");
}
