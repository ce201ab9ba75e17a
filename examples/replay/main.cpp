// kvpage-replay: replays serving traffic over kvpage, with faults if asked to, and reports what got through.
#include <exception>
#include <iostream>
#include <stdexcept>

#include "options.hpp"
#include "replay.hpp"
#include "report.hpp"
#include "trace.hpp"

int main(int argc, char** argv) try {
  replay::options chosen;
  if (const auto status = replay::parse_options(argc, argv, chosen)) return *status;

  constexpr std::size_t generated = 12000;  // about an hour
  const replay::trace requests = chosen.trace_file.empty()
                                     ? replay::generate_trace(chosen.limit.value_or(generated), chosen.seed)
                                     : replay::read_trace(chosen.trace_file, chosen.limit);
  const replay::report report = replay::run_replay(chosen, requests);
  if (chosen.json) {
    replay::write_json(std::cout, report);
  } else {
    replay::write_table(std::cout, report, chosen);
  }
  if (!std::cout.flush()) throw std::runtime_error("the report could not be written");
  return replay::exit_status(report, chosen.policy == "tagged");
} catch (const std::exception& error) {
  std::cerr << "kvpage-replay: " << error.what() << '\n';
  return 2;
}
