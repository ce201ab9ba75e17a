#include "report.hpp"

#include <algorithm>
#include <functional>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>

namespace capacity_example {
namespace {

constexpr int label_width = 34;
constexpr int column_width = 18;

// One quantity of every kind of cache, side by side.
void print_row(std::ostream& out, std::string_view label, std::size_t caches,
               const std::function<std::string(std::size_t)>& cell) {
  out << "  " << std::left << std::setw(label_width) << label << std::right;
  for (std::size_t cache = 0; cache < caches; ++cache) out << std::setw(column_width) << cell(cache);
  out << '\n';
}

void print_plan(std::ostream& out, const comparison& result, const plan& made) {
  const question& asked = result.asked;
  if (asked.pool_bytes) {
    out << "\nKV pool of " << decimals(to_gib(made.pool_bytes), 1) << " GiB";
  } else {
    out << '\n'
        << made.weights_name << " weights: " << decimals(to_gib(made.total_weight_bytes), 1)
        << " GiB in all, " << decimals(to_gib(made.weight_bytes), 1) << " a GPU";
    if (made.pool_bytes != 0) out << ", KV pool of " << decimals(to_gib(made.pool_bytes), 1) << " GiB";
  }
  if (!made.problem.empty()) {
    out << "\n  does not fit: " << made.problem << '\n';
    return;
  }
  out << '\n';

  const std::size_t caches = made.caches.size();
  const auto row = [&](std::string_view label, const auto& number) {
    print_row(out, label, caches, [&](std::size_t cache) { return grouped(number(cache)); });
  };
  print_row(out, "", caches, [&](std::size_t cache) { return asked.caches[cache].label(); });
  row("bytes per token", [&](std::size_t cache) { return result.pages[cache].token_bytes(); });
  row("bytes per page", [&](std::size_t cache) { return result.pages[cache].page_bytes(); });
  row("pages", [&](std::size_t cache) { return made.caches[cache].pages; });
  row("tokens", [&](std::size_t cache) { return made.caches[cache].tokens; });
  row("requests of " + grouped(asked.request_tokens) + " tokens",
      [&](std::size_t cache) { return made.caches[cache].requests; });
  print_row(out, "limited by", caches,
            [&](std::size_t cache) { return std::string(kvpage::to_string(made.caches[cache].limit)); });
}

void print_gain(std::ostream& out, const comparison& result, std::size_t from, std::size_t to) {
  const std::optional<gain> first = gain_between(result, from, to, 0);
  if (!first) return;
  const std::size_t caches = result.asked.caches.size();
  const std::string freed = decimals(to_gib(first->freed_bytes), 1) + " GiB";
  const std::string pool = decimals(to_gib(result.plans[to].pool_bytes), 1) + " GiB";
  out << "\nFrom " << result.plans[from].weights_name << " to " << result.plans[to].weights_name
      << " weights, " << freed << " a GPU more.  Tokens, in two readings:\n";
  print_row(out, "added: " + freed + " / bytes per token", caches,
            [&](std::size_t cache) { return grouped(gain_between(result, from, to, cache)->freed_tokens); });
  print_row(out, "then in all: the pool of " + pool, caches,
            [&](std::size_t cache) { return grouped(gain_between(result, from, to, cache)->tokens_after); });
}

std::string_view format_name(kvpage::token_format format) {
  switch (format) {
    case kvpage::token_format::flat: return "flat";
    case kvpage::token_format::mla_656: return "mla-656";
    case kvpage::token_format::mla_584: return "mla-584";
  }
  return "unknown";
}

nlohmann::ordered_json cache_json(const comparison& result, const plan& made, std::size_t cache) {
  const kvpage::capacity& fits = made.caches[cache];
  return {{"element", result.asked.caches[cache].element},
          {"format", format_name(result.asked.caches[cache].format)},
          {"bytes_per_token", result.pages[cache].token_bytes()},
          {"bytes_per_page", result.pages[cache].page_bytes()},
          {"pages", fits.pages},
          {"tokens", fits.tokens},
          {"pages_per_request", fits.request_pages},
          {"requests", fits.requests},
          {"limited_by", kvpage::to_string(fits.limit)}};
}

}  // namespace

std::string grouped(std::uint64_t value) {
  const std::string digits = std::to_string(value);
  std::string result;
  for (std::size_t place = 0; place < digits.size(); ++place) {
    if (place != 0 && (digits.size() - place) % 3 == 0) result += ' ';
    result += digits[place];
  }
  return result;
}

std::string deployment(const question& asked) {
  const std::string gpus = std::to_string(asked.ranks);
  return asked.model.name + " on " + gpus + (asked.gpu.empty() ? " GPUs" : " x " + asked.gpu);
}

std::optional<gain> gain_between(const comparison& result, std::size_t from, std::size_t to,
                                 std::size_t cache) {
  const plan& before = result.plans[from];
  const plan& after = result.plans[to];
  if (!before.problem.empty() || !after.problem.empty() || after.pool_bytes <= before.pool_bytes)
    return std::nullopt;
  const std::uint64_t freed = after.pool_bytes - before.pool_bytes;
  return gain{freed, freed / result.pages[cache].token_bytes(), after.caches[cache].tokens};
}

void print_text(std::ostream& out, const comparison& result) {
  const question& asked = result.asked;
  out << deployment(asked);
  if (!asked.pool_bytes)
    out << " (" << decimals(to_gib(asked.device_bytes), 1) << " GiB each, of which "
        << decimals(100.0 * asked.fraction, 1) << " %, reserve " << decimals(to_gib(asked.reserve_bytes), 1)
        << " GiB)";
  out << "\npages of " << asked.tokens_per_page << " tokens; every figure is that of one GPU\n";
  for (const plan& made : result.plans) print_plan(out, result, made);
  for (std::size_t to = 1; to < result.plans.size(); ++to) print_gain(out, result, to - 1, to);
}

void print_json(std::ostream& out, const comparison& result) {
  using nlohmann::ordered_json;
  const question& asked = result.asked;
  ordered_json document{{"model", asked.model.name},
                        {"layers", asked.model.layers},
                        {"parameters", asked.model.parameters.total()},
                        {"gpus", asked.ranks},
                        {"tokens_per_page", asked.tokens_per_page},
                        {"request_tokens", asked.request_tokens}};
  if (!asked.pool_bytes) {
    document["gpu"] = asked.gpu;
    document["gpu_gib"] = to_gib(asked.device_bytes);
    document["mem_fraction"] = asked.fraction;
    document["reserve_gib"] = to_gib(asked.reserve_bytes);
  }
  document["plans"] = ordered_json::array();
  for (const plan& made : result.plans) {
    ordered_json entry;
    if (!asked.pool_bytes) {
      entry["weights"] = made.weights_name;
      entry["weights_gib"] = to_gib(made.total_weight_bytes);
      entry["weights_gib_per_gpu"] = to_gib(made.weight_bytes);
    }
    entry["pool_gib_per_gpu"] = to_gib(made.pool_bytes);
    if (!made.problem.empty()) entry["problem"] = made.problem;
    entry["caches"] = ordered_json::array();
    for (std::size_t cache = 0; cache < made.caches.size(); ++cache)
      entry["caches"].push_back(cache_json(result, made, cache));
    document["plans"].push_back(entry);
  }
  document["gains"] = ordered_json::array();
  for (std::size_t to = 1; to < result.plans.size(); ++to)
    for (std::size_t cache = 0; cache < asked.caches.size(); ++cache)
      if (const std::optional<gain> bought = gain_between(result, to - 1, to, cache))
        document["gains"].push_back({{"from", result.plans[to - 1].weights_name},
                                     {"to", result.plans[to].weights_name},
                                     {"element", asked.caches[cache].element},
                                     {"format", format_name(asked.caches[cache].format)},
                                     {"freed_gib_per_gpu", to_gib(bought->freed_bytes)},
                                     {"tokens_added", bought->freed_tokens},
                                     {"tokens_after", bought->tokens_after}});
  out << document.dump(2) << '\n';
}

}  // namespace capacity_example
