// kvpage-replay: one replay, with the backend, the element type and the policy chosen when it starts.
#pragma once

#include "options.hpp"
#include "report.hpp"
#include "trace.hpp"

namespace replay {

// Throws std::invalid_argument for options that the library refuses, and as run_on_device().
[[nodiscard]] report run_replay(const options& chosen, const trace& requests);

// With tables, verification and attention on the device.  Throws std::runtime_error if this build has no CUDA
// or a CUDA call fails.
[[nodiscard]] report run_on_device(const options& chosen, const trace& requests);

}  // namespace replay
