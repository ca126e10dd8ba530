#include "viz/read/report/texts.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/text_table.h"
#include "viz/read/explain/counterfactual_table.h"
#include "viz/read/report/drawings.h"
#include "viz/read/report/memory_tables.h"

namespace lockstep {

namespace {

/// The lines after a run, including those of the run itself (where the trace is, how to retime it).
constexpr int most_lines = 25, lines_of_the_run = 2;
constexpr std::size_t most_phases = 6;  ///< with a row each

std::string allowed(const Tolerance& tolerance) {
  if (tolerance.bitwise()) return ", and no difference is accepted";
  if (tolerance.final_loss > 0)
    return fmt::format("; accepted: {:g} % in the last tenth's mean loss",
                       100 * tolerance.final_loss);
  return fmt::format("; accepted: {:.0e} and {:.0e}", tolerance.loss, tolerance.parameter);
}

/// A row per phase: its last step, where its time goes, and what was predicted of it.
std::string phase_table(const Report& report) {
  const RunResults& results = report.results;
  const std::vector<Phase> phases = results.phases();
  const bool traced = !report.where.empty();
  const bool pipeline = std::ranges::any_of(
      report.bubbles, [](const ObservedBubble& seen) { return seen.share.has_value(); });
  if (!traced && !results.modelled) return {};
  TableRows rows{{"", "step"}};
  if (traced) rows[0].insert(rows[0].end(), {"compute", "exposed communication"});
  if (pipeline)
    rows[0].insert(rows[0].end(), {"bubble", "of the actions", "simulated", "by formula"});
  if (traced) rows[0].emplace_back("rest");
  rows[0].emplace_back("peak memory");
  const auto optional = [](const std::optional<double>& share) {
    return share ? percent(*share) : std::string{"-"};
  };
  std::string formula;
  for (std::size_t p = phases.size() > most_phases ? phases.size() - most_phases : 0;
       p < phases.size(); ++p) {
    auto& row = rows.emplace_back();
    const int step = phases[p].first_step + phases[p].steps - 1;
    row.push_back(
        fmt::format("step {}{}{}", step, phases[p].name.empty() ? "" : ", ", phases[p].name));
    row.push_back(ms(results.step_time(p)) + " ms");
    if (traced) {
      const StepAccount& account = report.where[p].last;
      const StepSums sums = account.sum();
      const double all =
          static_cast<double>(account.length) * static_cast<double>(account.ranks.size());
      const auto share = [&](Picoseconds part) {
        return all > 0 ? percent(static_cast<double>(part) / all) : std::string{"-"};
      };
      row.push_back(share(plus(sums.compute, sums.optimizer)));
      row.push_back(share(sums.exposed().sum()));
      if (pipeline) {
        const Predicted& predicted = results.ranks.front().phases[p].predicted;
        row.insert(row.end(), {share(sums.bubble()), optional(report.bubbles[p].share),
                               optional(predicted.bubble_simulated), optional(predicted.bubble)});
        if (predicted.bubble) formula = predicted.formula;
        row.push_back(share(plus(sums.other, sums.ended)));
      } else {
        row.push_back(share(plus(sums.bubble(), plus(sums.other, sums.ended))));
      }
    }
    std::int64_t peak = 0;
    for (const RankResults& rank : results.ranks) peak = std::max(peak, rank.phases[p].peak_total);
    row.push_back(human_bytes(peak));
  }
  std::string text = table(rows);
  if (pipeline)
    text += fmt::format(
        "  bubble: waiting for other stages, of the whole step; of the actions: idle from the "
        "first "
        "action to the last{}\n",
        formula.empty() ? "" : "; formula: " + formula);
  return text;
}

/// The change that saves most, of those that were tried.
std::string shorter_line(const Counterfactuals& better) {
  for (const Counterfactual& each : better.all) {
    const double share = static_cast<double>(better.saving(each)) /
                         static_cast<double>(std::max<Picoseconds>(better.length, 1));
    if (share < least_saving) continue;
    return fmt::format("what would shorten step {} most: {}: {} ms, {:+.1f} %{}\n", better.step,
                       each.what, ms(each.step), -100 * share,
                       each.estimated ? " (a rough estimate)" : "");
  }
  return {};
}

}  // namespace

std::string parity_text(const RunResults& results) {
  const Parity& parity = *results.parity;
  if (results.reference_dtype != results.dtype) {
    const std::size_t tenth = (results.losses.size() + 9) / 10;
    return fmt::format(
        "against one device in {} over {} steps: the mean loss of the last {} steps is {:.4f} "
        "instead of {:.4f} ({:+.2f} %); single losses differ by up to {:.2f} %{}\n",
        results.reference_dtype, results.losses.size(), tenth, parity.final_loss,
        parity.reference_loss, 100 * (parity.final_loss / parity.reference_loss - 1),
        100 * parity.max_relative_loss, allowed(results.tolerance));
  }
  std::string text = fmt::format(
      "parity with {} over {} steps: losses differ by {:.1e}, parameters by {:.1e}{}{}\n",
      results.compared_with, results.losses.size(), parity.max_relative_loss,
      parity.max_relative_parameter,
      parity.bitwise ? " — bitwise equal" : " (" + parity.worst_parameter + ")",
      allowed(results.tolerance));
  if (results.same_in_order)
    text += fmt::format("  that exceeds the tolerance; {}\n",
                        *results.same_in_order ? "one device that adds gradients in the order of "
                                                 "these ranks gets the same bits, so the "
                                                 "difference is rounding, amplified by training"
                                               : "one device that adds gradients in the order of "
                                                 "these ranks also gets different bits");
  return text;
}

std::string summary_text(const Report& report, const Console& console) {
  const RunResults& results = report.results;
  std::string text;
  if (!results.ranks.front().phases.empty()) {
    const std::string phases = phase_table(report);
    text += (phases.empty() ? "" : "\n") + phases + predicted_lines(report);
  }
  text += shorter_line(report.better);
  if (results.parity) text += parity_text(results);
  if (!results.losses.empty())
    text +=
        fmt::format("loss {:.4f} → {:.4f} in {} steps, {:.1f} ms of this machine's time per step\n",
                    results.losses.front(), results.losses.back(), results.losses.size(),
                    results.step_seconds() * 1e3);
  if (results.uncomputed)
    text +=
        "the meta device computes nothing, so there are no losses, no parity and no generated "
        "text\n";
  if (!results.sample.empty()) text += fmt::format("the model says now: {}\n", results.sample);
  text += "all tables: --verbose\n";
  const auto lines = static_cast<int>(std::ranges::count(text, '\n')) + lines_of_the_run;
  return drawings(report, console, /*window=*/true, most_lines - lines) + text;
}

}  // namespace lockstep
