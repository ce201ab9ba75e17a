#include "trace.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace replay {
namespace {

using nlohmann::json;

// A length above this could not be a row's: input and output together stay within an int32.
constexpr std::uint64_t max_length = 1'000'000'000;

const json& field(const json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end()) throw std::invalid_argument(std::string(name) + " is missing");
  return *found;
}

std::uint32_t length(const json& line, const char* name) {
  const json& value = field(line, name);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < 1 ||
      value.get<std::uint64_t>() > max_length) {
    throw std::invalid_argument(std::string(name) + " is " + value.dump() +
                                "; it must be a whole number between 1 and " + std::to_string(max_length));
  }
  return value.get<std::uint32_t>();
}

double timestamp(const json& line) {
  const json& value = field(line, "timestamp");
  if (!value.is_number() || value.get<double>() < 0)
    throw std::invalid_argument("timestamp is " + value.dump() + "; it must be a number, 0 or more");
  return value.get<double>();
}

std::vector<std::uint64_t> hash_ids(const json& line) {
  const json& value = field(line, "hash_ids");
  if (!value.is_array() ||
      !std::ranges::all_of(value, [](const json& id) { return id.is_number_unsigned(); }))
    throw std::invalid_argument("hash_ids must be an array of whole numbers, 0 or more");
  return value.get<std::vector<std::uint64_t>>();
}

// Throws std::invalid_argument with the reason.
trace_request parse(const std::string& text) {
  json line;
  try {
    line = json::parse(text);
  } catch (const json::parse_error& error) {
    throw std::invalid_argument("not JSON, from character " + std::to_string(error.byte) + " on");
  } catch (const json::out_of_range&) {
    throw std::invalid_argument("holds a number that no double can hold");
  }
  if (!line.is_object()) throw std::invalid_argument("not a JSON object");
  return {.timestamp_ms = timestamp(line),
          .input_length = length(line, "input_length"),
          .output_length = length(line, "output_length"),
          .hash_ids = hash_ids(line)};
}

}  // namespace

trace read_trace(const std::string& file, std::optional<std::size_t> limit) {
  std::ifstream in(file);
  if (!in || std::filesystem::is_directory(file)) throw trace_error(file + ": cannot be read");
  trace requests;
  std::string text;
  for (std::size_t number = 1; (!limit || requests.size() < *limit) && std::getline(in, text); ++number) {
    try {
      requests.push_back(parse(text));
    } catch (const std::invalid_argument& reason) {
      throw trace_error(file + ":" + std::to_string(number) + ": " + reason.what());
    }
  }
  if (requests.empty()) throw trace_error(file + ": holds no request");
  std::ranges::stable_sort(requests, {}, &trace_request::timestamp_ms);
  return requests;
}

}  // namespace replay
