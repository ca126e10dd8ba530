#include "viz/read/explain/counterfactuals.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/replay/replay.h"
#include "core/text/text_table.h"
#include "viz/read/explain/slow.h"
#include "viz/read/timeline/analysis.h"

namespace lockstep {

namespace {

using Kind = RecordedOperation::Kind;

/// The largest number of operations in all replays together, which take about five seconds.
constexpr std::size_t most_operations = 200'000'000;

double ratio(Picoseconds a, Picoseconds b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

std::string milliseconds(Picoseconds time) {
  return ms(time) + " ms";
}

/// Keeps the elements that compute for longer than their peers' median, slowest first.
std::vector<Slow> slower_ones(std::vector<Slow> all) {
  std::erase_if(all,
                [](const Slow& each) { return each.usual <= 0 || each.compute <= each.usual; });
  std::ranges::stable_sort(all, std::greater{},
                           [](const Slow& each) { return ratio(each.compute, each.usual); });
  return all;
}

/// The work of the ranks in a step of a recorded run.
struct StepWork {
  std::vector<Picoseconds> of_rank;
  std::vector<std::set<int>> stages;    ///< by rank
  std::map<int, Picoseconds> of_stage;  ///< on all ranks
  std::map<int, std::set<int>> stage_ranks;

  StepWork(const Replay& replay, int step)
      : of_rank(replay.run().ranks.size()), stages(of_rank.size()) {
    for (std::size_t rank = 0; rank < of_rank.size(); ++rank) {
      const auto& sections = replay.run().ranks[rank].sections;
      for (std::size_t i = 0; i < sections.size(); ++i) {
        if (sections[i].step != step) continue;
        replay.visit(static_cast<int>(rank), i, [&](const Replay::Timed& each) {
          const Kind kind = each.operation.kind;
          if (kind != Kind::kernel && kind != Kind::end && kind != Kind::begin) return;
          const Picoseconds time = each.end - each.start;
          of_rank[rank] = plus(of_rank[rank], time);
          const int stage = each.operation.stage;
          if (stage < 0) return;
          stages[rank].insert(stage);
          of_stage[stage] = plus(of_stage[stage], time);
          stage_ranks[stage].insert(static_cast<int>(rank));
        });
      }
    }
  }

  std::vector<Slow> slow_ranks() const { return slower_ones(compared_with_peers(of_rank, stages)); }

  std::vector<Slow> slow_stages() const {
    std::vector<int> numbers;
    std::vector<Picoseconds> times;
    for (const auto& [stage, time] : of_stage) {
      numbers.push_back(stage);
      times.push_back(time / static_cast<Picoseconds>(stage_ranks.at(stage).size()));
    }
    std::vector<Slow> all = compared_with_peers(times, std::vector<std::set<int>>(times.size()));
    for (Slow& each : all) each.number = numbers[static_cast<std::size_t>(each.number)];
    return slower_ones(std::move(all));
  }
};

/// Returns the change that gives a rank or a stage the median pace of its peers.
std::string change_of(const char* what, const Slow& slow) {
  return fmt::format("{}:{}=faster:{}", what, slow.number, ratio(slow.compute, slow.usual));
}

Counterfactual stage_at_pace(const Slow& slow) {
  return {.claim = Claim::stage_at_pace,
          .what = fmt::format("stage {} at the median pace of the other stages ({} in its actions "
                              "instead of {})",
                              slow.number, milliseconds(slow.usual), milliseconds(slow.compute)),
          .changes = {change_of("stage", slow)},
          .values = {{"stage", slow.number},
                     {"compute", seconds(slow.compute)},
                     {"median", seconds(slow.usual)}}};
}

constexpr std::size_t most_slow_named = 8;

/// Changes the slow ones one at a time and, if there are several, all together.
template <class One>
void add_slow(const std::vector<Slow>& slow, const char* what, Claim all_claim, const One& one,
              std::vector<Counterfactual>& changes) {
  if (slow.size() > 1) {
    std::vector<int> numbers;
    for (const Slow& each : slow) numbers.push_back(each.number);
    std::ranges::sort(numbers);
    const std::string which =
        slow.size() <= most_slow_named
            ? fmt::format("{}s {}", what, fmt::join(numbers, ", "))
            : fmt::format("all {} {}s that are slower than their peers", slow.size(), what);
    Counterfactual& all = changes.emplace_back(
        Counterfactual{.claim = all_claim,
                       .what = which + " at the median pace of their peers",
                       .values = {{"slow", static_cast<double>(slow.size())}}});
    for (const Slow& each : slow) all.changes.push_back(change_of(what, each));
  }
  for (std::size_t i = 0; i < std::min(slow.size(), most_slow_tried); ++i)
    changes.push_back(one(slow[i]));
}

std::vector<Counterfactual> changes_of(const RunOperations& run, const StepWork& work,
                                       std::size_t& left_out) {
  std::vector<Counterfactual> changes;
  for (const std::string& axis : axes_of(run))
    changes.push_back({.claim = Claim::free_axis,
                       .what = axis + " communication free",
                       .changes = {axis + "=free"}});
  for (const char* where : {"within", "between"})
    changes.push_back({.claim = Claim::free_links,
                       .what = fmt::format("all links {} nodes free", where),
                       .changes = {fmt::format("{}=free", where)}});
  changes.push_back(
      {.claim = Claim::no_latency, .what = "no latency on any link", .changes = {"latency=free"}});
  const std::vector<Slow> ranks = work.slow_ranks(), stages = work.slow_stages();
  add_slow(ranks, "rank", Claim::ranks_at_pace, rank_at_pace, changes);
  add_slow(stages, "stage", Claim::stages_at_pace, stage_at_pace, changes);
  for (const auto* slow : {&ranks, &stages})
    left_out += slow->size() - std::min(slow->size(), most_slow_tried);
  return changes;
}

}  // namespace

Counterfactual rank_at_pace(const Slow& slow) {
  return {.claim = Claim::rank_at_pace,
          .what = fmt::format("rank {} at the {} ({} of compute and optimizer instead of {})",
                              slow.number,
                              slow.peers == 1 ? "pace of its peer" : "median pace of its peers",
                              milliseconds(slow.usual), milliseconds(slow.compute)),
          .changes = {change_of("rank", slow)},
          .values = {{"rank", slow.number},
                     {"compute", seconds(slow.compute)},
                     {"median", seconds(slow.usual)}}};
}

void Counterfactuals::keep_what_helps() {
  std::erase_if(all, [&](const Counterfactual& each) { return each.step >= length; });
  std::ranges::stable_sort(all, {}, &Counterfactual::step);
}

std::vector<Sentence> Counterfactuals::sentences() const {
  std::vector<Sentence> sentences;
  for (const Counterfactual& each : all) {
    Sentence& sentence = sentences.emplace_back(Sentence{each.claim, "", each.values});
    const std::string less =
        fmt::format("{:.1f} % less", 100 * ratio(saving(each), std::max<Picoseconds>(length, 1)));
    sentence.text =
        each.estimated
            ? fmt::format(
                  "With {}, the step would take about {}, {} (a rough estimate: {} to {} less in "
                  "single steps of this phase).",
                  each.what, milliseconds(each.step), less, milliseconds(each.least),
                  milliseconds(each.most))
            : fmt::format("With {}{}, the step would take {}, {}.", each.what,
                          choices.empty() || each.claim == Claim::alternative_run
                              ? ""
                              : fmt::format(" and the same choice by {}", fmt::join(choices, ", ")),
                          milliseconds(each.step), less);
    sentence.values.insert(sentence.values.end(),
                           {{"step", seconds(length)}, {"changed", seconds(each.step)}});
    if (each.estimated)
      sentence.values.insert(sentence.values.end(),
                             {{"least", seconds(each.least)}, {"most", seconds(each.most)}});
  }
  return sentences;
}

Counterfactuals what_would_help(const RunOperations& run, const Scenario& base, int step,
                                const std::vector<Alternative>& alternatives) {
  const Replay recorded{run, base};
  Counterfactuals found{.step = step, .length = recorded.step_time(step), .choices = run.choices};
  std::vector<Counterfactual> changes = changes_of(run, StepWork{recorded, step}, found.left_out);
  std::size_t operations = 1;
  for (const auto& rank : run.ranks)
    for (const auto& section : rank.sections) operations += run.lists[section.list].size();
  const std::size_t room = most_operations / operations;
  if (changes.size() > room) {
    found.left_out += changes.size() - room;
    changes.resize(room);
  }
  for (Counterfactual& each : changes) {
    Scenario scenario = base;
    for (const std::string& change : each.changes) scenario.change(change, run);
    each.step = Replay{run, scenario}.step_time(step);
    found.all.push_back(std::move(each));
  }
  for (const Alternative& other : alternatives) {
    const RunOperations& instead = other.operations;
    const Scenario same{instead.modelled};
    found.all.push_back({.claim = Claim::alternative_run,
                         .what = other.what,
                         .step = Replay{instead, same}.step_time(step)});
  }
  found.keep_what_helps();
  return found;
}

}  // namespace lockstep
