#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "core/pipeline/simulator.h"
#include "core/pipeline/validate.h"
#include "lessons/09_1f1b/one_f_one_b.h"

using namespace lockstep;

// Qi et al. 2023, "Zero Bubble Pipeline Parallelism": the bubble rates of Table 5 follow from the
// authors' measured times (Table 9) if each hop adds T_comm and sends do not contend. This test
// checks the whole simulator against independently published numbers.

namespace {

struct Row {
  int p;
  int m;
  double t_f, t_b, t_w, t_comm;      // Table 9, ms
  double one_f_one_b, zb_h1, zb_h2;  // Table 5
};
constexpr Row table[] = {
    {8, 24, 18.522, 18.086, 9.337, 0.601, .2431, .1585, .1083},
    {8, 32, 18.513, 18.086, 9.331, 0.626, .1985, .1242, .0837},
    {8, 64, 18.546, 18.097, 9.321, 0.762, .1240, .0674, .0444},
    {16, 48, 11.347, 11.248, 8.132, 0.377, .2552, .1397, .0672},
    {16, 64, 11.307, 11.254, 8.101, 0.379, .2082, .1088, .0516},
    {16, 128, 11.325, 11.308, 8.109, 0.378, .1251, .0576, .0266},
};

PipelineTimes times_of(const Row& row) {
  const StageTimes stage{.forward = picoseconds(row.t_f * 1e-3),
                         .backward = picoseconds((row.t_b + row.t_w) * 1e-3),
                         .backward_input = picoseconds(row.t_b * 1e-3),
                         .backward_weight = picoseconds(row.t_w * 1e-3)};
  PipelineTimes times;
  times.stages.assign(static_cast<std::size_t>(row.p), stage);
  times.cluster.within.latency_seconds = row.t_comm * 1e-3;
  return times;
}

/// Builds one stage's list: each call adds the next microbatch's action.
struct Counter {
  std::vector<Action>& actions;
  int stage;
  int forwards = 0, inputs = 0, weights = 0;
  void forward() { actions.push_back({Op::forward, stage, forwards++}); }
  void input() { actions.push_back({Op::backward_input, stage, inputs++}); }
  void weight() { actions.push_back({Op::backward_weight, stage, weights++}); }
};

/// ZB-H1: 1F1B's order and memory. Weight gradients are delayed by the stage's index, and fill the
/// idle time at the end.
Schedule zb_h1(int p, int m) {
  Schedule schedule = one_stage_per_rank("ZB-H1", p, m);
  for (int q = 0; q < p; ++q) {
    Counter next{schedule.actions[static_cast<std::size_t>(q)], q};
    while (next.forwards < std::min(m, p - 1 - q)) next.forward();
    while (next.inputs < m) {
      if (next.forwards < m) next.forward();
      next.input();
      if (next.inputs > q) next.weight();
    }
    while (next.weights < m) next.weight();
  }
  return schedule;
}

/// ZB-H2 has twice 1F1B's warm-up, so no rank waits for its first gradient.
Schedule zb_h2(int p, int m) {
  Schedule schedule = one_stage_per_rank("ZB-H2", p, m);
  for (int q = 0; q < p; ++q) {
    Counter next{schedule.actions[static_cast<std::size_t>(q)], q};
    while (next.forwards < std::min(m, 2 * (p - 1 - q) + 1)) next.forward();
    while (next.inputs < m) {
      next.input();
      if (next.inputs > 2 * q) next.weight();
      if (next.forwards < m) next.forward();
    }
    while (next.weights < m) next.weight();
  }
  return schedule;
}

void check_rate(const Schedule& schedule, const Row& row, double published) {
  CAPTURE(schedule.name);
  CAPTURE(row.p);
  CAPTURE(row.m);
  validate(schedule);
  const double rate = simulate(schedule, times_of(row)).internal_bubble;
  CHECK(std::abs(rate - published) <= 0.00005);  // all four printed decimals
}

}  // namespace

TEST_CASE("the zero-bubble paper's Table 5: 1F1B") {
  for (const Row& row : table) check_rate(one_f_one_b(row.p, row.m), row, row.one_f_one_b);
}

TEST_CASE("the zero-bubble paper's Table 5: ZB-H1 and ZB-H2, with backward in halves") {
  for (const Row& row : table) {
    check_rate(zb_h1(row.p, row.m), row, row.zb_h1);
    check_rate(zb_h2(row.p, row.m), row, row.zb_h2);
  }
}

TEST_CASE("a microbatch stays stashed until its weight gradient: p on every rank, or 2p - 1") {
  const Schedule h1 = zb_h1(8, 24);
  const Schedule h2 = zb_h2(8, 24);
  for (int rank = 0; rank < 8; ++rank) {
    CHECK(peak_live_microbatches(h1, rank) == 8);
    CHECK(peak_live_microbatches(h2, rank) == 15);
  }
}
