#include "lessons/20_when_ranks_die/goodput/published.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "lessons/20_when_ranks_die/goodput/durations.h"
#include "lessons/20_when_ranks_die/goodput/strategy.h"

namespace lockstep {

namespace {

/// The value in [low, high] at which an increasing function reaches `target`, by bisection.
double solve(double low, double high, double target, const std::function<double(double)>& of) {
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (of(middle) < target ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// The published runs: TorchTitan trains Llama 4 Scout on 64 H200 (8 nodes of 8) for 3,000 steps, a
/// checkpoint every 100 steps, a failure injected every 2700 to 4500 s. Source: Clockwork,
/// "Keeping distributed training running through failures", clockwork.io, 2026.
struct TorchPass {
  static constexpr double spares_minutes = 405, restart_minutes = 818, torchft_minutes = 930;
  static constexpr double parameters = 109e9;
  static constexpr int ranks = 64, nodes = 8;

  GoodputRequest request;

  explicit TorchPass(const GoodputRequest& given) {
    request.every = {2700, 4500};
    request.steps = 3000;
    request.interval = 100;
    request.runs = 200;
    request.seed = given.seed;
    request.ranks = {ranks};
    request.spares = 1000;  // more than can be used
  }

  /// Minutes and failures of a run.
  std::pair<double, double> run(Strategy strategy) const {
    const Simulated result = simulate(request, strategy, ranks, *request.interval);
    return {result.mean_seconds / 60,
            static_cast<double>(result.all.failures) / static_cast<double>(result.runs)};
  }
  double minutes(Strategy strategy) const { return run(strategy).first; }

  /// Solves for the step time behind 405 min, if a takeover takes this long.
  void solve_step(double takeover) {
    request.takeover = takeover;
    request.step = solve(1, 10, spares_minutes, [&](double step) {
      request.step = step;
      return minutes(Strategy::spares);
    });
  }
  /// Then solves for the time from a failure to training again behind 818 min.
  void solve_restart() {
    request.restart = solve(0, 2700, restart_minutes, [&](double restart) {
      request.restart = restart;
      return minutes(Strategy::restart);
    });
  }
  /// A run with torchft, in which a failure costs only the interrupted step and `pause` seconds of
  /// waiting, and a lost replica is back after 10 minutes.
  GoodputRequest with_torchft(int replicas, double pause) const {
    GoodputRequest torchft = request;
    torchft.replicas = replicas;
    torchft.detect = pause;
    torchft.replace = 600;
    return torchft;
  }
  /// Solves for the step time behind 930 min.
  double torchft_step(double pause) const {
    GoodputRequest torchft = with_torchft(4, pause);
    return solve(1, 30, torchft_minutes, [&](double step) {
      torchft.step = step;
      return simulate(torchft, Strategy::quorum, ranks, *torchft.interval).mean_seconds / 60;
    });
  }
  /// The share of the samples that lost replicas do not train.
  double missing_samples(int replicas) const {
    GoodputRequest torchft = with_torchft(replicas, 0);
    torchft.step = torchft_step(0);
    const Account all = simulate(torchft, Strategy::quorum, ranks, *torchft.interval).all;
    return static_cast<double>(all.absent) / static_cast<double>(all.absent + all.useful);
  }
};

}  // namespace

void print_llama3() {
  const double days = 54, interruptions = 466, unexpected = 419, gpus = 16384, useful = 0.9;
  const double seconds = days * 86400;
  fmt::print(
      "Llama 3 405B, {} days on {} GPUs: {} interruptions, {} of them unexpected; more than 90 % "
      "of "
      "the time\nwas effective (published)\n",
      days, gpus, interruptions, unexpected);
  fmt::print("  an interruption every {}; an unexpected one every {}\n",
             duration_text(seconds / interruptions), duration_text(seconds / unexpected));
  fmt::print("  of one GPU, an unexpected one every {:.0f} h, or {:.1f} years\n",
             llama3_device_hours, llama3_device_hours / (365.25 * 24));
  fmt::print(
      "  90 % leave {} for each interruption, its lost work, and the checkpoints before it\n",
      duration_text((1 - useful) * seconds / interruptions));
  fmt::print("\nWhat allows 90 %, by Daly's formula, with an interruption every {}:\n",
             duration_text(seconds / interruptions));
  fmt::print("  detection and restart   a checkpoint takes at most   checkpoint every\n");
  for (const double minutes : {1.0, 3.0, 5.0, 10.0, 15.0, 20.0}) {
    RestartModel model{.mtbf = seconds / interruptions, .restart = 60 * minutes};
    model.checkpoint = model.affordable_checkpoint(useful);
    if (model.checkpoint < 0)
      fmt::print("{:>23}   impossible, even if checkpoints were free\n",
                 fmt::format("{:.0f} min", minutes));
    else
      fmt::print("{:>23}{:>29}{:>19}\n", fmt::format("{:.0f} min", minutes),
                 duration_text(model.checkpoint), duration_text(model.daly()));
  }
}

void print_torchpass(const GoodputRequest& given) {
  using T = TorchPass;
  TorchPass runs{given};
  fmt::print(
      "Published by Clockwork, who sell the spares: 3,000 steps of Llama 4 Scout (109B) on {} "
      "H200, a "
      "checkpoint\nevery 100 steps, a failure every 2700 to 4500 s: {} min with hot spares, {} by "
      "restarts, {} with torchft.\n\n"
      "Not known here: the time of a takeover, of a step, of a restart with its detection, and of "
      "a "
      "step with torchft.\nThe model solves for the last three, one from each figure. Checkpoints "
      "count as part of the steps.\n\n"
      "  if a takeover   a step   a restart   torchft's step    failures in each run\n"
      "  takes            takes       takes            takes   spares, restarts, torchft\n",
      T::ranks, T::spares_minutes, T::restart_minutes, T::torchft_minutes);
  for (const double takeover : {300.0, 60.0, 0.0}) {
    runs.solve_step(takeover);
    const double spare_failures = runs.run(Strategy::spares).second;
    runs.solve_restart();
    const double restart_failures = runs.run(Strategy::restart).second;
    TorchPass torchft = runs;
    torchft.request = runs.with_torchft(4, 0);
    torchft.request.step = runs.torchft_step(0);
    fmt::print("{:>15}{:>9}{:>12}{:>17}{:>19}\n", duration_text(takeover),
               fmt::format("{:.2f} s", runs.request.step), duration_text(runs.request.restart),
               fmt::format("{:.2f} s", torchft.request.step),
               fmt::format("{:.1f}, {:.1f}, {:.1f}", spare_failures, restart_failures,
                           torchft.run(Strategy::quorum).second));
  }
  const Simulated restarts = simulate(runs.request, Strategy::restart, T::ranks, 100);
  const auto minutes = [&](Microseconds part) {
    return seconds_of(part) / 60 / static_cast<double>(restarts.runs);
  };
  fmt::print(
      "\nWith the last row:\n"
      "  Restarts: {:.0f} min = {:.0f} of steps that are kept + {:.0f} of lost steps + {:.0f} of "
      "restarts.\n",
      restarts.mean_seconds / 60, minutes(restarts.all.useful), minutes(restarts.all.lost),
      minutes(restarts.all.detection + restarts.all.recovery));
  runs.request.interval = 1;
  fmt::print("  With a free checkpoint after each step, restarts would still take {:.0f} min.\n",
             runs.minutes(Strategy::restart));
  runs.request.interval = 100;
  const double overhead = runs.torchft_step(0) - runs.request.step;
  fmt::print(
      "  torchft: if a failure costs only the step that it interrupts, each step takes {:.1f} s "
      "longer;\n  if a failure also stops all for 5 min, {:.1f} s longer.\n"
      "  Its replicas sum their gradients with Gloo, not NCCL. If that takes the {:.1f} s (in "
      "bf16):\n",
      overhead, runs.torchft_step(300) - runs.request.step, overhead);
  for (const int replicas : {2, 4}) {
    // Each GPU of a replica of 64/r GPUs sums its share of the gradients over r replicas, in a
    // ring: it sends 2 (r-1)/r of its share.
    const double bytes = 2.0 * (replicas - 1) / replicas * T::parameters * 2 * replicas / T::ranks;
    fmt::print(
        "    {} replicas: a GPU sends {:.1f} GB per step, {:.1f} GB/s; {:.1f} % of the samples are "
        "missing,\n               if a lost replica is back after 10 min\n",
        replicas, bytes / 1e9, bytes / 1e9 / overhead, 100 * runs.missing_samples(replicas));
  }
}

}  // namespace lockstep
