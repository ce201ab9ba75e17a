#include "replay.hpp"

#include "dispatch.hpp"
#include "host_backend.hpp"

namespace replay {

report run_replay(const options& chosen, const trace& requests) {
  if (chosen.backend == "cuda") return run_on_device(chosen, requests);
  return run_with<on_host>(chosen, requests);
}

}  // namespace replay
