// Plans for one model and GPU: every weight format with every kind of cache.
#pragma once

#include <kvpage/capacity.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model.hpp"

namespace capacity_example {

[[nodiscard]] double to_gib(std::uint64_t bytes);
[[nodiscard]] std::string decimals(double value, int digits);  // "56.6"

// A kind of cache: an element type and a token format.
struct cache_kind {
  std::string element;  // as in element_traits
  kvpage::token_format format;

  [[nodiscard]] std::string label() const;  // "fp8_e4m3", "fp8_e4m3 656 B"
};

struct weights {
  std::string name;
  std::uint64_t bytes;  // on all GPUs together
};

struct question {
  capacity_example::model model;
  std::string gpu;  // its name, if it has one
  std::uint64_t device_bytes = 0;
  std::uint32_t ranks = 1;
  double fraction = 0.9;
  std::uint64_t reserve_bytes = 0;
  std::optional<std::uint64_t> pool_bytes;  // where it is known: `gpu`, fraction, weights don't matter then
  std::uint32_t tokens_per_page = 64;
  std::uint64_t request_tokens = 0;
  std::vector<capacity_example::weights> weights;
  std::vector<cache_kind> caches;
};

// What follows from one weight format; figures are per GPU.
struct plan {
  std::string weights_name;
  std::uint64_t total_weight_bytes = 0;
  std::uint64_t weight_bytes = 0;
  std::uint64_t pool_bytes = 0;
  std::vector<kvpage::capacity> caches{};  // one for each kind of cache; none, if there is a problem
  std::string problem{};                   // why nothing fits
};

struct comparison {
  question asked;
  std::vector<kvpage::cache_page> pages{};  // one for each kind of cache
  std::vector<plan> plans{};
};

// Throws std::invalid_argument for what no weight format could mend.
[[nodiscard]] comparison compare(question asked);

// Both element types of kv caches that engines use, and the published formats that hold this model.
[[nodiscard]] std::vector<cache_kind> usual_caches(const model& model);

}  // namespace capacity_example
