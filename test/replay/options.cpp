// The command line: what it sets, and that a wrong value is refused by name and bound.
#include "options.hpp"

#include <gtest/gtest.h>

#include <kvpage/config.hpp>
#include <string>
#include <vector>

namespace {

using replay::fault_kind;

struct outcome {
  std::optional<int> status;
  replay::options chosen;
  std::string complaint;
};

outcome parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "kvpage-replay");
  outcome got;
  testing::internal::CaptureStderr();
  got.status = replay::parse_options(static_cast<int>(arguments.size()), arguments.data(), got.chosen);
  got.complaint = testing::internal::GetCapturedStderr();
  return got;
}

// What is printed on stderr, which must come with exit status 2.
std::string refusal(const char* option, const char* value) {
  const outcome got = parse({option, value});
  EXPECT_EQ(got.status, 2) << option << ' ' << value;
  return got.complaint.substr(0, got.complaint.find('\n'));
}

TEST(options, have_defaults) {
  const auto [status, chosen, complaint] = parse({});
  EXPECT_EQ(status, std::nullopt);
  EXPECT_EQ(chosen.pages, 65536u);
  EXPECT_EQ(chosen.page_size, 64u);
  EXPECT_TRUE(chosen.prefix_cache);
  EXPECT_EQ(chosen.window, 0u);
  EXPECT_EQ(chosen.backend, "cpu");
  EXPECT_EQ(chosen.policy, "tagged");
  EXPECT_EQ(chosen.limit, std::nullopt);
  EXPECT_EQ(chosen.faults, replay::per_fault<std::uint64_t>{});
}

TEST(options, are_taken_from_the_command_line) {
  const auto [status, chosen, complaint] = parse({"--trace",
                                                  "t.jsonl",
                                                  "--pages",
                                                  "100",
                                                  "--page-size",
                                                  "16",
                                                  "--max-rows",
                                                  "8",
                                                  "--policy",
                                                  "untagged",
                                                  "--element",
                                                  "fp8_e5m2",
                                                  "--limit",
                                                  "5",
                                                  "--seed",
                                                  "9",
                                                  "--json",
                                                  "--faults",
                                                  "short_row=3,double_free=4",
                                                  "--prefix-cache",
                                                  "off",
                                                  "--window",
                                                  "4096"});
  EXPECT_EQ(status, std::nullopt) << complaint;
  EXPECT_EQ(chosen.trace_file, "t.jsonl");
  EXPECT_FALSE(chosen.prefix_cache);
  EXPECT_EQ(chosen.window, 4096u);
  EXPECT_EQ(chosen.pages, 100u);
  EXPECT_EQ(chosen.page_size, 16u);
  EXPECT_EQ(chosen.max_rows, 8u);
  EXPECT_EQ(chosen.policy, "untagged");
  EXPECT_EQ(chosen.element, "fp8_e5m2");
  EXPECT_EQ(chosen.limit, 5u);
  EXPECT_EQ(chosen.seed, 9u);
  EXPECT_TRUE(chosen.json);
  EXPECT_EQ(chosen.faults[fault_kind::short_row], 3u);
  EXPECT_EQ(chosen.faults[fault_kind::double_free], 4u);
  EXPECT_EQ(chosen.faults[fault_kind::stale_table], 0u);
}

TEST(options, a_wrong_value_is_named_with_its_bounds) {
  const std::string most = std::to_string(kvpage::max_pages_per_pool - 1);
  const std::string too_many = std::to_string(kvpage::max_pages_per_pool);
  for (const std::string& wrong : {std::string("0"), too_many, std::string("-5"), std::string("ten")}) {
    std::string expected = "--pages: \"";
    expected.append(wrong).append("\" is not a whole number between 1 and ").append(most);
    EXPECT_EQ(refusal("--pages", wrong.c_str()), expected);
  }
  EXPECT_EQ(refusal("--trace", ""), "--trace: is empty");
  EXPECT_EQ(refusal("--page-size", "1048577"),
            "--page-size: \"1048577\" is not a whole number between 1 and 1048576");
  EXPECT_EQ(refusal("--max-rows", "6.5"), "--max-rows: \"6.5\" is not a whole number between 1 and 65536");
  EXPECT_EQ(refusal("--window", "2147483648"),
            "--window: \"2147483648\" is not a whole number between 0 and 2147483647");
  EXPECT_EQ(refusal("--limit", "0"), "--limit: \"0\" is not a whole number between 1 and 100000000");
  EXPECT_EQ(refusal("--seed", "18446744073709551616"),
            "--seed: \"18446744073709551616\" is not a whole number between 0 and 18446744073709551615");
  EXPECT_EQ(refusal("--backend", "gpu"), "--backend: gpu not in {cpu,cuda}");
  EXPECT_EQ(refusal("--policy", "tags"), "--policy: tags not in {tagged,untagged}");
  EXPECT_EQ(refusal("--element", "fp4"), "--element: fp4 not in {bf16,fp16,fp8_e4m3,fp8_e5m2}");
}

TEST(options, a_wrong_fault_is_named) {
  EXPECT_EQ(refusal("--faults", "meteor=1"),
            "--faults: \"meteor=1\" does not name one of stale_table, early_free, wrong_page, out_of_range, "
            "short_row, "
            "double_free");
  EXPECT_EQ(refusal("--faults", "short_row=1000001"),
            "--faults short_row: \"1000001\" is not a whole number between 0 and 1000000");
  EXPECT_EQ(refusal("--faults", "short_row"),
            "--faults short_row: \"\" is not a whole number between 0 and 1000000");
}

TEST(options, an_unknown_option_is_refused) {
  EXPECT_EQ(refusal("--bogus", "1").find("--bogus") != std::string::npos, true);
}

}  // namespace
