// A comparison as a picture, drawn by gnuplot.
#pragma once

#include <filesystem>
#include <string>

#include "comparison.hpp"

namespace capacity_example {

// What gnuplot is told: tokens on the left, concurrent requests on the right, a group of bars for each
// weight format and a bar for each kind of cache.
[[nodiscard]] std::string plot_script(const comparison& result, const std::filesystem::path& svg);

// Runs gnuplot.  Throws std::runtime_error if there is none or it fails.
void write_plot(const comparison& result, const std::filesystem::path& svg);

}  // namespace capacity_example
