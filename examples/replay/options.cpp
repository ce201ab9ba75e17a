#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <iostream>
#include <kvpage/config.hpp>
#include <limits>
#include <vector>

namespace replay {
namespace {

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The complaint about `text`, if it is not a whole number between the bounds; empty otherwise.
std::string complaint(std::string_view text, std::uint64_t low, std::uint64_t high) {
  const auto value = whole_number(text);
  if (value && *value >= low && *value <= high) return {};
  return "\"" + std::string(text) + "\" is not a whole number between " + std::to_string(low) + " and " +
         std::to_string(high);
}

CLI::Validator between(std::uint64_t low, std::uint64_t high) {
  return {[low, high](std::string& text) { return complaint(text, low, high); },
          std::to_string(low) + " - " + std::to_string(high)};
}

constexpr std::uint64_t max_faults = 1'000'000;

// "kind=N".
void add_fault(std::string_view text, per_fault<std::uint64_t>& faults) {
  const std::size_t equals = (std::min)(text.find('='), text.size());
  const auto name = std::ranges::find(fault_names, text.substr(0, equals));
  if (name == fault_names.end()) {
    std::string names;
    for (const std::string_view known : fault_names) names.append(names.empty() ? "" : ", ").append(known);
    throw CLI::ValidationError("--faults", "\"" + std::string(text) + "\" does not name one of " + names);
  }
  const std::string_view count = text.substr((std::min)(equals + 1, text.size()));
  if (const std::string wrong = complaint(count, 0, max_faults); !wrong.empty())
    throw CLI::ValidationError("--faults " + std::string(*name), wrong);
  faults[static_cast<std::size_t>(name - fault_names.begin())] = *whole_number(count);
}

}  // namespace

std::optional<int> parse_options(int argc, const char* const* argv, options& into) {
  constexpr std::uint64_t any = (std::numeric_limits<std::uint64_t>::max)();
  std::vector<std::string> faults;
  CLI::App app{
      "Replays a trace of serving traffic over kvpage: continuous batching with verified block tables."};
  app.option_defaults()->always_capture_default();
  app.add_option("--trace", into.trace_file, "Mooncake-format JSONL file; without it, a generated trace")
      ->check([](const std::string& file) { return std::string(file.empty() ? "is empty" : ""); });
  app.add_option("--limit", into.limit, "Replay the first N requests (generated trace: 12000 by default)")
      ->check(between(1, 100'000'000));
  app.add_option("--pages", into.pages, "Usable pages in the pool")
      ->check(between(1, kvpage::max_pages_per_pool - 1));
  app.add_option("--page-size", into.page_size, "Tokens per page")->check(between(1, 1u << 20));
  app.add_option("--max-rows", into.max_rows, "Requests in one decode step")->check(between(1, 65536));
  app.add_option("--prefix-cache", into.prefix_cache,
                 "Let requests share the pages of equal prefixes (on, off)");
  app.add_option(
         "--window", into.window,
         "Tokens that a token attends to; pages behind are given back, and no prefix is shared.  0: all")
      ->check(between(0, kvpage::max_tokens_per_row));
  app.add_option("--backend", into.backend, "Where tables are exported, verified and read")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--policy", into.policy, "Integrity policy")->check(CLI::IsMember({"tagged", "untagged"}));
  app.add_option("--element", into.element, "Element type of the cache")
      ->check(CLI::IsMember({"bf16", "fp16", "fp8_e4m3", "fp8_e5m2"}));
  app.add_option("--faults", faults, "Faults to inject, as KIND=N,...; see below")->delimiter(',');
  app.add_option("--seed", into.seed, "Seed of the generated trace and of the faults")
      ->check(between(0, any));
  app.add_flag("--json", into.json, "Report as JSON");
  app.footer(
      "Kinds of faults:\n"
      "  stale_table   a row keeps a page that was released and granted to another request\n"
      "  early_free    a row's pages are released while it still uses them\n"
      "  wrong_page    an exported page id is swapped for another request's\n"
      "  out_of_range  an exported page id lies outside the pool\n"
      "  short_row     a row's length goes beyond its pages\n"
      "  double_free   a page is released again after another request got it\n"
      "\n"
      "Exit status: 0 if all is well; 1 if the audit fails or, under `tagged`, if a fault goes undetected, "
      "an\n"
      "innocent request is aborted or a foreign read happens; 2 for wrong options, a trace that cannot "
      "be read or a report that cannot be written.");
  try {
    app.parse(argc, argv);
    for (const std::string& fault : faults) add_fault(fault, into.faults);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

}  // namespace replay
