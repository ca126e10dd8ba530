#include "lessons/20_when_ranks_die/goodput/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "lessons/20_when_ranks_die/goodput/durations.h"
#include "lessons/20_when_ranks_die/goodput/points.h"

namespace lockstep {

namespace {

using Json = nlohmann::ordered_json;

std::string law_text(const GoodputRequest& request) {
  if (request.every && request.every->first == request.every->second)
    return fmt::format("one of the job every {}", duration_text(request.every->first));
  if (request.every)
    return fmt::format("one of the job every {} to {}, evenly distributed",
                       duration_text(request.every->first), duration_text(request.every->second));
  return fmt::format(
      "one per device every {:.0f} h on average{}", request.device_mtbf / 3600,
      request.law == Law::weibull
          ? fmt::format(", those of the job in bursts (Weibull, shape {})", request.shape)
          : "");
}

void print_heading(const GoodputRequest& request, Strategy strategy) {
  fmt::print("Failures: {}\n", law_text(request));
  fmt::print("Assumed:  a step takes {}", duration_text(request.step));
  if (strategy == Strategy::memory)
    fmt::print(", a copy to a peer's memory {}", duration_text(request.snapshot));
  else
    fmt::print(", a checkpoint {}", duration_text(request.checkpoint));
  if (strategy == Strategy::restart && request.hidden > 0)
    fmt::print(" (usable {} later)", duration_text(request.hidden));
  const RestartModel model = model_for(request, strategy, request.ranks.front());
  fmt::print("; a failure {} to be detected, and {} until {}\n", duration_text(request.detect),
             duration_text(model.restart - request.detect),
             strategy == Strategy::quorum   ? "a replaced replica is up to date"
             : strategy == Strategy::spares ? "a spare has taken over"
                                            : "all ranks train again");
  if (request.steps)
    fmt::print("Simulated: {} run{} of {} steps for each figure\n", request.runs.value_or(1000),
               request.runs.value_or(1000) == 1 ? "" : "s", *request.steps);
  else
    fmt::print("Simulated: about {} failures for each figure\n", request.failures);
}

std::string percent(double share) {
  return share >= 0.001 ? fmt::format("{:.1f}", 100 * share) : "< 0.1";
}

/// "-" if the first order is nonsense: it becomes negative where little is kept.
std::string first_order_text(double share) {
  return share > 0 ? fmt::format("{:.1f}", 100 * share) : "-";
}

constexpr const char* parts_heading =
    "  absent  checkpoint    lost  detection  recovery  waiting\n";

/// The parts of the time that were not kept, in percent.
std::string parts_text(const Account& all) {
  const auto share = [&](Microseconds part) {
    return 100 * static_cast<double>(part) / static_cast<double>(all.total);
  };
  return fmt::format("{:>8.1f}{:>12.1f}{:>8.1f}{:>11.1f}{:>10.1f}{:>9.1f}{}\n", share(all.absent),
                     share(all.checkpoint), share(all.lost), share(all.detection),
                     share(all.recovery), share(all.waiting),
                     all.finished ? "" : "  gave up: it does not end");
}

Json json_of(const GoodputRequest& request, const Point& point) {
  const Account& all = point.simulated.all;
  return {{"strategy", name_of(point.strategy)},
          {"ranks", point.ranks},
          {"mtbf_seconds", law_for(request, point.ranks).mean_seconds()},
          {"interval_steps", point.interval},
          {"interval_seconds", static_cast<double>(point.interval) * request.step},
          {"goodput", point.goodput()},
          {"formula", point.predicted},
          {"first_order", point.first_order},
          {"failures", all.failures},
          {"steps", all.steps},
          {"runs", point.simulated.runs},
          {"finished", all.finished},
          {"mean_seconds", point.simulated.mean_seconds},
          {"shortest_seconds", point.simulated.shortest},
          {"longest_seconds", point.simulated.longest},
          {"microseconds",
           {{"useful", all.useful},
            {"absent", all.absent},
            {"checkpoint", all.checkpoint},
            {"lost", all.lost},
            {"detection", all.detection},
            {"recovery", all.recovery},
            {"waiting", all.waiting},
            {"total", all.total}}}};
}

void write_report(const GoodputRequest& request, const std::vector<Point>& points) {
  if (request.report.empty()) return;
  Json report{{"device_mtbf_seconds", request.device_mtbf},
              {"step_seconds", request.step},
              {"seed", request.seed},
              {"best", Json::array()},
              {"points", Json::array()}};
  if (request.strategy)
    for (const int ranks : request.ranks) {
      const RestartModel model = model_for(request, *request.strategy, ranks);
      report["best"].push_back({{"ranks", ranks},
                                {"mtbf_seconds", model.mtbf},
                                {"young_seconds", model.young()},
                                {"daly_seconds", model.daly()},
                                {"best_steps", model.best_steps(request.step)},
                                {"checkpoint_seconds", model.checkpoint},
                                {"restart_seconds", model.restart},
                                {"curve", Json::array()}});
      // The formula at intervals from a sixteenth to 16 times the best one.
      for (int i = -32; i <= 32; ++i) {
        const double interval =
            static_cast<double>(interval_for(request, *request.strategy, ranks)) * request.step *
            std::exp2(i / 8.0);
        report["best"].back()["curve"].push_back({interval, model.goodput(interval)});
      }
    }
  for (const Point& point : points) report["points"].push_back(json_of(request, point));
  std::ofstream out{request.report, std::ios::binary};
  out << report.dump(1) << '\n';
  out.close();
  if (!out) throw UsageError(fmt::format("--report {}: can't be written", request.report));
}

std::string interval_text(const GoodputRequest& request, std::int64_t steps) {
  return duration_text(static_cast<double>(steps) * request.step);
}

}  // namespace

void print_ranks(const GoodputRequest& request) {
  const Strategy strategy = *request.strategy;
  print_heading(request, strategy);
  fmt::print(
      "\n                          the best interval by           goodput in %, simulated (by "
      "formula), at\n   ranks  a failure every       Young        Daly     formula      a quarter"
      "       the best  four times it\n");
  std::vector<Point> all;
  for (const int ranks : request.ranks) {
    const RestartModel model = model_for(request, strategy, ranks);
    const std::int64_t best = interval_for(request, strategy, ranks);
    std::string row;
    for (const Point& point : points_around(request, strategy, ranks)) {
      all.push_back(point);
      const auto times = [&](double factor) {
        return point.interval ==
               std::max<std::int64_t>(1, std::llround(factor * static_cast<double>(best)));
      };
      if (times(0.25) || times(1) || times(4))
        row += fmt::format(
            "{:>15}", fmt::format("{} ({})", percent(point.goodput()), percent(point.predicted)));
    }
    fmt::print("{:>8}{:>17}{:>12}{:>12}{:>12}{}\n", ranks, duration_text(model.mtbf),
               duration_text(model.young()), duration_text(model.daly()),
               interval_text(request, best), row);
  }
  fmt::print("\n{}", comparison(request, all));
  write_report(request, all);
}

void print_intervals(const GoodputRequest& request) {
  const Strategy strategy = *request.strategy;
  const int ranks = request.ranks.front();
  print_heading(request, strategy);
  const RestartModel model = model_for(request, strategy, ranks);
  const bool restarts = strategy == Strategy::restart || strategy == Strategy::memory;
  fmt::print("{} ranks: a failure every {}\n", ranks, duration_text(model.mtbf));
  const std::vector<Point> points =
      request.steps && request.interval
          ? std::vector{point_of(request, strategy, ranks, *request.interval)}
          : points_around(request, strategy, ranks);
  fmt::print(
      "\n                      goodput in %                       where the rest of the time goes, "
      "in "
      "%\n   steps    interval  simulated  formula  first order{}",
      parts_heading);
  for (const Point& point : points)
    fmt::print("{:>8}{:>12}{:>11}{:>9}{:>13}{}", point.interval,
               interval_text(request, point.interval), percent(point.goodput()),
               percent(point.predicted), restarts ? first_order_text(point.first_order) : "-",
               parts_text(point.simulated.all));
  if (request.steps) {
    fmt::print("\n");
    for (const Point& point : points)
      fmt::print("{} steps, a checkpoint every {}: {} on average, from {} to {}; {:.1f} failures\n",
                 *request.steps, point.interval, duration_text(point.simulated.mean_seconds),
                 duration_text(point.simulated.shortest), duration_text(point.simulated.longest),
                 static_cast<double>(point.simulated.all.failures) /
                     static_cast<double>(point.simulated.runs));
  }
  if (restarts) {
    const std::int64_t best = model.best_steps(request.step);
    fmt::print("\nThe best interval: {} by Young, {} by Daly; by the formula {} steps, {}\n",
               duration_text(model.young()), duration_text(model.daly()), best,
               interval_text(request, best));
    const double best_seconds = static_cast<double>(best) * request.step;
    const double first_order = model.first_order(best_seconds);
    fmt::print(
        "The first order assumes that interval, checkpoint and restart are short beside the time "
        "between failures.\nAt the best interval, they are {:.2f} of it, and the first order is "
        "{}.\n",
        (best_seconds + model.checkpoint + model.restart) / model.mtbf,
        first_order > 0 ? fmt::format("off by {:.1f} %",
                                      100 * std::abs(first_order / model.goodput(best_seconds) - 1))
                        : "negative");
  }
  if (!restarts) fmt::print("\n");
  fmt::print("{}", comparison(request, points));
  write_report(request, points);
}

void print_strategies(const GoodputRequest& request) {
  const int ranks = request.ranks.front();
  print_heading(request, Strategy::restart);
  fmt::print(
      "{} ranks: a failure every {}\n\n"
      "           checkpoint     goodput in %           where the rest of the time goes, in %\n"
      "strategy        every  simulated  formula{}",
      ranks, duration_text(law_for(request, ranks).mean_seconds()), parts_heading);
  std::vector<Point> points;
  for (const Strategy strategy : all_strategies) {
    points.push_back(point_of(request, strategy, ranks, interval_for(request, strategy, ranks)));
    const Point& point = points.back();
    fmt::print("{:<10}{:>11}{:>11}{:>9}{}", name_of(strategy),
               interval_text(request, point.interval), percent(point.goodput()),
               percent(point.predicted), parts_text(point.simulated.all));
  }
  fmt::print(
      "\nmemory: {} to copy to a peer's memory, usable {} later, on disk {} later; the restart "
      "takes "
      "{}\nquorum: {} replicas; a lost one is back after {}, and all wait {} while it copies the "
      "state\nspares: {} idle devices, {:.1f} % of the {}; a takeover takes {}, a repair {}\n",
      duration_text(request.snapshot), duration_text(request.transfer),
      duration_text(request.write), duration_text(request.reload), request.replicas,
      duration_text(request.replace), duration_text(request.heal), request.spares,
      100.0 * request.spares / (ranks + request.spares), ranks + request.spares,
      duration_text(request.takeover), duration_text(request.repair));
  write_report(request, points);
}

}  // namespace lockstep
