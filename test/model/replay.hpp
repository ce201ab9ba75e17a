// Runs operations against a subject, and makes a failing sequence short.
#pragma once

#include <cstddef>
#include <string>

#include "operation.hpp"

namespace kvpage_model {

// Empty if the subject agreed with its oracle throughout.
template <class Subject>
[[nodiscard]] std::string replay(const sequence& operations) {
  try {
    Subject subject;
    for (const operation& next : operations) {
      subject.apply(next);
      subject.compare();
    }
    subject.audit();
  } catch (const difference& found) {
    return found.what();
  }
  return {};
}

// Drops runs of operations, shorter and shorter ones, as long as the sequence still fails.
template <class Subject>
[[nodiscard]] sequence shrunk(sequence failing) {
  for (std::size_t run = failing.size() / 2; run != 0; run /= 2) {
    for (std::size_t at = 0; at + run <= failing.size();) {
      sequence shorter = failing;
      const auto first = shorter.begin() + static_cast<std::ptrdiff_t>(at);
      shorter.erase(first, first + static_cast<std::ptrdiff_t>(run));
      if (replay<Subject>(shorter).empty())
        at += run;
      else
        failing = shorter;
    }
  }
  return failing;
}

}  // namespace kvpage_model
