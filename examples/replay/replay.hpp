// kvpage-replay: one replay, with the element type and the policy chosen when it starts.
#pragma once

#include "options.hpp"
#include "report.hpp"
#include "trace.hpp"

namespace replay {

// Throws std::invalid_argument for options that the library refuses.
[[nodiscard]] report run_replay(const options& chosen, const trace& requests);

}  // namespace replay
