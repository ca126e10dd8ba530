// The parts of waits in traces that PyTorch wrote.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "viz/data/feed/trace_input.h"
#include "viz/data/layout/series.h"
#include "viz/data/step/summary.h"
#include "viz/data/step/words.h"
#include "viz/read/explain/slow.h"
#include "viz/read/timeline/step_account.h"
#include "viz/read/timeline/visit_band.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

const std::filesystem::path golden_torch_traces =
    std::filesystem::path{LOCKSTEP_SOURCE_DIR} / "tests/golden/torch_traces";

void read_torch(const std::string& name, Timeline& timeline) {
  read_inputs(input_files(golden_torch_traces / name), MemoryLimit{}, timeline);
}

/// Returns the wait on a rank's compute lane that contains a time, or nothing.
std::optional<TimelineSpan> wait_around(const RankTimeline& rank, const Interval& time) {
  std::optional<TimelineSpan> found;
  visit_band(*rank.compute(), Band::action, time, [&](const TimelineSpan& span) {
    if (span.category == Category::wait && span.start <= time.start && span.end >= time.end)
      found = span;
  });
  return found;
}

/// Returns when the message was sent that a wait for another stage awaits: the one with the wait's
/// labels that is received at the end of the wait or later.
std::optional<Picoseconds> sent_for(const Timeline& timeline, const RankTimeline& rank,
                                    const TimelineSpan& wait) {
  std::optional<Picoseconds> sent;
  Picoseconds first = std::numeric_limits<Picoseconds>::max();
  for (const TimelineMessage& message : timeline.messages()) {
    if (message.to_rank != rank.rank || message.from_rank != wait.peer ||
        message.received < wait.end || message.received >= first)
      continue;
    for (const auto& lane : rank.lanes)
      for (const SpanRow& row : lane->rows(Band::action))
        for (const TimelineSpan& span : row)
          if (lane->tid() == message.to_lane && span.end == message.received &&
              span.stage == wait.stage && span.microbatch == wait.microbatch &&
              span.step == wait.step) {
            sent = message.sent;
            first = message.received;
          }
  }
  return sent;
}

}  // namespace

TEST_CASE("PyTorch: a wait for a late stage is a bubble, though another message is under way") {
  // Rank 1 has posted the receives of microbatch 0's gradients and of microbatch 3's activations.
  // Rank 0 has sent the activations; rank 2 computes the gradients only 18 ms later.
  Timeline timeline;
  read_torch("pp_1f1b_runtime", timeline);
  const StepAccount account = step_account(timeline, 2);
  const RankAccount* rank = account.find(1);
  REQUIRE(rank);
  const auto longest = std::ranges::max_element(
      rank->pieces, {}, [](const StepPiece& piece) { return piece.time.end - piece.time.start; });
  CHECK(longest->part == StepPart::waiting);
  CHECK(longest->stage == 2);
  CHECK(longest->microbatch == 0);
  CHECK(longest->category == Category::backward);
  CHECK(longest->time.end - longest->time.start > 18 * ms);
}

TEST_CASE("PyTorch: no wait counts as latency or transfer before its message is sent") {
  int waits = 0;
  for (const auto& folder : std::filesystem::directory_iterator{golden_torch_traces}) {
    if (!folder.is_directory()) continue;
    CAPTURE(folder.path().filename().string());
    Timeline timeline;
    read_torch(folder.path().filename().string(), timeline);
    for (const StepWindow& step : timeline.steps()) {
      const StepAccount account = step_account(timeline, step.step);
      for (const RankAccount& rank : account.ranks)
        for (const StepPiece& piece : rank.pieces) {
          if (piece.part != StepPart::latency && piece.part != StepPart::transfer) continue;
          const RankTimeline& of = *timeline.find_rank(rank.rank);
          const auto wait = wait_around(of, piece.time);
          REQUIRE(wait);
          CAPTURE(rank.rank);
          CAPTURE(piece.time.start);
          if (timeline.name(wait->name) == "send") CHECK(piece.part == StepPart::transfer);
          if (timeline.name(wait->name) != "recv" || wait->stage < 0) continue;
          const auto sent = sent_for(timeline, of, *wait);
          // Of a message whose send is recorded too late, the trace shows no flight.
          CHECK((sent || piece.part != StepPart::latency));
          if (!sent) continue;
          CHECK(piece.time.start >= *sent);
          ++waits;
        }
    }
  }
  CHECK(waits > 100);
}

TEST_CASE("the window, the summary and its JSON name the same ranks, with the same times") {
  for (const auto& folder : std::filesystem::directory_iterator{golden_torch_traces}) {
    if (!folder.is_directory()) continue;
    CAPTURE(folder.path().filename().string());
    Timeline timeline;
    read_torch(folder.path().filename().string(), timeline);
    const Summary summary = summarise(timeline);
    const auto json = nlohmann::json::parse(summary_json(summary));
    BubbleSeries window;
    window.update(timeline, std::chrono::hours{1});
    std::map<int, Picoseconds> waited;
    for (std::size_t i = 0; i < window.count(); ++i) {
      const BubbleSeries::Point* point = window.find(timeline, i);
      REQUIRE(point);
      const auto in_step = waited_for(timeline, point->step);
      for (const auto& [rank, time] : in_step) waited[rank] += time;
      // The card of the window shows the longest of these.
      REQUIRE(point->awaited.has_value() == !in_step.empty());
      if (point->awaited) CHECK(in_step.at(point->awaited->rank) == point->awaited->time);
    }
    std::map<int, Picoseconds> summed;
    for (const RankSummary& rank : summary.ranks)
      for (const auto& [peer, time] : rank.waits)
        if (peer != rank.rank) summed[peer] += time;
    CHECK(waited == summed);
    REQUIRE(summary.awaited);
    CHECK(waited.at(summary.awaited->rank) == summary.awaited->time);
    CHECK(summary_text(summary).find(awaited_words(*summary.awaited)) != std::string::npos);
    CHECK(json["waited_longest_for"]["rank"] == summary.awaited->rank);
    CHECK(json["waited_longest_for"]["seconds"] == seconds(summary.awaited->time));
    const auto& straggler = window.find(timeline, window.count() - 1)->straggler;
    REQUIRE(straggler.has_value() == summary.straggler.has_value());
    CHECK(json.contains("straggler") == straggler.has_value());
    if (!straggler) continue;
    CHECK(straggler->rank == summary.straggler->rank);
    CHECK(json["straggler"]["rank"] == straggler->rank);
    CHECK(json["straggler"]["cost"] == seconds(straggler->cost()));
    CHECK(summary_text(summary).find(fmt::format("ank {} computes for {}", straggler->rank,
                                                 duration_words(straggler->compute))) !=
          std::string::npos);
  }
}
