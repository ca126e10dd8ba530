#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "core/comm/transport/control.h"
#include "core/run/rank/rank.h"
#include "lessons/02_data_parallel/prediction.h"
#include "lessons/12_expert_parallel/experiment/routing_record.h"
#include "lessons/12_expert_parallel/expert_parallel.h"

namespace lockstep {

/// Gathers the routings of ranks in other processes on rank 0. (Threads share one log.) All ranks
/// call this, after their last step. The run's control channel carries the routings, so that they
/// take no time on the run's clock.
inline void collect_routing(Rank& rank, RoutingRecord& log) {
  const int layers = rank.plan.model().layers;
  const auto replica = [&](int id) { return replica_of(rank.plan.mesh, id); };
  const auto part_of = [&](int id) { return rank.plan.mesh.coordinate(id, Axis::tp); };
  // A rank's routings as text: each list of numbers, after its length.
  std::string mine;
  for (int layer = 0; layer < layers; ++layer) {
    const RoutingLog::Calls& calls = log.calls(replica(rank.id), layer, part_of(rank.id));
    mine += fmt::format("{} ", calls.size());
    for (const RoutedMicrobatch& each : calls) {
      mine += fmt::format("{} {} ", each.choices.size(), fmt::join(each.choices, " "));
      for (const auto* counts : {&each.chosen, &each.kept, &each.sent, &each.received})
        mine += fmt::format("{} {} ", counts->size(), fmt::join(*counts, " "));
    }
  }
  const std::vector<std::string> all = gather_to_root(*rank.transport, mine);
  for (int other = 1; other < static_cast<int>(all.size()); ++other) {
    std::istringstream text{all[static_cast<std::size_t>(other)]};
    const auto size = [&] {
      std::size_t count = 0;
      text >> count;
      return count;
    };
    const auto read = [&](auto& numbers) {
      numbers.resize(size());
      for (auto& number : numbers) text >> number;
    };
    for (int layer = 0; layer < layers; ++layer) {
      const std::size_t count = size();
      if (count == 0) continue;  // of another stage
      RoutingLog::Calls& calls = log.calls(replica(other), layer, part_of(other));
      calls.resize(count);
      for (RoutedMicrobatch& each : calls) {
        read(each.choices);
        for (auto* counts : {&each.chosen, &each.kept, &each.sent, &each.received}) read(*counts);
      }
    }
  }
}

/// The choices of one layer in a part of the run, over all ranks.
struct ExpertLoad {
  std::vector<std::int64_t> chosen, kept;  ///< by expert

  std::int64_t choices() const {
    return std::accumulate(chosen.begin(), chosen.end(), std::int64_t{0});
  }
  double dropped() const {
    const auto rows = std::accumulate(kept.begin(), kept.end(), std::int64_t{0});
    return 1 -
           static_cast<double>(rows) / static_cast<double>(std::max<std::int64_t>(1, choices()));
  }
  /// The load of the most popular expert, as a multiple of the mean.
  double imbalance() const {
    return static_cast<double>(std::ranges::max(chosen)) * static_cast<double>(chosen.size()) /
           static_cast<double>(std::max<std::int64_t>(1, choices()));
  }
};

/// A part of the run.
enum class Part { first_fifth, last_fifth, all };

/// Adds up the choices of all ranks in a part of the run.
inline ExpertLoad load_of(const Plan& plan, const MixtureOfExperts& moe, RoutingRecord& log,
                          int layer, Part part) {
  const auto count = static_cast<std::size_t>(moe.experts);
  ExpertLoad load{std::vector<std::int64_t>(count), std::vector<std::int64_t>(count)};
  for (int replica = 0; replica < plan.mesh.size(Axis::dp_cp); ++replica) {
    if (!log.has(replica, layer)) continue;
    const RoutingLog::Calls& calls = log.calls(replica, layer);
    const std::size_t fifth = (calls.size() + 4) / 5;
    const std::size_t begin = part == Part::last_fifth ? calls.size() - fifth : 0;
    const std::size_t end = part == Part::first_fifth ? fifth : calls.size();
    for (std::size_t call = begin; call < end; ++call)
      for (std::size_t e = 0; e < count; ++e) {
        load.chosen[e] += calls[call].chosen[e];
        load.kept[e] += calls[call].kept[e];
      }
  }
  return load;
}

/// The MLP's parameters of a layer, and its FLOPs per token in the forward pass.
inline std::int64_t expert_parameters(const GptConfig& config, int experts) {
  const std::int64_t h = config.hidden;
  const std::int64_t matrices = h * (config.mlp_inner_width() + config.mlp_width());
  return experts * (matrices + (config.llama ? 0 : 5 * h)) + h * experts;
}
inline std::int64_t expert_flops(const GptConfig& config, int experts, int top_k) {
  const std::int64_t h = config.hidden;
  return top_k * 2 * h * (config.mlp_inner_width() + config.mlp_width()) + 2 * h * experts;
}

/// The bytes of the all-to-alls that a rank sends to another member of its expert-parallel group in
/// one layer, for one microbatch. `row` is the size of a row. The rank announces its rows, a number
/// for each of the member's experts. Then it sends rows to the member's experts and the results of
/// the member's rows, and in the backward pass the gradients of both.
inline std::int64_t bytes_to(std::size_t member, const RoutedMicrobatch& routed,
                             const MixtureOfExperts& moe, std::int64_t row) {
  const auto ranks = static_cast<std::int64_t>(routed.sent.size());
  return 4 * moe.experts / ranks + 2 * row * (routed.sent[member] + routed.received[member]);
}

/// The bytes of all-to-alls that the members of rank 0's expert-parallel group send to each other
/// per step, on average.
inline std::string pair_table(const Plan& plan, const MixtureOfExperts& moe, RoutingRecord& log) {
  const std::vector<int> ranks = plan.mesh.group(0, Axis::ep);
  constexpr std::size_t most = 16;
  if (ranks.size() < 2 || ranks.size() > most) return "";
  const std::int64_t row = width_of(plan) * plan.model().hidden;
  std::string text = fmt::format("\n  {:<23}", "all-to-all, kB per step");
  for (const int to : ranks) text += fmt::format("{:>10}", fmt::format("to rank {}", to));
  text += "\n";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += fmt::format("  {:<23}", fmt::format("rank {} sends", ranks[i]));
    for (std::size_t to = 0; to < ranks.size(); ++to) {
      std::int64_t bytes = 0, calls = 0;
      for (int layer = 0; layer < plan.model().layers; ++layer)
        for (const RoutedMicrobatch& routed : log.calls(replica_of(plan.mesh, ranks[i]), layer)) {
          bytes += bytes_to(to, routed, moe, row);
          ++calls;
        }
      const double steps = static_cast<double>(calls) / plan.model().layers /
                           static_cast<double>(plan.batch.microbatches);
      text += to == i ? fmt::format("{:>10}", "-")
                      : fmt::format("{:>10.1f}", 1e-3 * static_cast<double>(bytes) / steps);
    }
    text += "\n";
  }
  return text;
}

/// The choices by expert and layer in the last fifth of the run, and how the load has changed.
inline std::string load_by_expert(const Plan& plan, const MixtureOfExperts& moe,
                                  RoutingRecord& log) {
  std::string text = fmt::format(
      "  load of each expert in % of the mean, last fifth of the run{}\n",
      moe.capacity_factor > 0 ? fmt::format("; capacity {:g} %", 100 * moe.capacity_factor) : "");
  text += fmt::format("  {:<9}", "layer");
  constexpr int most = 16;
  for (int e = 0; e < std::min(most, moe.experts); ++e) text += fmt::format("{:>6}", e);
  text += fmt::format("{}   busiest: first fifth -> last   dropped\n",
                      moe.experts > most ? " ..." : "");
  for (int layer = 0; layer < plan.model().layers; ++layer) {
    const ExpertLoad first = load_of(plan, moe, log, layer, Part::first_fifth);
    const ExpertLoad last = load_of(plan, moe, log, layer, Part::last_fifth);
    text += fmt::format("  {:<9}", layer);
    const double mean = static_cast<double>(last.choices()) / moe.experts;
    for (int e = 0; e < std::min(most, moe.experts); ++e)
      text += fmt::format(
          "{:>6.0f}", 100 * static_cast<double>(last.chosen[static_cast<std::size_t>(e)]) / mean);
    text += fmt::format("{}   {:>20.2f} -> {:<5.2f} {:>7.1f} %\n", moe.experts > most ? " ..." : "",
                        first.imbalance(), last.imbalance(), 100 * last.dropped());
  }
  return text;
}

/// Returns the load, the bytes of each pair of ranks, and the cost of other numbers of experts.
inline std::string load_table(const Plan& plan, const MixtureOfExperts& moe, RoutingRecord& log) {
  std::string text = load_by_expert(plan, moe, log) + pair_table(plan, moe, log);
  text += fmt::format("\n  {:<11}{:>22}{:>26}\n", "experts", "parameters per layer",
                      "MFLOPs per token, layer");
  std::vector<int> sizes{1, 2, 4, 8, 16, 32, 64};
  if (std::ranges::count(sizes, moe.experts) == 0) sizes.push_back(moe.experts);
  std::ranges::sort(sizes);
  for (const int experts : sizes)
    if (experts >= moe.top_k)
      text +=
          fmt::format("  {:<11}{:>22}{:>26.3f}\n",
                      fmt::format("{}{}", experts, experts == moe.experts ? " (here)" : ""),
                      expert_parameters(plan.model(), experts),
                      1e-6 * static_cast<double>(expert_flops(plan.model(), experts, moe.top_k)));
  return text;
}

inline void print_load(const Plan& plan, const MixtureOfExperts& moe, RoutingRecord& log) {
  if (log.has(0, 0)) fmt::print("\n{}\n", load_table(plan, moe, log));
}

inline std::string load_json(const Plan& plan, const MixtureOfExperts& moe, RoutingRecord& log) {
  std::vector<std::string> layers;
  for (int layer = 0; layer < plan.model().layers; ++layer) {
    const ExpertLoad first = load_of(plan, moe, log, layer, Part::first_fifth);
    const ExpertLoad all = load_of(plan, moe, log, layer, Part::all);
    const ExpertLoad last = load_of(plan, moe, log, layer, Part::last_fifth);
    layers.push_back(fmt::format(
        R"({{"layer":{},"chosen":[{}],"kept":[{}],"first_imbalance":{},"last_imbalance":{}}})",
        layer, fmt::join(all.chosen, ","), fmt::join(all.kept, ","), first.imbalance(),
        last.imbalance()));
  }
  return fmt::format("[{}]", fmt::join(layers, ","));
}

/// Describes the choices, other than near-ties, that differ from one device's. Empty if there are
/// none.
inline std::string different_choices(const RoutingRecord& log) {
  const auto others = std::ranges::count(log.flips(), false, &Flip::adopted);
  if (others == 0) return "";
  return fmt::format(
      "for {} of {} choices (tokens x layers), the ranks and one device chose different experts, "
      "and not because of a near-tie",
      others, log.compared());
}

/// Reports how the ranks' choices compare with one device's.
inline void print_flips(const RoutingRecord& log) {
  if (log.compared() == 0) return;
  std::int64_t ties = 0;
  Flip worst;  // among the near-ties
  for (const Flip& flip : log.flips()) {
    if (!flip.adopted) continue;
    ++ties;
    if (flip.distance >= worst.distance) worst = flip;
  }
  if (log.flips().empty())
    fmt::print(
        "routing: the ranks and one device chose the same experts for all {} choices (tokens x "
        "layers){}\n",
        log.compared(),
        log.closest() < 1 ? fmt::format("; the closest was {:.1e} from a tie", log.closest()) : "");
  if (ties > 0)
    fmt::print(
        "routing: for {} of {} choices (tokens x layers), rounding decided between two experts, "
        "and the ranks and one device chose differently (probabilities {}: rank {}, layer {}, "
        "microbatch {}, token {}); one device took the ranks' choice\n",
        ties, log.compared(),
        worst.distance > 0 ? fmt::format("at most {:.1e} apart", worst.distance) : "equal",
        worst.replica, worst.layer, worst.call, worst.token);
  if (const std::string others = different_choices(log); !others.empty())
    fmt::print("routing: {}\n", others);
}

}  // namespace lockstep
