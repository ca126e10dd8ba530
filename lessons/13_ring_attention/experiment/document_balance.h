#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/model/packing.h"
#include "core/run/lesson.h"
#include "lessons/13_ring_attention/experiment/attention_alone.h"

namespace lockstep {

/// The busiest rank's excess of attention over the mean, as a share of the mean; 0 if all ranks
/// have equal shares.
inline double imbalance(ContextLayout layout, const Documents& documents, int n) {
  std::int64_t most = 0, all = 0;
  for (int rank = 0; rank < n; ++rank) {
    const std::int64_t pairs =
        attention_pairs(documents, context_positions(layout, documents, rank, n));
    most = std::max(most, pairs);
    all += pairs;
  }
  return static_cast<double>(most) * n / static_cast<double>(all) - 1;
}

/// Returns a table of the imbalance of each layout, over the first sequences of the run.
inline std::string balance_table(const Plan& plan, const RunConfig& run) {
  const int n = plan.mesh.size(Axis::cp), s = plan.model().sequence;
  constexpr int most_sequences = 20;
  std::vector<Documents> sequences;
  for (int i = 0; i < std::min(most_sequences, plan.batch.sequences * run.steps); ++i)
    sequences.push_back(packed_documents(plan.seed, run.trained_steps + i / plan.batch.sequences,
                                         static_cast<std::uint64_t>(i % plan.batch.sequences), s,
                                         plan.batch.documents));
  int longest = 0;
  std::size_t documents = 0;
  double bound = 0;
  for (const Documents& each : sequences) {
    longest = std::max(longest, std::ranges::max(each));
    documents += each.size();
    const auto all = static_cast<double>(attention_pairs(each, {{0, s}}));
    bound = std::max(bound, balance_bound(each, n) * n / all);
  }
  std::string text = fmt::format(
      "  {} documents in {} sequences of {} tokens; the longest has {}; {} ranks with {} tokens "
      "each\n"
      "  attention of the busiest rank beyond the mean:   mean     worst\n",
      documents, sequences.size(), s, longest, n, s / n);
  for (const ContextLayout layout : {ContextLayout::contiguous, ContextLayout::zigzag,
                                     ContextLayout::striped, ContextLayout::balanced}) {
    if (layout == ContextLayout::zigzag && s % (2 * n) != 0) continue;
    double sum = 0, worst = 0;
    for (const Documents& each : sequences) {
      sum += imbalance(layout, each, n);
      worst = std::max(worst, imbalance(layout, each, n));
    }
    text += fmt::format("  {:>12} {:>38.1f} %   {:>5.1f} %", name_of(layout),
                        100 * sum / static_cast<double>(sequences.size()), 100 * worst);
    if (layout == ContextLayout::balanced)
      text += fmt::format("   (blocks of {}; the bound is {:.1f} %)", balanced_block(s, n),
                          100 * bound);
    text += "\n";
  }
  return text;
}

/// Prints the table for a run with packed documents.
inline void show_balance(const Lesson& lesson, const Rank& rank) {
  if (rank.id != 0 || rank.plan.batch.documents == 0 || rank.plan.mesh.size(Axis::cp) == 1 ||
      lesson.options().output.quiet)
    return;
  fmt::print("\n{}", balance_table(rank.plan, lesson.options().run));
}

}  // namespace lockstep
