#include "device_backend.cuh"
#include "dispatch.hpp"
#include "replay.hpp"

namespace replay {

report run_on_device(const options& chosen, const trace& requests) {
  return run_with<device_backend>(chosen, requests);
}

}  // namespace replay
