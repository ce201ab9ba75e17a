// Models, GPUs and weight formats that the planner knows by name.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model.hpp"

namespace capacity_example {

struct model_preset {
  std::string_view name;
  std::string_view config;  // the fields of the public config.json that the planner reads
};
[[nodiscard]] std::span<const model_preset> model_presets();

struct gpu_preset {
  std::string_view name;
  double gib;  // the total that CUDA reports (cudaMemGetInfo), of which engines take their fraction
};
[[nodiscard]] std::span<const gpu_preset> gpu_presets();

struct weight_preset {
  std::string_view name;
  kvpage::weight_format format;
  bool experts_only;  // leaves the other matrices in bf16, if there are routed experts

  [[nodiscard]] std::uint64_t bytes(const parameter_counts& parameters) const;
};
[[nodiscard]] std::span<const weight_preset> weight_presets();

// The element of a list that has this name; throws std::invalid_argument that lists the names there are.
template <class T>
[[nodiscard]] const T& find_preset(std::span<const T> presets, std::string_view what, std::string_view name) {
  std::string known;
  for (const T& preset : presets) {
    if (preset.name == name) return preset;
    known += (known.empty() ? "" : ", ") + std::string(preset.name);
  }
  throw std::invalid_argument(std::string(what) + " " + std::string(name) + " is unknown; known are " +
                              known);
}

}  // namespace capacity_example
