// kvpage-replay: the element type and the policy, chosen when a replay starts.
#pragma once

#include <stdexcept>

#include "options.hpp"
#include "report.hpp"
#include "scheduler.hpp"
#include "trace.hpp"

namespace replay {

template <class E, template <class> class Backend>
[[nodiscard]] report run_with_element(const options& chosen, const trace& requests) {
  if (chosen.policy == "untagged") return scheduler<E, kvpage::untagged, Backend>(chosen, requests).run();
  return scheduler<E, kvpage::tagged, Backend>(chosen, requests).run();
}

template <template <class> class Backend>
[[nodiscard]] report run_with(const options& chosen, const trace& requests) {
  if (chosen.element == "bf16") return run_with_element<kvpage::bf16, Backend>(chosen, requests);
  if (chosen.element == "fp16") return run_with_element<kvpage::fp16, Backend>(chosen, requests);
  if (chosen.element == "fp8_e4m3") return run_with_element<kvpage::fp8_e4m3, Backend>(chosen, requests);
  if (chosen.element == "fp8_e5m2") return run_with_element<kvpage::fp8_e5m2, Backend>(chosen, requests);
  throw std::invalid_argument("no element type is called " + chosen.element);
}

}  // namespace replay
