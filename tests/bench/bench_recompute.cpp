// Measures the time that recomputation costs on this machine. Runs the forward and backward passes
// of one microbatch, alternating between blocks that recompute and blocks that keep everything.

#include <fmt/format.h>

#include "core/model/data.h"
#include "core/model/gpt.h"
#include "lessons/14_mixed_precision/recompute.h"
#include "tests/bench/side_by_side.h"
#include "tests/support/ranks.h"

using namespace lockstep;
using namespace lockstep::bench;

namespace {

std::string some_text() {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += fmt::format("{} is not {}. ", i * i % 97, i);
  return text;
}

void against_none(benchmark::State& state, Recompute mode, int sequence, const std::string& what) {
  const GptConfig config{
      .layers = 4, .hidden = 256, .heads = 4, .sequence = sequence, .vocabulary = 256};
  Options options;
  const std::string wrong = testing::on_threads(options, [&](Rank& rank) {
    const auto model_of = [&](Recompute of) {
      return std::make_unique<Gpt>(config, rank.device, StageLayers::whole(config), 1,
                                   Recomputing<>{of});
    };
    const auto none = model_of(Recompute::none);
    const auto other = model_of(mode);
    const Batch batch = Corpus{some_text(), config}.batch(
        1, 0, {.microbatches = 1, .size = 1024 / config.sequence});
    const auto seconds = [&](Gpt& model) {
      return seconds_of([&] { accumulate_gradients(model, batch); });
    };
    report(state,
           take_turns(
               9, [&] { return seconds(*other); }, [&] { return seconds(*none); }),
           0, what);
  });
  if (!wrong.empty()) state.SkipWithError(wrong.c_str());
}

[[maybe_unused]] const bool registered = [] {
  for (const int s : {256, 1024}) {
    add(fmt::format("recompute_selective_{}", s), [s](benchmark::State& state) {
      against_none(state, Recompute::selective, s,
                   fmt::format("speed with selective recomputation over none's, s = {}", s));
    });
    add(fmt::format("recompute_full_{}", s), [s](benchmark::State& state) {
      against_none(state, Recompute::full, s,
                   fmt::format("speed with full recomputation over none's, s = {}", s));
    });
  }
  return true;
}();

}  // namespace
