#include <doctest/doctest.h>

#include "viz/read/report/prediction_mismatch.h"

using namespace lockstep;

namespace {

/// Two ranks and two phases of two steps each, in which every figure matches its prediction.
std::vector<RankResults> as_predicted() {
  std::vector<RankResults> ranks(2);
  for (int r = 0; r < 2; ++r) {
    RankResults& rank = ranks[static_cast<std::size_t>(r)];
    rank.rank = r;
    for (const char* name : {"m = 4", "m = 8"}) {
      PhaseResults record{.phase = {.name = name, .steps = 2},
                          .predicted = {},
                          .bytes_sent = {},
                          .last_step = 0,
                          .peak = {}};
      record.predicted.bytes_sent[Operation::all_reduce] = 1000;
      record.bytes_sent[Operation::all_reduce] = 2000;
      record.predicted.bytes_sent[Operation::send] = Figure::not_predicted("no formula");
      record.bytes_sent[Operation::send] = 77;
      record.predicted.peak_bytes[MemoryCategory::gradients] = 50;
      record.peak.bytes[static_cast<std::size_t>(MemoryCategory::gradients)] = 50;
      rank.phases.push_back(record);
    }
  }
  return ranks;
}

}  // namespace

TEST_CASE("each phase that differs from its prediction has a line") {
  auto ranks = as_predicted();
  CHECK(prediction_mismatches(ranks).empty());

  ranks[1].phases[0].bytes_sent[Operation::all_reduce] = 2048;
  CHECK(prediction_mismatches(ranks) ==
        std::vector<std::string>{
            "m = 4: rank 1 sent 1024 B of all_reduce per step, predicted 1000 B"});

  for (RankResults& rank : ranks)
    rank.phases[1].predicted.peak_bytes[MemoryCategory::gradients] = 60;
  CHECK(prediction_mismatches(ranks) ==
        std::vector<std::string>{
            "m = 4: rank 1 sent 1024 B of all_reduce per step, predicted 1000 B",
            "m = 8: rank 0 had a peak of 50 B of gradients memory, predicted 60 B (and 1 more "
            "differ)"});

  for (RankResults& rank : ranks) rank.phases[1].phase.name = "";
  CHECK(prediction_mismatches(ranks)[1].starts_with("rank 0 had a peak"));
}

TEST_CASE("a predicted operation that sends nothing is a mismatch, an unpredicted one is not") {
  auto ranks = as_predicted();
  ranks[0].phases[0].bytes_sent[Operation::all_reduce] = 0;
  CHECK(prediction_mismatches(ranks).size() == 1);
  ranks[0].phases[0].predicted.bytes_sent[Operation::all_reduce] =
      Figure::not_predicted("a library sends it");
  CHECK(prediction_mismatches(ranks).empty());
}
