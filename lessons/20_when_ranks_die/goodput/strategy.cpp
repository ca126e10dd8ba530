#include "lessons/20_when_ranks_die/goodput/strategy.h"

#include <algorithm>
#include <utility>

#include "lessons/20_when_ranks_die/goodput/quorum.h"
#include "lessons/20_when_ranks_die/goodput/restarts.h"
#include "lessons/20_when_ranks_die/goodput/spares.h"

namespace lockstep {

namespace {

Job job_for(const GoodputRequest& request, Strategy strategy, int ranks, std::int64_t interval) {
  const bool memory = strategy == Strategy::memory;
  Job job{.ranks = ranks,
          .step = microseconds(request.step),
          .interval = interval,
          .pause = microseconds(memory ? request.snapshot : request.checkpoint),
          .hidden = microseconds(memory ? request.transfer : request.hidden),
          .detect = microseconds(request.detect),
          .restart = microseconds(request.restart)};
  if (memory) {
    job.write = microseconds(request.write);
    job.restart_from_disk = job.restart;
    job.restart = microseconds(request.reload);
  } else if (strategy == Strategy::quorum) {
    job.replicas = request.replicas;
    job.replace = microseconds(request.replace);
    job.heal = microseconds(request.heal);
  } else if (strategy == Strategy::spares) {
    job.spares = request.spares;
    job.restart = microseconds(request.takeover);
    job.repair = microseconds(request.repair);
  }
  return job;
}

Account run(const Job& job, Strategy strategy, Failures failures) {
  switch (strategy) {
    case Strategy::restart:
      return with_restarts(job, std::move(failures));
    case Strategy::memory:
      return with_peer_memory(job, std::move(failures));
    case Strategy::quorum:
      return with_quorum(job, std::move(failures));
    case Strategy::spares:
      return with_spares(job, std::move(failures));
  }
  return {};
}

void add(Account& sum, const Account& each) {
  sum.useful += each.useful;
  sum.absent += each.absent;
  sum.checkpoint += each.checkpoint;
  sum.lost += each.lost;
  sum.detection += each.detection;
  sum.recovery += each.recovery;
  sum.waiting += each.waiting;
  sum.total += each.total;
  sum.steps += each.steps;
  sum.failures += each.failures;
  sum.finished = sum.finished && each.finished;
}

}  // namespace

FailureLaw law_for(const GoodputRequest& request, int ranks) {
  if (request.every)
    return {.law = Law::uniform, .low = request.every->first, .high = request.every->second};
  return {.law = request.law, .mean = request.device_mtbf / ranks, .shape = request.shape};
}

RestartModel model_for(const GoodputRequest& request, Strategy strategy, int ranks) {
  RestartModel model{.mtbf = law_for(request, ranks).mean_seconds(),
                     .checkpoint = request.checkpoint,
                     .restart = request.detect + request.restart};
  if (strategy == Strategy::memory) {
    model.checkpoint = request.snapshot;
    model.restart = request.detect + request.reload;
  } else if (strategy == Strategy::quorum) {
    model.restart = request.detect + request.heal;
  } else if (strategy == Strategy::spares) {
    model.restart = request.detect + request.takeover;
  }
  return model;
}

std::int64_t interval_for(const GoodputRequest& request, Strategy strategy, int ranks) {
  if (request.interval) return *request.interval;
  // A quorum and spares rarely return to a checkpoint; they write as many as restarts do.
  const Strategy like = strategy == Strategy::memory ? Strategy::memory : Strategy::restart;
  return model_for(request, like, ranks).best_steps(request.step);
}

double predicted(const GoodputRequest& request, Strategy strategy, int ranks,
                 std::int64_t interval) {
  const RestartModel model = model_for(request, strategy, ranks);
  const auto steps = static_cast<double>(interval);
  if (strategy == Strategy::spares) return goodput_with_spares(model, request.step, steps);
  if (strategy == Strategy::quorum)
    return goodput_with_quorum(model, request.step, steps, request.replicas, request.replace);
  return model.goodput(steps * request.step);
}

Simulated simulate(const GoodputRequest& request, Strategy strategy, int ranks,
                   std::int64_t interval) {
  Job job = job_for(request, strategy, ranks, interval);
  const FailureLaw law = law_for(request, ranks);
  Simulated result;
  result.runs = request.steps ? request.runs.value_or(1000) : 1;
  if (request.steps) {
    job.steps = *request.steps;
  } else {
    // Long enough for as many failures and as many intervals, if the formula is right, but within
    // 30,000 years.
    const double share = predicted(request, strategy, ranks, interval);
    const double length = static_cast<double>(interval) * request.step;
    const double intervals =
        std::max<double>(request.failures * law.mean_seconds() * share / length, request.failures);
    job.steps = std::max<std::int64_t>(
                    1, static_cast<std::int64_t>(std::min(intervals, 1e12 * share / length))) *
                interval;
  }
  for (std::int64_t i = 0; i < result.runs; ++i) {
    const Account each =
        run(job, strategy,
            {law, ranks, static_cast<std::uint64_t>(request.seed), static_cast<std::uint32_t>(i)});
    add(result.all, each);
    const double seconds = seconds_of(each.total);
    result.shortest = i == 0 ? seconds : std::min(result.shortest, seconds);
    result.longest = std::max(result.longest, seconds);
  }
  result.mean_seconds = seconds_of(result.all.total) / static_cast<double>(result.runs);
  return result;
}

}  // namespace lockstep
