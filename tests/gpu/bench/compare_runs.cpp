// Compares two runs. From their reports (--report), computes the largest relative difference
// between losses. From their checkpoints (--save), computes the largest ‖a − b‖₂ / max(‖b‖₂, √n ·
// 0.02) of any tensor (core/run/README.md). Prints one line: losses, parameters, and whether
// the runs are bitwise identical. Exits with 1 if a bound is exceeded.
//
//   compare_runs A.json B.json [A.safetensors B.safetensors] [--within LOSS,PARAMETER]
//   compare_runs --field tokens_per_second A.json       one number of a report; parity.bitwise is 0
//   or 1
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/error.h"
#include "core/model/checkpoint/safetensors.h"

using namespace lockstep;

namespace {

nlohmann::json read_report(const std::string& path) {
  std::ifstream in{path};
  auto report = nlohmann::json::parse(in, nullptr, false);
  if (report.is_discarded()) throw UsageError(path + " is no report; give what --report wrote");
  return report;
}

/// Returns the value at path "a.b.c".
double field_of(const nlohmann::json& report, const std::string& path) {
  const nlohmann::json* at = &report;
  std::istringstream words{path};
  for (std::string word; std::getline(words, word, '.');) {
    if (!at->is_object() || !at->contains(word)) throw UsageError("the report has no " + path);
    at = &(*at)[word];
  }
  if (at->is_boolean()) return at->get<bool>() ? 1 : 0;
  if (!at->is_number()) throw UsageError(path + " is no number");
  return at->get<double>();
}

struct Distance {
  double loss = 0, parameter = 0;
  bool bitwise = true;
  std::string worst;
};

void compare_losses(const nlohmann::json& a, const nlohmann::json& b, Distance& distance) {
  const auto mine = a.at("losses").get<std::vector<double>>();
  const auto theirs = b.at("losses").get<std::vector<double>>();
  if (mine.empty() || mine.size() != theirs.size())
    throw UsageError(fmt::format("{} losses against {}", mine.size(), theirs.size()));
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const double difference = std::abs(mine[i] - theirs[i]) / std::abs(theirs[i]);
    distance.loss = std::isnan(difference) ? INFINITY : std::max(distance.loss, difference);
    distance.bitwise &= mine[i] == theirs[i];
  }
}

void compare_saved(const std::string& a, const std::string& b, Distance& distance) {
  SafetensorsFile mine{a}, theirs{b};
  for (const SafetensorsFile::Entry& entry : theirs.entries()) {
    std::int64_t count = 1;
    for (std::int64_t extent : entry.shape) count *= extent;
    std::vector<float> x(static_cast<std::size_t>(count)), y(x.size());
    mine.read_part(entry.name, 0, View{x.data(), Shape{count}});
    theirs.read_part(entry.name, 0, View{y.data(), Shape{count}});
    double apart = 0, norm = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double difference = static_cast<double>(x[i]) - static_cast<double>(y[i]);
      apart += difference * difference;
      norm += static_cast<double>(y[i]) * static_cast<double>(y[i]);
    }
    const double relative =
        std::sqrt(apart) / std::max(std::sqrt(norm), std::sqrt(static_cast<double>(count)) * 0.02);
    if (!(relative <= distance.parameter)) {
      distance.parameter = std::isnan(relative) ? INFINITY : relative;
      distance.worst = entry.name;
    }
    distance.bitwise &= apart == 0;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> files;
  std::vector<double> within;
  std::string field;
  CLI::App app{"How far one run is from another."};
  app.add_option("files", files, "reports, then what was saved")->required();
  app.add_option("--within", within, "bounds of losses and parameters")
      ->delimiter(',')
      ->expected(2);
  app.add_option("--field", field, "print this number of the report");
  CLI11_PARSE(app, argc, argv);
  try {
    if (!field.empty()) {
      fmt::print("{}\n", field_of(read_report(files.front()), field));
      return 0;
    }
    if (files.size() != 2 && files.size() != 4)
      throw UsageError("two reports, or two reports and two files that were saved");
    Distance distance;
    compare_losses(read_report(files[0]), read_report(files[1]), distance);
    if (files.size() == 4) compare_saved(files[2], files[3], distance);
    fmt::print("losses {:.1e}, parameters {:.1e}{}{}\n", distance.loss, distance.parameter,
               distance.worst.empty() ? "" : " (" + distance.worst + ")",
               distance.bitwise ? ", bitwise" : "");
    const bool good =
        within.empty() || (distance.loss <= within[0] && distance.parameter <= within[1]);
    return good ? 0 : 1;
  } catch (const UsageError& error) {
    fmt::print(stderr, "compare_runs: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "compare_runs: {}\n", error.what());
    return 1;
  }
}
