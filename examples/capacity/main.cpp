// kvpage-capacity: how many tokens and concurrent requests a deployment's KV cache holds, for element types
// and weight formats side by side.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "comparison.hpp"
#include "plot.hpp"
#include "presets.hpp"
#include "report.hpp"

namespace {

using namespace capacity_example;

struct arguments {
  std::string model = "kimi-k2.6";
  std::string config;
  std::string gpu = "h200";
  double gpu_gib = 0;
  std::int64_t tp = 8;
  double mem_fraction = 0.9;
  double reserve_gib = 0;
  double pool_gib = 0;
  std::vector<std::string> weights{"bf16", "fp8", "int4-g32"};
  std::vector<double> weights_gib;
  std::vector<std::string> elements;
  std::vector<std::string> formats;
  std::int64_t page_size = 64;
  std::int64_t request_tokens = 8'192;
  bool json = false;
  std::string plot;
};

constexpr double largest_gib = 1024.0 * 1024.0;  // a PiB

// CLI::Range takes NaN for a number in range.
auto between(double low, double high) {
  return [low, high](const std::string& text) -> std::string {
    if (text.empty()) return "is empty";
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || *end != '\0') return {};  // not a number: the conversion says so
    if (value >= low && value <= high) return {};
    return "is " + text + "; it must be between " + decimals(low, low < 1 && low > 0 ? 3 : 0) + " and " +
           decimals(high, 0);
  };
}

std::string not_empty(const std::string& text) { return text.empty() ? "is empty" : ""; }

template <class T>
std::string names_of(std::span<const T> presets) {
  std::string names;
  for (const T& preset : presets) names += (names.empty() ? "" : ", ") + std::string(preset.name);
  return names;
}

void declare(CLI::App& app, arguments& given) {
  const auto gib = between(0.001, largest_gib);
  auto* const model =
      app.add_option("--model", given.model, "preset: " + names_of(model_presets()))->capture_default_str();
  app.add_option("--config", given.config, "a Hugging Face config.json instead of a preset")
      ->check(not_empty)
      ->excludes(model);
  auto* const gpu =
      app.add_option("--gpu", given.gpu, "preset: " + names_of(gpu_presets()))->capture_default_str();
  auto* const gpu_gib = app.add_option("--gpu-gib", given.gpu_gib, "memory of one GPU instead of a preset")
                            ->check(gib)
                            ->excludes(gpu);
  app.add_option("--tp", given.tp, "tensor-parallel GPUs")->check(between(1, 65'536))->capture_default_str();
  auto* const fraction = app.add_option("--mem-fraction", given.mem_fraction,
                                        "part of a GPU that the engine takes, weights included")
                             ->check(between(0.001, 1))
                             ->capture_default_str();
  auto* const reserve = app.add_option("--reserve-gib", given.reserve_gib,
                                       "of that part, a GPU's activations, graphs and the like")
                            ->check(between(0, largest_gib))
                            ->capture_default_str();
  auto* const weights = app.add_option("--weights", given.weights, names_of(weight_presets()))
                            ->delimiter(',')
                            ->capture_default_str();
  auto* const weights_gib =
      app.add_option("--weights-gib", given.weights_gib, "sizes instead of formats, of all GPUs together")
          ->check(gib)
          ->delimiter(',')
          ->excludes(weights);
  auto* const pool =
      app.add_option("--pool-gib", given.pool_gib, "a GPU's KV pool, where it is known")->check(gib);
  for (auto* const other : {gpu, gpu_gib, fraction, reserve, weights, weights_gib}) pool->excludes(other);
  app.add_option("--element", given.elements, "bf16, fp16, fp8_e4m3, fp8_e5m2; default: those in use")
      ->check(CLI::IsMember({"bf16", "fp16", "fp8_e4m3", "fp8_e5m2"}))
      ->delimiter(',');
  app.add_option("--format", given.formats, "flat, mla-656, mla-584; default: those that hold the model")
      ->check(CLI::IsMember({"flat", "mla-656", "mla-584"}))
      ->delimiter(',');
  app.add_option("--page-size", given.page_size, "tokens in a page")
      ->check(between(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--request-tokens", given.request_tokens, "tokens that each request reaches")
      ->check(between(1, double{kvpage::max_tokens_per_row}))
      ->capture_default_str();
  app.add_flag("--json", given.json, "JSON instead of tables");
  app.add_option("--plot", given.plot, "also draw an SVG, with gnuplot")->check(not_empty);
}

std::uint64_t bytes_of(double gib) { return static_cast<std::uint64_t>(std::llround(std::ldexp(gib, 30))); }

model read_model(const arguments& given) {
  if (given.config.empty()) {
    const model_preset& preset = find_preset(model_presets(), "--model", given.model);
    return model_from_config(std::string(preset.name), preset.config);
  }
  std::ifstream file(given.config);
  if (!file || std::filesystem::is_directory(given.config))
    throw std::invalid_argument(given.config + " cannot be read");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  try {
    return model_from_config(given.config, text);
  } catch (const std::invalid_argument& refused) {
    throw std::invalid_argument(given.config + ": " + refused.what());
  }
}

// Every element type in every format that was asked for; what goes together, where one of them was left open.
std::vector<cache_kind> read_caches(const arguments& given, const model& model) {
  if (given.elements.empty() && given.formats.empty()) return usual_caches(model);
  std::vector<cache_kind> kinds;
  for (const std::string& format : given.formats.empty() ? std::vector<std::string>{"flat"} : given.formats) {
    const auto parsed = format == "flat"      ? kvpage::token_format::flat
                        : format == "mla-656" ? kvpage::token_format::mla_656
                                              : kvpage::token_format::mla_584;
    std::vector<std::string> elements = given.elements;
    if (elements.empty()) elements = {"fp8_e4m3"};
    if (given.elements.empty() && parsed == kvpage::token_format::flat) elements = {"bf16", "fp8_e4m3"};
    for (const std::string& element : elements) {
      if (parsed != kvpage::token_format::flat && element != "fp8_e4m3")
        throw std::invalid_argument("--element " + element + ": --format " + format +
                                    " is published for fp8_e4m3 alone");
      kinds.push_back({element, parsed});
    }
  }
  return kinds;
}

std::vector<weights> read_weights(const arguments& given, const model& model) {
  std::vector<weights> read;
  if (given.pool_gib != 0) return {{"", 0}};
  for (const double gib : given.weights_gib) read.push_back({decimals(gib, 1) + "-GiB", bytes_of(gib)});
  if (!read.empty()) return read;
  for (const std::string& name : given.weights)
    read.push_back({name, find_preset(weight_presets(), "--weights", name).bytes(model.parameters)});
  return read;
}

question read_question(const arguments& given) {
  question asked;
  asked.model = read_model(given);
  asked.ranks = static_cast<std::uint32_t>(given.tp);
  asked.tokens_per_page = static_cast<std::uint32_t>(given.page_size);
  asked.request_tokens = static_cast<std::uint64_t>(given.request_tokens);
  asked.caches = read_caches(given, asked.model);
  asked.weights = read_weights(given, asked.model);
  if (given.pool_gib != 0) {
    asked.pool_bytes = bytes_of(given.pool_gib);
    return asked;
  }
  const bool is_preset = given.gpu_gib == 0;
  if (is_preset) asked.gpu = given.gpu;
  asked.device_bytes =
      bytes_of(is_preset ? find_preset(gpu_presets(), "--gpu", given.gpu).gib : given.gpu_gib);
  asked.fraction = given.mem_fraction;
  asked.reserve_bytes = bytes_of(given.reserve_gib);
  return asked;
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app{"What fits in a KV cache, before it is deployed.  Sizes are in GiB (2^30 bytes)."};
  arguments given;
  declare(app, given);
  app.footer(
      "Exit status: 0 if something fits, 1 if nothing does or no plot could be drawn, 2 for a wrong "
      "question.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  const comparison result = compare(read_question(given));
  (given.json ? print_json : print_text)(std::cout, result);
  if (!std::cout.flush()) throw std::runtime_error("the plan could not be written");
  if (!given.plot.empty()) write_plot(result, given.plot);

  for (const plan& made : result.plans)
    if (made.problem.empty()) return 0;
  std::cerr << "kvpage-capacity: " << result.plans.front().problem << '\n';
  return 1;
} catch (const std::invalid_argument& refused) {
  std::cerr << "kvpage-capacity: " << refused.what() << '\n';
  return 2;
} catch (const std::exception& failure) {
  std::cerr << "kvpage-capacity: " << failure.what() << '\n';
  return 1;
}
