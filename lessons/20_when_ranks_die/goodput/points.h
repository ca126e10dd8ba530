#pragma once

#include <vector>

#include "lessons/20_when_ranks_die/goodput/strategy.h"

namespace lockstep {

/// One figure: the goodput of a strategy, simulated and by formula.
struct Point {
  Strategy strategy = Strategy::restart;
  int ranks = 1;
  std::int64_t interval = 1;  ///< steps between two checkpoints
  Simulated simulated;
  double predicted = 0;    ///< as predicted() in strategy.h
  double first_order = 0;  ///< of restarts

  double goodput() const { return simulated.all.goodput(); }
  /// How far the simulation is from the formula, as a share of the formula.
  double difference() const { return goodput() / predicted - 1; }
};

Point point_of(const GoodputRequest& request, Strategy strategy, int ranks, std::int64_t interval);

/// The intervals of a table: the best one, or --interval, times these factors, in whole steps.
constexpr double factors[] = {0.125, 0.25, 0.5, 1, 2, 4, 8};
std::vector<Point> points_around(const GoodputRequest& request, Strategy strategy, int ranks);

/// Says how far simulation and formula are apart at these points, and, if they differ by more than
/// 2 %, which assumption of the formula fails: it repeats the points with the assumption restored.
std::string comparison(const GoodputRequest& request, std::vector<Point> points);

}  // namespace lockstep
