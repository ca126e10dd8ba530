#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lockstep {

/// The textbook model of a job that restarts from checkpoints. All times are in seconds.
/// M is the mean time between failures of the job, exponentially distributed; δ the time that
/// training waits for a checkpoint; R the time from a failure until all ranks train again.
struct RestartModel {
  double mtbf = 1;        ///< M
  double checkpoint = 0;  ///< δ
  double restart = 0;     ///< R: detection, restart and loading

  /// Expected time to complete `work` seconds during which a failure undoes all of them:
  /// M e^{R/M} (e^{work/M} - 1). A failed attempt costs the time until the failure, and a recovery,
  /// which failures restart, takes M (e^{R/M} - 1) on average.
  double expected(double work) const {
    return mtbf * std::exp(restart / mtbf) * std::expm1(work / mtbf);
  }

  /// The share of useful time with τ seconds of training between two checkpoints, by Daly's
  /// complete model (Daly 2006): τ / (M e^{R/M} (e^{(τ+δ)/M} - 1)). It is exact if the time between
  /// failures is exponential, each failure undoes all work since the last checkpoint, and the run
  /// consists of whole intervals.
  double goodput(double interval) const { return interval / expected(interval + checkpoint); }

  /// The same to first order in 1/M: 1 - δ/τ - (τ/2 + R)/M. A checkpoint costs δ in each interval,
  /// and a failure undoes half an interval on average.
  double first_order(double interval) const {
    return 1 - checkpoint / interval - (interval / 2 + restart) / mtbf;
  }

  /// The interval at which first_order() is largest: √(2δM) (Young 1974).
  double young() const { return std::sqrt(2 * checkpoint * mtbf); }

  /// An approximation of the interval at which goodput() is largest, a series in δ/2M (Daly 2006):
  /// √(2δM) [1 + √(δ/2M)/3 + (δ/2M)/9] - δ if δ < 2M, and M otherwise. R does not matter: every
  /// failure costs it, whatever the interval.
  double daly() const {
    const double x = checkpoint / (2 * mtbf);
    if (x >= 1) return mtbf;
    return young() * (1 + std::sqrt(x) / 3 + x / 9) - checkpoint;
  }

  /// The number of whole steps between checkpoints at which goodput() is largest.
  std::int64_t best_steps(double step) const {
    // ln goodput() has one maximum, so a golden-section search finds it; then compare neighbours.
    double low = 0.5, high = 1 + 4 * std::max(daly(), checkpoint + mtbf) / step;
    const double ratio = (std::sqrt(5.0) - 1) / 2;
    for (int i = 0; i < 200 && high - low > 0.25; ++i) {
      const double a = high - ratio * (high - low), b = low + ratio * (high - low);
      if (goodput(a * step) >= goodput(b * step))
        high = b;
      else
        low = a;
    }
    const auto middle = std::max<std::int64_t>(1, std::llround((low + high) / 2));
    std::int64_t best = middle;
    for (std::int64_t steps = std::max<std::int64_t>(1, middle - 2); steps <= middle + 2; ++steps)
      if (goodput(static_cast<double>(steps) * step) > goodput(static_cast<double>(best) * step))
        best = steps;
    return best;
  }

  /// The largest checkpoint time for which goodput() still reaches `share` at its best interval,
  /// or a negative number if even free checkpoints do not.
  double affordable_checkpoint(double share) const {
    RestartModel model = *this;
    const auto reaches = [&](double checkpoint_time) {
      model.checkpoint = checkpoint_time;
      const double interval = checkpoint_time > 0 ? model.daly() : 1e-6 * mtbf;
      return model.goodput(interval) >= share;
    };
    if (!reaches(0)) return -1;
    double low = 0, high = mtbf;
    for (int i = 0; i < 100; ++i) (reaches((low + high) / 2) ? low : high) = (low + high) / 2;
    return low;
  }
};

/// The same for hot spares that never run out: a failure undoes one step, or one checkpoint,
/// instead of an interval. R is the takeover.
inline double goodput_with_spares(const RestartModel& model, double step, double steps) {
  return steps * step / (steps * model.expected(step) + model.expected(model.checkpoint));
}

/// The same for a quorum of r replicas, times the share of replicas that train: a failure takes one
/// away for `replace` seconds. R is detection and healing.
inline double goodput_with_quorum(const RestartModel& model, double step, double steps,
                                  int replicas, double replace) {
  return goodput_with_spares(model, step, steps) / (1 + replace / (model.mtbf * replicas));
}

}  // namespace lockstep
