#include "replay.hpp"

#include <stdexcept>

#include "scheduler.hpp"

namespace replay {
namespace {

template <class E>
report run_with(const options& chosen, const trace& requests) {
  if (chosen.policy == "untagged") return scheduler<E, kvpage::untagged>(chosen, requests).run();
  return scheduler<E, kvpage::tagged>(chosen, requests).run();
}

}  // namespace

report run_replay(const options& chosen, const trace& requests) {
  if (chosen.element == "bf16") return run_with<kvpage::bf16>(chosen, requests);
  if (chosen.element == "fp16") return run_with<kvpage::fp16>(chosen, requests);
  if (chosen.element == "fp8_e4m3") return run_with<kvpage::fp8_e4m3>(chosen, requests);
  if (chosen.element == "fp8_e5m2") return run_with<kvpage::fp8_e5m2>(chosen, requests);
  throw std::invalid_argument("no element type is called " + chosen.element);
}

}  // namespace replay
