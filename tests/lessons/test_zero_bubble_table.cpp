#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "core/pipeline/simulator.h"
#include "core/pipeline/validate.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/11_zero_bubble/automatic.h"
#include "lessons/11_zero_bubble/zb_h1.h"
#include "lessons/11_zero_bubble/zb_h2.h"
#include "tests/support/portion.h"

using namespace lockstep;
using namespace lockstep::testing;

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
    check_rate(zb_h1(row.p, 1, row.m), row, row.zb_h1);
    check_rate(zb_h2(row.p, row.m), row, row.zb_h2);
  }
}

TEST_CASE("a microbatch stays stashed until its weight gradient: p on every rank, or 2p - 1") {
  const Schedule h1 = zb_h1(8, 1, 24);
  const Schedule h2 = zb_h2(8, 24);
  for (int rank = 0; rank < 8; ++rank) {
    CHECK(peak_live_microbatches(h1, rank) == 8);
    CHECK(peak_live_microbatches(h2, rank) == 15);
  }
}

TEST_CASE("the zero-bubble paper's Table 5: with the memory of ZB-H2, automatic is as good") {
  for (const Row& row : portion(std::vector(std::begin(table), std::end(table)), 2)) {
    CAPTURE(row.p);
    CAPTURE(row.m);
    const PipelineTimes times = times_of(row);
    const Schedule found =
        automatic_schedule({.microbatches = row.m, .limit = 2 * row.p - 1, .times = times});
    CHECK(simulate(found, times).internal_bubble <= row.zb_h2 + 0.00005);
  }
}
