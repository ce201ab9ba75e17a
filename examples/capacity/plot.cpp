#include "plot.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "report.hpp"

namespace capacity_example {
namespace {

// As gnuplot reads it between double quotes.
std::string gnuplot_string(std::string_view text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    if (letter == '\n')
      result += "\\n";
    else if (letter == '`')
      result += "\\140";  // gnuplot would run what stands between two of them
    else
      result += letter;
  }
  return result + '"';
}

std::string group_label(const question& asked, const plan& made) {
  if (asked.pool_bytes) return decimals(to_gib(made.pool_bytes), 1) + " GiB";
  const std::string size = made.weights_name + "\n" + decimals(to_gib(made.weight_bytes), 1) + " GiB";
  return made.problem.empty() ? size : size + ": does not fit";
}

// Rows: weight formats.  Columns: kinds of cache.
void write_table(std::ostream& out, std::string_view name, const comparison& result,
                 const std::function<double(const kvpage::capacity&)>& value) {
  out << '$' << name << " << EOD\n";
  for (const plan& made : result.plans) {
    for (std::size_t cache = 0; cache < result.asked.caches.size(); ++cache)
      out << (made.problem.empty() ? value(made.caches[cache]) : 0.0) << ' ';
    out << '\n';
  }
  out << "EOD\n";
}

// One panel: bars, and above each its value, printed with `digits`.
void write_panel(std::ostream& out, std::string_view table, const comparison& result, const std::string& axis,
                 std::string_view digits) {
  constexpr std::string_view colours[] = {"#7A8CA5", "#1F6FB2", "#E08A1E", "#5B9E4D"};
  const std::size_t caches = result.asked.caches.size();
  const double bar = 1.0 / (static_cast<double>(caches) + 1.0);  // a gap of one bar between groups
  out << "set ylabel " << gnuplot_string(axis) << "\nset xlabel "
      << gnuplot_string(result.asked.pool_bytes ? "KV pool of one GPU"
                                                : "weight format, and its share of one GPU")
      << " offset 0,-1\nset boxwidth " << 0.95 * bar << "\nplot ";
  for (std::size_t cache = 0; cache < caches; ++cache) {
    const double offset = (static_cast<double>(cache) - (static_cast<double>(caches) - 1.0) / 2.0) * bar;
    const std::string place = "($0+" + decimals(offset, 4) + ")";
    const std::string column = std::to_string(cache + 1);
    out << (cache == 0 ? "$" : ", $") << table << " using " << place << ':' << column
        << " with boxes linecolor rgb " << gnuplot_string(colours[cache % std::size(colours)]) << " title "
        << gnuplot_string(result.asked.caches[cache].label()) << ", $" << table << " using " << place << ':'
        << column << ":($" << column << " > 0 ? sprintf(" << gnuplot_string(digits) << ", $" << column
        << ") : '') with labels offset 0,0.6 notitle";
  }
  out << '\n';
}

}  // namespace

std::string plot_script(const comparison& result, const std::filesystem::path& svg) {
  const question& asked = result.asked;
  std::ostringstream out;
  out << "set terminal svg size 1000,460 dynamic background rgb 'white' font 'sans-serif,13' noenhanced\n"
      << "set output " << gnuplot_string(std::filesystem::absolute(svg).string()) << '\n'
      << "set style fill solid\nset grid ytics linecolor rgb '#DDDDDD'\nset border 3\nset tics nomirror\n"
      << "set bmargin 5.5\nset key top left reverse Left\nset yrange [0:*]\nset offsets 0,0,graph 0.22,0\n"
      << "set xrange [-0.6:" << static_cast<double>(result.plans.size()) - 0.4 << "]\n";
  out << "set xtics (";
  for (std::size_t row = 0; row < result.plans.size(); ++row)
    out << (row == 0 ? "" : ", ") << gnuplot_string(group_label(asked, result.plans[row])) << ' ' << row;
  out << ")\n";
  write_table(out, "tokens", result,
              [](const kvpage::capacity& fits) { return static_cast<double>(fits.tokens) / 1e6; });
  write_table(out, "requests", result,
              [](const kvpage::capacity& fits) { return static_cast<double>(fits.requests); });
  out << "set multiplot layout 1,2 title " << gnuplot_string(deployment(asked) + ": what the KV cache holds")
      << '\n';
  write_panel(out, "tokens", result, "tokens (millions)", "%.2f");
  out << "unset key\n";
  write_panel(out, "requests", result, "concurrent requests of " + grouped(asked.request_tokens) + " tokens",
              "%.0f");
  out << "unset multiplot\n";
  return out.str();
}

void write_plot(const comparison& result, const std::filesystem::path& svg) {
  const bool is_new = !std::filesystem::exists(svg);
  if (!std::ofstream(svg, std::ios::app))
    throw std::runtime_error("--plot: " + svg.string() + " cannot be written");
  if (is_new) std::filesystem::remove(svg);  // it was made only to see whether it can be
  if (std::system("command -v gnuplot >/dev/null 2>&1") != 0)
    throw std::runtime_error("--plot needs gnuplot, and there is none on the PATH");
  const std::string script = plot_script(result, svg);
  (void)std::signal(SIGPIPE, SIG_IGN);  // gnuplot may end early; its exit status says so
  std::FILE* const gnuplot = popen("gnuplot", "w");
  if (gnuplot == nullptr) throw std::runtime_error("--plot: gnuplot could not be started");
  const bool written = std::fwrite(script.data(), 1, script.size(), gnuplot) == script.size();
  if (pclose(gnuplot) != 0 || !written)
    throw std::runtime_error("--plot: gnuplot could not write " + svg.string());
}

}  // namespace capacity_example
