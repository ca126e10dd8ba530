#include "lessons/20_when_ranks_die/goodput/request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/base/error.h"
#include "core/run/options/command_line.h"
#include "core/run/options/given.h"
#include "lessons/20_when_ranks_die/goodput/durations.h"

namespace lockstep {

namespace {

/// A flag that takes a duration.
struct DurationFlag {
  const char* name;
  double& seconds;
  std::string text;  ///< the default, and then what is given
  const char* help;
};

/// The words of --strategy, in the order of the enumerators.
constexpr const char* strategy_words[] = {"restart", "memory", "quorum", "spares"};

std::vector<int> ranks_in(const std::string& list) {
  std::vector<int> ranks;
  std::istringstream words{list + ","};
  for (std::string word; std::getline(words, word, ',');) {
    const std::optional<int> number = whole_number(word, 1);
    if (!number)
      throw UsageError(fmt::format("--ranks {}: '{}' {}", list, word, why_refused(word, 1)));
    ranks.push_back(*number);
  }
  return ranks;
}

std::pair<double, double> range_in(const std::string& text) {
  const auto dots = text.find("..");
  if (dots == std::string::npos)
    throw UsageError(fmt::format("--every {}: must be a range such as 45min..75min", text));
  const double low = duration_of("--every", text.substr(0, dots));
  const double high = duration_of("--every", text.substr(dots + 2));
  if (!(high > 0) || low > high)
    throw UsageError(fmt::format("--every {}: the range must go up, and end above 0; use {}..{}",
                                 text, duration_text(std::min(low, high)),
                                 duration_text(std::max({low, high, 1.0}))));
  return {low, high};
}

/// Refuses flags that the strategy, or --published, does not use.
void check_used(const CommandLine& line, const GoodputRequest& request) {
  const std::vector<std::pair<std::string, std::vector<Strategy>>> users{
      {"--checkpoint", {Strategy::restart, Strategy::quorum, Strategy::spares}},
      {"--hidden", {Strategy::restart}},
      {"--restart", {Strategy::restart, Strategy::memory, Strategy::quorum}},
      {"--snapshot", {Strategy::memory}},
      {"--transfer", {Strategy::memory}},
      {"--write", {Strategy::memory}},
      {"--reload", {Strategy::memory}},
      {"--replicas", {Strategy::quorum}},
      {"--replace", {Strategy::quorum}},
      {"--heal", {Strategy::quorum}},
      {"--spares", {Strategy::spares}},
      {"--takeover", {Strategy::spares}},
      {"--repair", {Strategy::spares}}};
  for (const CLI::Option* option : line.app.get_options()) {
    const std::string flag = option->get_name();
    if (option->count() == 0 || request.published.empty() || flag == "--published" ||
        flag == "--seed")
      continue;
    throw UsageError(fmt::format(
        "{} with --published {}: the published runs have their own values; leave one of them out",
        flag, request.published));
  }
  for (const auto& [flag, strategies] : users) {
    if (line.app.count(flag) == 0 || !request.strategy ||
        std::ranges::count(strategies, *request.strategy) > 0)
      continue;
    std::vector<std::string> names;
    for (const Strategy strategy : strategies) names.push_back(name_of(strategy));
    throw UsageError(
        fmt::format("{}: --strategy {} does not use it; leave it out, or use --strategy {}", flag,
                    name_of(*request.strategy), fmt::join(names, ", ")));
  }
}

void check(const GoodputRequest& request, bool has_runs) {
  const bool quorum = !request.strategy || request.strategy == Strategy::quorum;
  for (const int ranks : request.ranks) {
    if (quorum && ranks % request.replicas != 0)
      throw UsageError(fmt::format(
          "--replicas {} with --ranks {}: the ranks do not divide into {} replicas; use --replicas "
          "{}",
          request.replicas, ranks, request.replicas, ranks % 8 == 0 ? 8 : 1));
  }
  if (!request.strategy && request.ranks.size() > 1)
    throw UsageError(
        "--strategy all: compares the strategies at one number of ranks; give one, such as --ranks "
        "16384");
  if (has_runs && !request.steps)
    throw UsageError("--runs: only finite runs are repeated; also give --steps");
  const double longest =
      request.step * std::max({1.0, request.interval.value_or(1) * 1.0,
                               request.steps.value_or(1) * (1.0 * request.runs.value_or(1000))});
  if (longest > 1e11)
    throw UsageError(fmt::format(
        "--step, --steps, --interval: they make {} of training; use less than 3,000 years",
        duration_text(longest)));
  if (!request.report.empty() && !std::ofstream{request.report, std::ios::app})
    throw UsageError(fmt::format("--report {}: can't be written", request.report));
}

}  // namespace

std::string name_of(Strategy strategy) {
  return strategy_words[static_cast<std::size_t>(strategy)];
}

namespace {

std::optional<GoodputRequest> request_from(CommandLine& line, int argc, char** argv) {
  GoodputRequest request;
  std::string ranks = "8,64,512,4096,16384", strategy = "restart", law = "exponential", every;
  std::string device_mtbf;
  std::vector<std::string> strategies{std::begin(strategy_words), std::end(strategy_words)};
  strategies.emplace_back("all");
  const std::vector<std::string> laws{"exponential", "weibull"};
  std::string shape = "0.7";

  line.app.name("./lockstep goodput");
  line.app.description(
      "How much of its time does a job keep, if ranks die? Draws failures, simulates the job on "
      "the "
      "modelled clock, and compares the goodput with the formulas of Young and Daly.");
  line.app.get_formatter()->column_width(30);
  line.app.option_defaults()->group("The job");
  line.word("--ranks", ranks, "numbers of devices; with only one, lists several intervals");
  line.choice("--strategy", strategy, strategies,
              "what happens after a failure; all: compares them at one number of ranks");
  line.number("--interval", request.interval, "steps between two checkpoints [the best]");
  line.number("--steps", request.steps, "simulate finite runs of this many steps");
  line.number("--runs", request.runs, "number of finite runs [1000]");

  std::vector<DurationFlag> times{
      {"--step", request.step, "6s", "time of a step"},
      {"--checkpoint", request.checkpoint, "60s", "time for which training waits for a checkpoint"},
      {"--hidden", request.hidden, "0s",
       "after that, time until the checkpoint can be used: it is written beside the next steps"},
      {"--detect", request.detect, "1min", "from a failure until anyone notices it"},
      {"--restart", request.restart, "9min", "from then until all ranks train again"}};
  std::vector<DurationFlag> others{
      {"--snapshot", request.snapshot, "1s",
       "memory: time for which training waits for a copy to a peer's memory"},
      {"--transfer", request.transfer, "5s", "memory: after that, time until the peer has it all"},
      {"--write", request.write, "5min", "memory: time to write a copy to disk, beside the steps"},
      {"--reload", request.reload, "3min", "memory: the restart, from a peer's memory"},
      {"--replace", request.replace, "10min", "quorum: from detection until the replica is back"},
      {"--heal", request.heal, "30s", "quorum: all wait while it copies the state of a peer"},
      {"--takeover", request.takeover, "1min",
       "spares: from detection until a spare has taken over"},
      {"--repair", request.repair, "1d", "spares: until a failed device is a spare again"}};
  for (DurationFlag& flag : times) line.word(flag.name, flag.text, flag.help);
  line.app.option_defaults()->group("Failures");
  line.word("--device-mtbf", device_mtbf,
            "mean time between failures of one device [50677h, as in the training of Llama 3]");
  line.choice("--law", law, laws, "the distribution of the time between two failures of the job");
  line.word("--shape", shape, "of --law weibull: below 1, failures come in bursts");
  line.word("--every", every,
            "instead: the range of the time between two failures of the job, such as 45min..75min");
  line.number("--failures", request.failures, 1, "failures to simulate for each figure");
  line.number("--seed", request.seed, 0, "of the random numbers");
  line.app.option_defaults()->group("The other strategies");
  for (DurationFlag& flag : others) line.word(flag.name, flag.text, flag.help);
  line.number("--replicas", request.replicas, 1, "quorum: data-parallel replicas");
  line.number("--spares", request.spares, 0, "spares: idle devices");
  line.app.option_defaults()->group("Output");
  line.choice("--published", request.published, {"llama3", "torchpass"},
              "explain published figures with the model");
  line.word("--report", request.report, "write the result to this file as JSON");
  if (!line.parse(argc, argv)) {
    fmt::print("{}", line.app.help());
    return {};
  }

  for (auto* flags : {&times, &others})
    for (DurationFlag& flag : *flags) flag.seconds = duration_of(flag.name, flag.text);
  if (!(request.step >= 1e-3))
    throw UsageError(fmt::format("--step {}: must be at least 1ms", times.front().text));
  request.ranks = ranks_in(ranks);
  request.device_mtbf =
      device_mtbf.empty() ? llama3_device_hours * 3600 : duration_of("--device-mtbf", device_mtbf);
  if (!(request.device_mtbf >= 1))
    throw UsageError(fmt::format("--device-mtbf {}: must be at least 1s", device_mtbf));
  if (law == "weibull") request.law = Law::weibull;
  if (line.app.count("--shape") > 0 && request.law != Law::weibull)
    throw UsageError(fmt::format("--shape {}: only --law weibull has a shape", shape));
  char* end = nullptr;
  request.shape = std::strtod(shape.c_str(), &end);
  if (shape.empty() || *end != '\0' || !(request.shape >= 0.2 && request.shape <= 10))
    throw UsageError(fmt::format("--shape {}: must be a number from 0.2 to 10", shape));
  if (!every.empty()) {
    if (line.app.count("--law") + line.app.count("--device-mtbf") > 0)
      throw UsageError(fmt::format(
          "--every {}: replaces --device-mtbf and --law; give either one or the other", every));
    request.every = range_in(every);
  }
  request.strategy.reset();
  for (std::size_t i = 0; i < std::size(strategy_words); ++i)
    if (strategy == strategy_words[i]) request.strategy = static_cast<Strategy>(i);
  check_used(line, request);
  check(request, line.app.count("--runs") > 0);
  return request;
}

}  // namespace

std::optional<GoodputRequest> parse_goodput(int argc, char** argv) {
  CommandLine line;
  return line.naming_origins([&] { return request_from(line, argc, argv); });
}

}  // namespace lockstep
