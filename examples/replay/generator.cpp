#include <algorithm>
#include <array>
#include <random>

#include "trace.hpp"

namespace replay {
namespace {

// A distribution by its quantiles, straight lines in between.
struct quantile {
  double fraction;
  double value;
};
using distribution = std::array<quantile, 11>;

// Measured on the conversation trace of Mooncake's FAST'25 release: 12 031 requests in 1 180 bursts, one
// every 3 s; 39 % of them go on from a prefix that another request had before, all share the first block.
constexpr distribution input_length = {{{0, 891},
                                        {.01, 894},
                                        {.05, 901},
                                        {.10, 964},
                                        {.25, 2306},
                                        {.50, 6909},
                                        {.75, 15368},
                                        {.90, 27367},
                                        {.95, 39552},
                                        {.99, 85401},
                                        {1, 126195}}};
constexpr distribution output_length = {{{0, 1},
                                         {.01, 3},
                                         {.05, 10},
                                         {.10, 24},
                                         {.25, 156},
                                         {.50, 350},
                                         {.75, 472},
                                         {.90, 597},
                                         {.95, 698},
                                         {.99, 1120},
                                         {1, 2000}}};
constexpr double burst_interval_ms = 3000;
constexpr double same_burst = 1 - 1180.0 / 12031;
constexpr double goes_on = 0.39;
constexpr std::uint64_t first_block = 0;

// The standard library's distributions differ between implementations; its generators don't.
class source {
 public:
  explicit source(std::uint64_t seed) : bits_(seed) {}

  double uniform() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }  // [0, 1)
  bool chance(double probability) { return uniform() < probability; }
  std::size_t below(std::size_t bound) {
    return static_cast<std::size_t>(uniform() * static_cast<double>(bound));
  }

  std::uint32_t draw(const distribution& of) {
    const double fraction = uniform();
    const auto high = std::ranges::upper_bound(of, fraction, {}, &quantile::fraction);
    const auto low = high - 1;
    const double share = (fraction - low->fraction) / (high->fraction - low->fraction);
    return static_cast<std::uint32_t>(low->value + share * (high->value - low->value));
  }

 private:
  std::mt19937_64 bits_;
};

}  // namespace

trace generate_trace(std::size_t count, std::uint64_t seed) {
  source random(seed);
  trace requests;
  requests.reserve(count);
  std::uint64_t next_block = first_block + 1;
  double now = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i != 0 && !random.chance(same_burst)) now += burst_interval_ms;
    trace_request request{.timestamp_ms = now,
                          .input_length = random.draw(input_length),
                          .output_length = random.draw(output_length),
                          .hash_ids = {first_block}};
    const std::size_t blocks = (request.input_length + tokens_per_block - 1) / tokens_per_block;
    if (i != 0 && random.chance(goes_on)) {
      request.hash_ids = requests[random.below(i)].hash_ids;
      request.hash_ids.resize((std::min)(request.hash_ids.size(), blocks));
    }
    while (request.hash_ids.size() < blocks) request.hash_ids.push_back(next_block++);
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace replay
