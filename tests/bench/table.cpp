// Combines the results of benchmark programs (--benchmark_out) into one table and one JSON file:
//
//   lockstep_bench_table OUTPUT.json INPUT.json ...
//
// The counters `value`, `at_least`, `at_most`, `low` and `high` get their own columns; all other
// counters follow on separate lines. Inputs without benchmarks are skipped.

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/base/program.h"

namespace {

using nlohmann::json;

/// The keys that Google Benchmark writes into every result; any other number is a counter.
const std::set<std::string> usual_keys{"family_index", "per_family_instance_index",
                                       "repetitions",  "repetition_index",
                                       "threads",      "iterations",
                                       "real_time",    "cpu_time"};
const std::set<std::string> columns{"value", "at_least", "at_most", "low", "high"};

std::string number(double value) {
  return std::abs(value) >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

/// Strips modifiers such as "/iterations:1" from "threads_send_16MB/iterations:1".
std::string short_name(const std::string& name) {
  for (const char* modifier : {"/iterations:", "/manual_time", "/real_time", "/repeats:"})
    if (const auto at = name.find(modifier); at != std::string::npos) return name.substr(0, at);
  return name;
}

/// Prints one benchmark: its figure and bound on one line, its label and counters below.
void print(const json& result) {
  const std::string name = short_name(result.at("name"));
  if (result.value("error_occurred", false)) {
    fmt::print("{:<30} failed: {}\n", name, result.value("error_message", ""));
    return;
  }
  const auto counter = [&](const char* key) { return result.value(key, std::nan("")); };
  const double value = counter("value");
  std::string figure = std::isnan(value)
                           ? fmt::format("{} {}", number(result.at("real_time").get<double>()),
                                         result.value("time_unit", "ns"))
                           : number(value);
  std::string bound, verdict;
  if (const double least = counter("at_least"); !std::isnan(least)) {
    bound = fmt::format(">= {}", least);
    verdict = value >= least ? "met" : "MISSED";
  } else if (const double most = counter("at_most"); !std::isnan(most)) {
    bound = fmt::format("<= {}", most);
    verdict = value <= most ? "met" : "MISSED";
  }
  std::string range;
  if (!std::isnan(counter("low")))
    range = fmt::format("{} .. {}", number(counter("low")), number(counter("high")));
  fmt::print("{:<30} {:>9}  {:<15} {:<8} {}\n", name, figure, range, bound, verdict);

  std::vector<std::string> more;
  for (const auto& [key, of_key] : result.items())
    if (of_key.is_number() && !usual_keys.contains(key) && !columns.contains(key))
      more.push_back(fmt::format("{} {}", key, number(of_key.get<double>())));
  std::string line = result.value("label", "");
  const auto flush = [&] {
    if (!line.empty()) fmt::print("    {}\n", line);
    line.clear();
  };
  if (!line.empty() && !more.empty()) line += ":";
  for (const std::string& each : more) {
    if (line.size() + each.size() > 92) flush();
    line += (line.empty() ? "" : line.ends_with(':') ? " " : ", ") + each;
  }
  flush();
}

int combine(int argc, char** argv) {
  json all = {{"context", nullptr}, {"benchmarks", json::array()}};
  for (int i = 2; i < argc; ++i) {
    std::ifstream file{argv[i]};
    const json one = json::parse(file, nullptr, false);
    if (one.is_discarded() || !one.contains("benchmarks")) continue;
    if (all["context"].is_null()) all["context"] = one.at("context");
    for (const json& result : one.at("benchmarks")) all["benchmarks"].push_back(result);
  }
  if (argc < 2 || all["benchmarks"].empty()) return 2;

  const json& context = all["context"];
  std::string load;
  for (const json& each : context.value("load_avg", json::array()))
    load += fmt::format(" {:.2f}", each.get<double>());
  const int cores = context.value("num_cpus", 0);
  fmt::print("{} cores, load before{}\n", cores, load);
  if (const json& loads = context.value("load_avg", json::array());
      !loads.empty() && loads[0].get<double>() > 0.5 * cores)
    fmt::print(
        "Others use the cores too: where several ranks share them, figures say little now.\n");
  fmt::print("\n");
  fmt::print("{:<30} {:>9}  {:<15} {:<8}\n", "what", "median", "quartiles", "bound");
  for (const json& result : all["benchmarks"]) print(result);

  std::ofstream file{argv[1]};
  bool failed = false;
  for (const json& result : all["benchmarks"]) failed |= result.value("error_occurred", false);
  file << all.dump(1) << "\n";
  if (!file.flush()) {
    fmt::print(stderr, "{}: can't be written\n", argv[1]);
    return 1;
  }
  return failed ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  return lockstep::run_program([&] { return combine(argc, argv); });
}
