#include <stdexcept>

#include "replay.hpp"

namespace replay {

report run_on_device(const options&, const trace&) {
  throw std::runtime_error(
      "--backend cuda: this program was built without CUDA (KVPAGE_CUDA=ON builds it in)");
}

}  // namespace replay
