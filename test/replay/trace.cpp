// Traces: what is read, what is refused and in which words, and that a generated one is always the same.
#include "trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

using replay::generate_trace;
using replay::read_trace;
using replay::trace;

class trace_file : public testing::Test {
 protected:
  // A file of the test's own with this content.
  std::string holding(const std::string& content) {
    std::ofstream(path_) << content;
    return path_.string();
  }

  // The error's words, without the path in front.
  std::string refusal(const std::string& content) {
    const std::string file = holding(content);
    try {
      (void)read_trace(file, std::nullopt);
    } catch (const replay::trace_error& error) {
      const std::string what = error.what();
      EXPECT_EQ(what.rfind(file + ":", 0), 0u) << what;
      return what.substr(file.size() + 1);
    }
    return "accepted";
  }

  void TearDown() override { std::filesystem::remove(path_); }

 private:
  std::filesystem::path path_ = std::filesystem::temp_directory_path() /
                                (std::string("kvpage_trace_") +
                                 testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl");
};

const std::string good =
    R"({"timestamp": 3000, "input_length": 700, "output_length": 5, "hash_ids": [0, 46]})"
    "\n";

TEST_F(trace_file, holds_one_request_a_line) {
  const std::string file =
      holding(good + R"({"hash_ids":[],"output_length":1,"input_length":1,"timestamp":3000.5})");
  const trace expected = {{3000, 700, 5, {0, 46}}, {3000.5, 1, 1, {}}};
  EXPECT_EQ(read_trace(file, std::nullopt), expected);
}

TEST_F(trace_file, a_folder_is_none) {
  EXPECT_THROW((void)read_trace(std::filesystem::temp_directory_path().string(), std::nullopt),
               replay::trace_error);
}

TEST_F(trace_file, limit_leaves_the_rest_unread) {
  EXPECT_EQ(read_trace(holding(good + good + "garbage"), 2).size(), 2u);
}

TEST_F(trace_file, requests_come_in_the_order_of_their_arrival) {
  const std::string file =
      holding(R"({"timestamp": 5, "input_length": 1, "output_length": 1, "hash_ids": []})"
              "\n"
              R"({"timestamp": 2, "input_length": 2, "output_length": 1, "hash_ids": []})");
  const trace requests = read_trace(file, std::nullopt);
  EXPECT_EQ(requests[0].input_length, 2u);
  EXPECT_EQ(requests[1].input_length, 1u);
}

TEST_F(trace_file, a_malformed_line_is_refused_with_file_line_and_reason) {
  EXPECT_EQ(refusal(good + "{\"timestamp\": 1,"), "2: not JSON, from character 17 on");
  EXPECT_EQ(refusal("\n"), "1: not JSON, from character 1 on");
  EXPECT_EQ(refusal(good + R"({"timestamp": 1e999})"), "2: holds a number that no double can hold");
  EXPECT_EQ(refusal(good + good + "[1, 2]"), "3: not a JSON object");
  EXPECT_EQ(refusal(R"({"timestamp": 0, "input_length": 1, "output_length": 1})"), "1: hash_ids is missing");
  EXPECT_EQ(refusal(R"({"timestamp": -1, "input_length": 1, "output_length": 1, "hash_ids": []})"),
            "1: timestamp is -1; it must be a number, 0 or more");
  EXPECT_EQ(refusal(R"({"timestamp": 0, "input_length": 0, "output_length": 1, "hash_ids": []})"),
            "1: input_length is 0; it must be a whole number between 1 and 1000000000");
  EXPECT_EQ(refusal(R"({"timestamp": 0, "input_length": 1, "output_length": 1000000001, "hash_ids": []})"),
            "1: output_length is 1000000001; it must be a whole number between 1 and 1000000000");
  EXPECT_EQ(refusal(R"({"timestamp": 0, "input_length": "7", "output_length": 1, "hash_ids": []})"),
            "1: input_length is \"7\"; it must be a whole number between 1 and 1000000000");
  EXPECT_EQ(refusal(R"({"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1, -2]})"),
            "1: hash_ids must be an array of whole numbers, 0 or more");
}

TEST_F(trace_file, an_empty_or_missing_file_is_refused) {
  EXPECT_EQ(refusal(""), " holds no request");
  EXPECT_THROW((void)read_trace("no_such_file.jsonl", std::nullopt), replay::trace_error);
}

TEST(generated_trace, is_the_same_for_the_same_seed) {
  EXPECT_EQ(generate_trace(300, 7), generate_trace(300, 7));
  EXPECT_NE(generate_trace(300, 7), generate_trace(300, 8));
}

// Fixed, so that other standard libraries must agree.
TEST(generated_trace, is_the_same_everywhere) {
  const trace requests = generate_trace(2, 1);
  EXPECT_EQ(requests[0].input_length, 1267u);
  EXPECT_EQ(requests[0].output_length, 56u);
  EXPECT_EQ(requests[1].input_length, 895u);
  EXPECT_EQ(requests[1].output_length, 234u);
}

TEST(generated_trace, resembles_the_conversation_trace) {
  trace requests = generate_trace(12031, 1);
  for (const auto& request : requests) {
    EXPECT_EQ(request.hash_ids.size(), (request.input_length + 511) / 512);
    EXPECT_EQ(request.hash_ids[0], 0u);
  }
  // The trace has a median of 6909 tokens in and 350 out, and lasts 3537 s.
  EXPECT_NEAR(requests.back().timestamp_ms, 3'537'000, 250'000);
  const auto median = [&](auto length) {
    std::ranges::nth_element(requests, requests.begin() + 6015, {}, length);
    return std::invoke(length, requests[6015]);
  };
  EXPECT_NEAR(median(&replay::trace_request::input_length), 6909, 350);
  EXPECT_NEAR(median(&replay::trace_request::output_length), 350, 15);
}

}  // namespace
