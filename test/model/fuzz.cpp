// A libFuzzer target: the first byte chooses the subject, the others are operations.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <tuple>

#include "replay.hpp"
#include "subjects.hpp"

namespace {

template <class Subject>
void run(const kvpage_model::sequence& operations) {
  const std::string found = kvpage_model::replay<Subject>(operations);
  if (found.empty()) return;
  const std::string text = kvpage_model::to_text(kvpage_model::shrunk<Subject>(operations));
  std::fprintf(stderr, "%s; as a file for the corpus:\n%s", found.c_str(), text.c_str());
  std::abort();
}

template <class... Subjects>
void run_one_of(std::tuple<Subjects...>*, std::size_t chosen, const kvpage_model::sequence& operations) {
  std::size_t i = 0;
  ((i++ == chosen % sizeof...(Subjects) ? run<Subjects>(operations) : void()), ...);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span bytes{data, size};
  run_one_of(static_cast<kvpage_model::subjects<std::tuple>*>(nullptr), bytes[0],
             kvpage_model::decode(bytes.subspan(1)));
  return 0;
}
