#include "viz/read/report/texts.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/text_table.h"
#include "viz/read/explain/counterfactual_table.h"
#include "viz/read/report/drawings.h"
#include "viz/read/report/memory_at_peak.h"
#include "viz/read/report/memory_tables.h"

namespace lockstep {

namespace {

/// Whether a phase's steps follow a schedule, whose bubble is known before the run.
bool predicts_bubble(const Predicted& predicted) {
  return predicted.bubble || predicted.bubble_simulated;
}

/// The formulas of the phases' bubbles: one, or several with the names of their phases.
std::string bubble_formulas(const Report& report) {
  std::vector<std::pair<std::string, std::string>> formulas;  // with the phases' names
  for (const PhaseResults& results : report.results.ranks.front().phases) {
    const std::string& formula = results.predicted.formula;
    if (!results.predicted.bubble || formula.empty()) continue;
    const auto known =
        std::ranges::find(formulas, formula, &std::pair<std::string, std::string>::first);
    if (known == formulas.end())
      formulas.emplace_back(formula, results.phase.name);
    else
      known->second += ", " + results.phase.name;
  }
  if (formulas.size() == 1) return formulas.front().first;
  std::string text;
  for (const auto& [formula, names] : formulas)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", formula, names);
  return text.empty() ? "none" : text;
}

std::string bubble_table(const Report& report) {
  TableRows rows{{"bubble", "formula", "uneven stages", "uneven actions", "messages", "observed",
                  "simulated", "first to last action"}};
  for (std::size_t p = 0; p < report.bubbles.size(); ++p) {
    const ObservedBubble& seen = report.bubbles[p];
    const PhaseResults& results = report.results.ranks.front().phases[p];
    if (!seen.share || !predicts_bubble(results.predicted)) continue;
    const auto part = [&](double BubbleParts::*which) {
      return seen.parts ? signed_percent((*seen.parts).*which) : std::string{"-"};
    };
    rows.push_back(
        {results.phase.name, results.predicted.bubble ? percent(*results.predicted.bubble) : "-",
         part(&BubbleParts::uneven), part(&BubbleParts::actions), part(&BubbleParts::messages),
         percent(*seen.share),
         results.predicted.bubble_simulated ? percent(*results.predicted.bubble_simulated) : "-",
         ms(seen.window) + " ms"});
  }
  if (rows.size() == 1) return {};
  return table(rows) +
         fmt::format(
             "  observed: of the time from the first action to the last, in the step with the "
             "median bubble\n"
             "  formula: {}, for equal stages and free messages. {}\n",
             bubble_formulas(report),
             report.results.modelled ? "Simulated: before the run, from the cluster's costs."
                                     : "Uneven actions: the same action does not always take "
                                       "equally long; on a busy machine, mostly because it waits "
                                       "for a core.") +
         "  Each part is the change in percentage points when one more quantity takes its observed "
         "value. It is negative if\n"
         "  that fills idle time: the bubble is a share, and longer actions on the slowest rank "
         "leave a smaller share idle.\n";
}

/// Explains the length of a pipeline's last step.
std::string last_step(const Report& report) {
  if (report.steps.empty() || !report.steps.back()) return {};
  std::vector<std::optional<int>> in_flight;
  for (const RankResults& rank : report.results.ranks)
    in_flight.push_back(rank.phases.back().predicted.in_flight);
  return bubble_by_part(*report.steps.back(), report.where.back().last, report.results.pipeline,
                        in_flight) +
         critical_path_line(*report.steps.back()) +
         (report.balances.back() ? balance_lines(*report.balances.back(), report.results.modelled)
                                 : "");
}

/// The modelled time of each phase's last step, on the slowest rank; empty for runs with a trace.
std::string step_times(const Report& report) {
  if (!report.timeline.ranks().empty() || !report.results.modelled) return {};
  std::string text;
  const std::vector<Phase> phases = report.results.phases();
  for (std::size_t p = 0; p < phases.size(); ++p) {
    const std::string& name = phases[p].name;
    text +=
        fmt::format("{}a step takes {:.3f} ms of modelled time\n", name.empty() ? "" : name + ": ",
                    seconds(report.results.step_time(p)) * 1e3);
  }
  return text;
}

}  // namespace

std::string full_text(const Report& report, const Console& console) {
  const RunResults& results = report.results;
  std::string text = drawings(report, console, /*window=*/true);
  if (const std::string shares = bubble_table(report); !shares.empty()) text += "\n" + shares;
  if (const std::string parts = where_it_goes(report.where, console, results.modelled);
      !parts.empty())
    text += "\n" + parts;
  if (const std::string shorter = counterfactual_table(report.better); !shorter.empty())
    text += "\n" + shorter;
  if (const std::string why = last_step(report); !why.empty()) text += "\n" + why;
  if (const std::string peaks = varying_memory(report); !peaks.empty()) text += "\n" + peaks;
  if (!results.ranks.front().phases.empty()) text += "\n" + memory_table(report);
  if (const std::string peak = peak_table(report); !peak.empty()) text += "\n" + peak;
  if (const std::string times = step_times(report); !times.empty()) text += "\n" + times;
  if (const std::string gpus = gpu_table(report); !gpus.empty()) text += "\n" + gpus;
  if (!results.losses.empty())
    text += fmt::format(
        "\nloss {:.4f} → {:.4f} in {} steps, {:.1f} ms of this machine's time per step\n",
        results.losses.front(), results.losses.back(), results.losses.size(),
        results.step_seconds() * 1e3);
  if (results.uncomputed)
    text +=
        "\nthe meta device computes nothing, so there are no losses, no parity and no generated "
        "text\n";
  if (results.parity) text += parity_text(results);
  if (!results.sample.empty()) text += fmt::format("the model says now: {}\n", results.sample);
  return text;
}

}  // namespace lockstep
