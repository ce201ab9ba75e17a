#include "report.hpp"

#include <iomanip>
#include <nlohmann/json.hpp>
#include <ostream>

namespace replay {
namespace {

constexpr int name_width = 34;
constexpr int number_width = 12;

template <class Number>
void line(std::ostream& out, std::string_view name, Number number) {
  out << std::left << std::setw(name_width) << name << std::right << std::setw(number_width) << number
      << '\n';
}

}  // namespace

void write_table(std::ostream& out, const report& of, const options& chosen) {
  out << "kvpage-replay: " << chosen.pages << " pages of " << chosen.page_size << " tokens, "
      << chosen.element << ", " << chosen.policy << ", on " << chosen.backend << "\n\n";
  line(out, "requests", of.requests);
  line(out, "  completed", of.completed);
  line(out, "  aborted", of.aborted);
  line(out, "  rejected (larger than the pool)", of.rejected);
  line(out, "preemptions", of.preempted);
  line(out, "steps", of.steps);
  line(out, "tokens decoded", of.tokens);
  line(out, "pages granted", of.pages.granted);
  line(out, "pages released", of.pages.released);
  line(out, "pages retired", of.pages.retired);
  line(out, "peak live pages", of.pages.peak_live);
  line(out, "rows verified", of.rows_verified);
  line(out, "entries verified", of.entries_verified);

  out << "\nprefix cache\n";
  line(out, "  prompt tokens", of.prefix.prompt_tokens);
  line(out, "  found in the cache", of.prefix.cached_tokens);
  line(out, "  blocks of 512 tokens", of.prefix.blocks);
  line(out, "  leading ones seen before", of.prefix.blocks_seen);
  line(out, "    found in the cache", of.prefix.blocks_found);
  line(out, "    prompt ends within", of.prefix.blocks_partial);
  line(out, "    prompt ends there", of.prefix.blocks_last);
  line(out, "    evicted or being computed", of.prefix.blocks_missed);
  line(out, "  pages evicted", of.prefix.evicted_pages);

  out << '\n' << std::left << std::setw(name_width - number_width) << "fault" << std::right;
  for (const char* column : {"asked for", "injected", "detected"}) out << std::setw(number_width) << column;
  out << '\n';
  for (std::size_t kind = 0; kind < fault_names.size(); ++kind) {
    out << std::left << std::setw(name_width - number_width) << fault_names[kind] << std::right;
    for (const std::uint64_t count : {chosen.faults[kind], of.injected[kind], of.detected[kind]})
      out << std::setw(number_width) << count;
    out << '\n';
  }
  line(out, "innocents aborted", of.innocents_aborted);
  line(out, "foreign reads", of.foreign_reads);

  out << std::fixed << std::setprecision(2);
  if (chosen.backend == "cuda") {
    out << "\non the device, before attention\n";
    line(out, "  launches per step", of.launches_per_step);
    line(out, "  bytes uploaded per step", of.bytes_uploaded_per_step);
  }
  if (of.is_timed) {
    out << "\nspent in the library\n";
    line(out, "  ns per page granted or released", of.ns_per_page);
    line(out, "  ns per page admitted", of.ns_per_admitted_page);
    line(out, "  ns per entry verified", of.ns_per_entry);
    line(out, "  us per step", of.us_per_step);
  } else {
    out << "\nNothing is timed where kernels are interpreted.\n";
  }

  out << "\naudit: " << of.audit << '\n';
}

void write_json(std::ostream& out, const report& of) {
  using json = nlohmann::ordered_json;
  const auto time = [&](double value) { return of.is_timed ? json(value) : json(nullptr); };
  json faults;
  for (std::size_t kind = 0; kind < fault_names.size(); ++kind) {
    faults[std::string(fault_names[kind])] = {{"injected", of.injected[kind]},
                                              {"detected", of.detected[kind]}};
  }
  const json object = {
      {"requests", of.requests},
      {"completed", of.completed},
      {"aborted", of.aborted},
      {"preempted", of.preempted},
      {"rejected", of.rejected},
      {"steps", of.steps},
      {"tokens", of.tokens},
      {"rows_verified", of.rows_verified},
      {"entries_verified", of.entries_verified},
      {"faults", faults},
      {"innocents_aborted", of.innocents_aborted},
      {"foreign_reads", of.foreign_reads},
      {"pages",
       {{"capacity", of.pages.capacity},
        {"peak_live", of.pages.peak_live},
        {"granted", of.pages.granted},
        {"released", of.pages.released},
        {"retired", of.pages.retired}}},
      {"prefix",
       {{"prompt_tokens", of.prefix.prompt_tokens},
        {"cached_tokens", of.prefix.cached_tokens},
        {"blocks", of.prefix.blocks},
        {"blocks_seen", of.prefix.blocks_seen},
        {"blocks_found", of.prefix.blocks_found},
        {"blocks_partial", of.prefix.blocks_partial},
        {"blocks_last", of.prefix.blocks_last},
        {"blocks_missed", of.prefix.blocks_missed},
        {"evicted_pages", of.prefix.evicted_pages}}},
      {"audit", of.audit},
      {"ns_per_page", time(of.ns_per_page)},
      {"ns_per_admitted_page", time(of.ns_per_admitted_page)},
      {"ns_per_entry", time(of.ns_per_entry)},
      {"us_per_step", time(of.us_per_step)},
      {"launches_per_step", of.launches_per_step},
      {"bytes_uploaded_per_step", of.bytes_uploaded_per_step},
  };
  out << object.dump(2) << '\n';
}

int exit_status(const report& of, bool verified) {
  const bool kept_apart = of.detected == of.injected && of.innocents_aborted == 0 && of.foreign_reads == 0;
  return of.audit_clean && (kept_apart || !verified) ? 0 : 1;
}

}  // namespace replay
