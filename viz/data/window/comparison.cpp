#include "viz/data/window/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "viz/data/layout/explanations.h"
#include "viz/data/step/words.h"
#include "viz/data/window/in_flight.h"
#include "viz/read/timeline/memory_breakdown.h"
#include "viz/read/timeline/pipeline_analysis.h"
#include "viz/read/timeline/visit_band.h"

namespace lockstep::viz {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

std::string mesh_of(const RunInfo& run) {
  std::string words;
  for (const auto& [axis, size] : run.mesh)
    if (size > 1) words += fmt::format("{}{} {}", words.empty() ? "" : " × ", axis, size);
  return words.empty() && !run.mesh.empty() ? "1 rank" : words;
}

std::string number_words(int number) {
  return number > 0 ? std::to_string(number) : "";
}

/// Returns a configuration's entries in the order in which they are shown: first the schedule,
/// which is usually the subject of a comparison.
Entries entries_of(const Timeline& timeline, int step) {
  const RunInfo& run = timeline.run();
  const Prediction& predicted = timeline.prediction(step);
  Entries entries{{"lesson", run.lesson},
                  {"phase", predicted.phase == predicted.schedule ? "" : predicted.phase},
                  {"schedule", predicted.schedule},
                  {"stages", number_words(predicted.stages)},
                  {"microbatches", number_words(predicted.microbatches)},
                  {"clock", run.clock},
                  {"cluster", run.cluster},
                  {"cluster's figures", run.cluster_description},
                  {"ranks", number_words(run.ranks)},
                  {"mesh", mesh_of(run)},
                  {"device", run.device},
                  {"launch", run.launch}};
  for (const auto& [key, value] : run.config) {
    // The step's own number of microbatches is known; the run may sweep over several numbers.
    if (key == "microbatches" && predicted.microbatches > 0) continue;
    std::string name = key;
    if (!name.starts_with("--")) std::ranges::replace(name, '_', ' ');
    entries.emplace_back(std::move(name), value);
  }
  return entries;
}

/// Adds the time for which one rank runs weight gradients, in total and after its last input
/// gradient.
void add_weights(const Timeline& timeline, const RankTimeline& rank, StepMetrics& metrics) {
  std::vector<Interval> weights;
  Picoseconds inputs_end = std::numeric_limits<Picoseconds>::min();
  for (const TimelineSpan& span : actions_of(timeline, rank, metrics.step)) {
    if (span.category == Category::backward_input) inputs_end = std::max(inputs_end, span.end);
    if (span.category == Category::backward_weight) weights.push_back({span.start, span.end});
  }
  metrics.separate_weights |= !weights.empty();
  for (const Interval& each : weights) {
    const Picoseconds time = each.end - each.start;
    metrics.weights = plus(metrics.weights, time);
    if (each.start >= inputs_end) metrics.weights_at_end = plus(metrics.weights_at_end, time);
  }
}

std::optional<double> bytes_or_nothing(const std::optional<std::int64_t>& bytes) {
  return bytes ? std::optional{static_cast<double>(*bytes)} : std::nullopt;
}

}  // namespace

Configurations compare_configurations(const Timeline& a, int step_a, const Timeline& b,
                                      int step_b) {
  Configurations result;
  Entries left = entries_of(a, step_a);
  const Entries right = entries_of(b, step_b);
  const auto find = [](const Entries& entries, const std::string& name) {
    const auto found = std::ranges::find(entries, name, &Entries::value_type::first);
    return found == entries.end() ? std::string{} : found->second;
  };
  for (const auto& [name, value] : right)
    if (std::ranges::find(left, name, &Entries::value_type::first) == left.end())
      left.emplace_back(name, "");
  const bool same_cluster = a.run().cluster == b.run().cluster;
  for (const auto& [name, value] : left) {
    const std::string other = find(right, name);
    if (value.empty() && other.empty()) continue;
    // A run with one phase does not name it.
    if (name == "phase" && (value.empty() || other.empty())) continue;
    if (name == "cluster's figures") {
      // Clusters with different names have different figures; clusters with the same name may
      // differ too.
      if (same_cluster && value != other && !value.empty() && !other.empty())
        result.different.push_back({name, "as in A's trace", "as in B's trace"});
    } else if (value != other) {
      result.different.push_back({name, value, other});
    } else {
      result.same.push_back(name);
    }
  }
  result.clocks_differ = a.run().clock != b.run().clock;
  const bool no_a = a.run().config.empty(), no_b = b.run().config.empty();
  result.without_model = no_a && no_b ? "A and B" : no_a ? "A" : no_b ? "B" : "";
  return result;
}

std::int64_t StepMetrics::sent() const {
  std::int64_t sum = 0;
  for (const RankMetrics& rank : ranks) sum = plus(sum, rank.sent);
  return sum;
}

const RankMetrics* StepMetrics::most_memory() const {
  const RankMetrics* most = nullptr;
  for (const RankMetrics& rank : ranks)
    if (rank.memory && (!most || *rank.memory > *most->memory)) most = &rank;
  return most;
}

int StepMetrics::in_flight() const {
  int most = 0;
  for (const RankMetrics& rank : ranks) most = std::max(most, rank.in_flight);
  return most;
}

StepMetrics step_metrics(const Timeline& timeline, int step) {
  StepMetrics metrics;
  const StepWindow* found = timeline.find_step(step);
  if (!found) return metrics;
  metrics.step = step;
  metrics.account = step_account(timeline, step);
  for (RankAccount& rank : metrics.account.ranks) rank.pieces = {};
  metrics.window = longest_step(metrics.account);
  metrics.bubble = bubble(timeline, step);
  std::vector<std::vector<InFlight>> in_flight;
  if (metrics.bubble && is_small(timeline, *found)) {
    in_flight = microbatches_in_flight(timeline, step);
    metrics.chunks = most_chunks(timeline, step);
  }
  for (std::size_t i = 0; i < timeline.ranks().size(); ++i) {
    const RankTimeline& rank = *timeline.ranks()[i];
    RankMetrics mine{.rank = rank.rank, .sent = bytes_sent(timeline, rank, step)};
    if (const RankAccount* account = metrics.account.find(rank.rank)) {
      mine.compute = plus(account->sums.compute, account->sums.optimizer);
      mine.idle = not_computing(account->sums);
    }
    if (i < in_flight.size())
      for (const InFlight& each : in_flight[i])
        mine.in_flight = std::max(mine.in_flight, each.microbatches);
    if (const auto exact = peak_of_steps(rank, step, step)) {
      const MemoryBreakdown peak = memory_breakdown(timeline, rank, exact->state);
      mine.memory = peak.total();
      mine.activations = 0;
      for (const MemoryBreakdown::Category& each : peak.categories)
        if (each.category == MemoryCategory::activations) mine.activations = each.bytes;
    } else if (const auto peak = memory_peak(timeline, rank, step)) {
      mine.memory = peak->total();
      mine.activations = peak->bytes[static_cast<std::size_t>(MemoryCategory::activations)];
    }
    metrics.ranks.push_back(mine);
    add_weights(timeline, rank, metrics);
  }
  return metrics;
}

std::optional<ChangedRank> most_changed_rank(const StepMetrics& a, const StepMetrics& b) {
  if (a.ranks.size() < 2 ||
      !std::ranges::equal(a.ranks, b.ranks, {}, &RankMetrics::rank, &RankMetrics::rank))
    return {};
  std::optional<ChangedRank> most;
  double largest = 0, second = 0;
  for (std::size_t i = 0; i < a.ranks.size(); ++i) {
    const Picoseconds before = a.ranks[i].compute, after = b.ranks[i].compute;
    if (before <= 0 || after <= 0) return {};
    const double size =
        std::abs(std::log(static_cast<double>(after) / static_cast<double>(before)));
    if (size > largest) {
      second = std::exchange(largest, size);
      most = {a.ranks[i].rank, before, after};
    } else {
      second = std::max(second, size);
    }
  }
  return largest - second >= least_marked ? most : std::nullopt;
}

std::vector<ComparedPart> compare_parts(const StepMetrics& a, const StepMetrics& b) {
  std::vector<ComparedPart> parts;
  const auto add = [&](const StepAccount& account, double ComparedPart::*side) {
    for (const MeanPart& part : mean_step(account)) {
      auto known = std::ranges::find_if(parts, [&](const ComparedPart& each) {
        return each.kind == part.kind && each.name == part.name;
      });
      if (known == parts.end())
        known = parts.insert(parts.end(), {.kind = part.kind, .name = part.name});
      (*known).*side = mean_of(part.sum, account);
    }
  };
  add(a.account, &ComparedPart::a);
  add(b.account, &ComparedPart::b);
  std::ranges::stable_sort(parts, [](const ComparedPart& x, const ComparedPart& y) {
    return x.kind != y.kind ? x.kind < y.kind : std::max(x.a, x.b) > std::max(y.a, y.b);
  });
  return parts;
}

std::optional<double> ComparedValue::difference() const {
  if (!a || !b || !comparable) return {};
  return *b - *a;
}

std::optional<double> ComparedValue::relative() const {
  const auto by = difference();
  if (!by || *a == 0 || unit == Unit::share) return {};
  return *by / *a;
}

std::vector<ComparedValue> compare_steps(const StepMetrics& a, const StepMetrics& b,
                                         bool clocks_differ) {
  using Unit = ComparedValue::Unit;
  std::vector<ComparedValue> values;
  const auto add = [&](const std::string& name, Unit unit, std::optional<double> left,
                       std::optional<double> right, bool part = false) {
    const bool timed = unit == Unit::time || unit == Unit::share;
    values.push_back({.name = name,
                      .unit = unit,
                      .a = left,
                      .b = right,
                      .part = part,
                      .comparable = !timed || !clocks_differ});
  };
  add("step", Unit::time, static_cast<double>(a.time()), static_cast<double>(b.time()));
  for (const ComparedPart& part : compare_parts(a, b))
    add(part.kind == MeanPart::Kind::exposed ? part.name + " exposed" : part.name, Unit::time,
        part.a, part.b, true);
  if (a.bubble || b.bubble) {
    const auto share = [](const StepMetrics& each) {
      return each.bubble ? std::optional{each.bubble->share()} : std::nullopt;
    };
    add("bubble, first to last action", Unit::share, share(a), share(b));
  }
  add("bytes sent", Unit::bytes, static_cast<double>(a.sent()), static_cast<double>(b.sent()));
  const RankMetrics *most_a = a.most_memory(), *most_b = b.most_memory();
  if (most_a || most_b)
    add("peak memory", Unit::bytes, most_a ? bytes_or_nothing(most_a->memory) : std::nullopt,
        most_b ? bytes_or_nothing(most_b->memory) : std::nullopt);
  if (a.in_flight() > 0 || b.in_flight() > 0) {
    add(in_flight_words(std::max(a.chunks, b.chunks)), Unit::count, a.in_flight(), b.in_flight());
    values.back().comparable = a.chunks == b.chunks;
  }
  return values;
}

const ComparedValue* ComparedRank::marked() const {
  const ComparedValue* most = nullptr;
  double largest = 0;
  for (const ComparedValue* value : {&compute, &idle, &memory, &sent}) {
    const auto by = value->difference();
    if (!by || *by == 0) continue;
    // A change from 0 counts as the largest difference.
    const double size = std::abs(value->relative().value_or(1e9));
    if (size < least_marked || size <= largest) continue;
    most = value;
    largest = size;
  }
  return most;
}

std::vector<ComparedRank> compare_ranks(const StepMetrics& a, const StepMetrics& b,
                                        bool clocks_differ) {
  using Unit = ComparedValue::Unit;
  std::map<int, std::pair<const RankMetrics*, const RankMetrics*>> by_rank;
  for (const RankMetrics& rank : a.ranks) by_rank[rank.rank].first = &rank;
  for (const RankMetrics& rank : b.ranks) by_rank[rank.rank].second = &rank;
  std::vector<ComparedRank> ranks;
  for (const auto& [number, metrics] : by_rank) {
    const auto& [left, right] = metrics;
    const auto value = [&](const char* name, Unit unit, auto get) {
      return ComparedValue{.name = name,
                           .unit = unit,
                           .a = left ? get(*left) : std::nullopt,
                           .b = right ? get(*right) : std::nullopt,
                           .comparable = unit != Unit::time || !clocks_differ};
    };
    ranks.push_back({.rank = number,
                     .compute = value("compute", Unit::time,
                                      [](const RankMetrics& each) {
                                        return std::optional{static_cast<double>(each.compute)};
                                      }),
                     .idle = value("idle", Unit::time,
                                   [](const RankMetrics& each) {
                                     return std::optional{static_cast<double>(each.idle)};
                                   }),
                     .sent = value("sent", Unit::bytes,
                                   [](const RankMetrics& each) {
                                     return std::optional{static_cast<double>(each.sent)};
                                   }),
                     .memory = value("memory", Unit::bytes, [](const RankMetrics& each) {
                       return bytes_or_nothing(each.memory);
                     })});
  }
  return ranks;
}

std::string value_words(ComparedValue::Unit unit, std::optional<double> value) {
  if (!value) return "-";
  switch (unit) {
    case ComparedValue::Unit::time:
      return duration_words(*value);
    case ComparedValue::Unit::share:
      return percent_words(*value);
    case ComparedValue::Unit::bytes:
      return bytes_words(*value);
    case ComparedValue::Unit::count:
      break;
  }
  return fmt::format("{:.0f}", *value);
}

std::string difference_words(const ComparedValue& value) {
  const auto by = value.difference();
  if (!by) return "-";
  if (*by == 0) return "=";
  const char* sign = *by > 0 ? "+" : "-";
  if (value.unit != ComparedValue::Unit::share)
    return fmt::format("{}{}", sign, value_words(value.unit, std::abs(*by)));
  const double points = 100 * std::abs(*by);
  return points < 0.05 ? "=" : fmt::format("{}{:.1f} pts", sign, points);
}

std::string relative_words(const ComparedValue& value) {
  const auto by = value.relative();
  if (!by || *by == 0) return {};
  if (*by >= 9) return "×" + ratio_words(1 + *by);
  return (*by > 0 ? "+" : "-") + percent_words(std::abs(*by));
}

std::string brief_words(const ComparedValue& value) {
  const auto by = value.relative();
  if (!by || *by == 0) return difference_words(value);
  return std::abs(*by) >= 0.1 && *by < 9 ? fmt::format("{:+.0f} %", 100 * *by)
                                         : relative_words(value);
}

std::optional<StepPair> steps_to_compare(const Timeline& a, const Timeline& b) {
  const auto end_of_complete = [](const Timeline& timeline) {
    const auto& steps = timeline.steps();
    std::size_t index = steps.size();
    while (index > 0 && !timeline.step_complete(steps[index - 1])) --index;
    return index;  // one past the last complete step
  };
  const std::size_t end_a = end_of_complete(a);
  const std::size_t end_b = end_of_complete(b);
  if (end_a == 0 || end_b == 0) return {};
  const auto of = [](const Timeline& timeline, std::size_t index) -> const Prediction& {
    return timeline.prediction(timeline.steps()[index].step);
  };
  StepPair pair{end_a - 1, end_b - 1};
  if (!a.run().run.empty() && a.run() == b.run()) {
    // Two steps of one run: the last step of the previous phase, or else the previous step.
    const Prediction& last = of(b, pair.b);
    std::size_t before = pair.b;
    while (before > 0 && of(a, before).first_step == last.first_step) --before;
    const bool has_phase = of(a, before).first_step != last.first_step;
    pair.a = has_phase ? before : pair.b - (pair.b > 0 ? 1 : 0);
    return pair;
  }
  std::map<std::pair<int, int>, std::size_t> last_of_size;  // by stages and microbatches, in A
  for (std::size_t i = 0; i < end_a; ++i)
    last_of_size[{of(a, i).stages, of(a, i).microbatches}] = i;
  for (std::size_t i = end_b; i-- > 0;) {
    const auto found = last_of_size.find({of(b, i).stages, of(b, i).microbatches});
    if (found != last_of_size.end()) return StepPair{found->second, i};
  }
  return pair;
}

}  // namespace lockstep::viz
