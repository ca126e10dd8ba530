#include <doctest/doctest.h>

#include "core/base/error.h"
#include "lessons/17_choosing/plan/configuration.h"

// A configuration as a run of lesson 17, or the reason why there is none.

using namespace lockstep;

namespace {

constexpr auto no_change = [](Configuration&) {};

/// Returns the reason why a toy task on 8 ranks can't run this configuration; "" if it can.
std::string refusal_of(void (*change)(Configuration&)) {
  Configuration configuration{.dp = 2, .tp = 2, .pp = 2};
  change(configuration);
  try {
    planned_run({.ranks = configuration.ranks(), .batch = 8}, configuration);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a configuration that lesson 17 can't run is refused in one line") {
  using C = Configuration;
  CHECK(refusal_of(no_change) == "");
  CHECK(refusal_of([](C& c) { c.dp = 0; }) == "DP 0 is less than 1");
  CHECK(refusal_of([](C& c) { c.tp = -2; }) == "TP -2 is less than 1");
  CHECK(refusal_of([](C& c) { c.microbatch = 0; }) == "microbatch 0 is less than 1");
  CHECK(refusal_of([](C& c) { c.chunks = 0; }) == "chunks 0 is less than 1");
  CHECK(refusal_of([](C& c) { c.schedule = "2f2b"; }) == "there is no schedule '2f2b'");
  // Attention along cp can't keep all probabilities: a plan that claims to do so would train
  // without cp.
  const auto keeping = [](C& c) {
    c.cp = 2;
    c.recompute = Recompute::none;
  };
  CHECK(refusal_of(keeping).starts_with("CP 2 without recomputation"));
}
