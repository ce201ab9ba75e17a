// Operations as bytes: the same four mean the same call to the random tests, the corpus and the fuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvpage_model {

// What `kind` is and what the arguments say is up to the subject; every value means something to it.
struct operation {
  std::uint8_t kind, a, b, c;
};
using sequence = std::vector<operation>;

inline sequence decode(std::span<const std::uint8_t> bytes) {
  sequence operations;
  for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4)
    operations.push_back({bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]});
  return operations;
}

inline sequence random_sequence(std::uint64_t seed, std::size_t length) {
  std::mt19937_64 random{seed};
  std::vector<std::uint8_t> bytes(4 * length);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random() >> 32);
  return decode(bytes);
}

// A line an operation, in decimal: the corpus' format.
inline std::string to_text(const sequence& operations) {
  std::ostringstream text;
  for (const operation& o : operations) text << +o.kind << ' ' << +o.a << ' ' << +o.b << ' ' << +o.c << '\n';
  return text.str();
}

inline sequence from_text(std::istream& text) {
  std::vector<std::uint8_t> bytes;
  for (unsigned byte = 0; text >> byte;) bytes.push_back(static_cast<std::uint8_t>(byte));
  return decode(bytes);
}

// The subject and its oracle disagree.
struct difference : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require(bool agreed, const char* what) {
  if (!agreed) [[unlikely]]
    throw difference(what);
}

}  // namespace kvpage_model
