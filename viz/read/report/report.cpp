#include "viz/read/report/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/text_table.h"
#include "viz/read/explain/counterfactual_table.h"
#include "viz/read/report/memory_at_peak.h"
#include "viz/read/report/memory_tables.h"
#include "viz/read/report/terminal_timeline.h"
#include "viz/read/timeline/analysis.h"

namespace lockstep {

namespace {

/// Whether a phase's steps follow a schedule, whose bubble is known before the run.
bool predicts_bubble(const Predicted& predicted) {
  return predicted.bubble || predicted.bubble_simulated;
}

/// The formulas of the phases' bubbles: one, or several with the names of their phases.
std::string bubble_formulas(const Report& report) {
  std::vector<std::pair<std::string, std::string>> formulas;  // with the phases' names
  for (const PhaseResults& results : report.ranks.front().phases) {
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
    const PhaseResults& results = report.ranks.front().phases[p];
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
             report.options.plan.modelled
                 ? "Simulated: before the run, from the cluster's costs."
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
  for (const RankResults& rank : report.ranks)
    in_flight.push_back(rank.phases.back().predicted.in_flight);
  return bubble_by_part(*report.steps.back(), report.where.back().last,
                        report.options.plan.mesh.group(0, Axis::pp), in_flight) +
         critical_path_line(*report.steps.back()) +
         (report.balances.back()
              ? balance_lines(*report.balances.back(), report.options.plan.modelled.has_value())
              : "");
}

/// The modelled time of each phase's last step, on the slowest rank; empty for runs with a trace.
std::string step_times(const Report& report) {
  if (!report.timeline.ranks().empty() || !report.options.plan.modelled) return {};
  std::string text;
  const std::vector<Phase> phases = report.phases();
  for (std::size_t p = 0; p < phases.size(); ++p) {
    const std::string& name = phases[p].name;
    text += fmt::format("{}a step takes {:.3f} ms of modelled time\n",
                        name.empty() ? "" : name + ": ", seconds(report.step_time(p)) * 1e3);
  }
  return text;
}

/// The run's last step; if phases are variants, each phase's last step, with the phase's name. (A
/// pipeline's phases are compared in the bubble table.)
std::vector<std::pair<int, std::string>> steps_to_draw(const Report& report) {
  std::vector<std::pair<int, std::string>> steps;
  const int last = report.options.run.steps - 1;
  if (report.phases().size() > 1 && !bubble(report.timeline, last))
    for (const Phase& phase : report.phases())
      steps.emplace_back(phase.first_step + phase.steps - 1, phase.name + ", ");
  else
    steps.emplace_back(last, "");
  return steps;
}

/// Whether a step's backward passes are split into input and weight gradients.
bool runs_halves(const Timeline& timeline, int step) {
  for (const auto& rank : timeline.ranks())
    if (const Lane* lane = rank->compute())
      for (const SpanRow& row : lane->rows(Band::action))
        for (const TimelineSpan& span : row)
          if (span.step == step && span.category == Category::backward_weight) return true;
  return false;
}

/// The key to the drawing's symbols; empty if the drawing shows spans that the lesson named itself.
std::string legend(const Report& report, const Console& console) {
  if (bubble(report.timeline, report.options.run.steps - 1)) {
    const bool chunks = report.options.plan.stages() > report.options.plan.mesh.size(Axis::pp);
    const bool halves = runs_halves(report.timeline, report.options.run.steps - 1);
    if (console.colour)
      return fmt::format(
          "  blue: forward, green: backward{}{}, dots: idle; digits are "
          "microbatches\n",
          halves ? ", olive: weight gradients" : "",
          chunks ? ", pale: later chunks of the rank" : "");
    return fmt::format(
        "  3--: forward of microbatch 3, 3==: its {}{}, dots: idle\n",
        halves ? "backward (or input gradient), 3~~: its weight gradient" : "backward",
        chunks ? ", 3__ and 3##: in the rank's later chunks" : "");
  }
  if (report.losses.empty() && !report.uncomputed) return {};
  return console.colour
             ? "  blue: forward, green: backward, o: optimizer, dots: waiting; digits are "
               "microbatches\n"
             : "  0--: forward of microbatch 0, 0==: its backward, o: optimizer, dots: waiting\n";
}

std::string parity_text(const Report& report) {
  const Parity& parity = *report.parity;
  if (report.reference_dtype != report.options.plan.model().dtype) {
    const std::size_t tenth = (report.losses.size() + 9) / 10;
    return fmt::format(
        "against one device in {} over {} steps: the mean loss of the last {} steps is {:.4f} "
        "instead of {:.4f} ({:+.2f} %); single losses differ by up to {:.2f} %\n",
        name_of(report.reference_dtype), report.losses.size(), tenth, parity.final_loss,
        parity.reference_loss, 100 * (parity.final_loss / parity.reference_loss - 1),
        100 * parity.max_relative_loss);
  }
  std::string text =
      fmt::format("parity with {} over {} steps: losses differ by {:.1e}, parameters by {:.1e}{}\n",
                  report.compared_with, report.losses.size(), parity.max_relative_loss,
                  parity.max_relative_parameter,
                  parity.bitwise ? " — bitwise equal" : " (" + parity.worst_parameter + ")");
  if (report.same_in_order)
    text += fmt::format("  that exceeds the rounding at this lesson's defaults; {}\n",
                        *report.same_in_order ? "one device that adds gradients in the order of "
                                                "these ranks gets the same bits, so the "
                                                "difference is rounding, amplified by training"
                                              : "one device that adds gradients in the order of "
                                                "these ranks also gets different bits");
  return text;
}

}  // namespace

void Report::look_at_timeline(const std::vector<std::function<SplitProposal()>>& propose_split) {
  const std::vector<int> pipeline = options.plan.mesh.group(0, Axis::pp);
  for (const PhaseResults& results : ranks.front().phases) {
    bubbles.push_back(observe_bubble(timeline, results.phase, results.predicted, pipeline));
    steps.push_back(observe_step(timeline, results.phase));
    balances.emplace_back();
    if (steps.back() && results.predicted.stages > 1)
      balances.back() =
          observe_balance(timeline, steps.back()->step, pipeline, results.predicted.stages,
                          options.plan.microbatches_of(0, results.phase.microbatches));
    const std::size_t p = balances.size() - 1;
    if (balances.back() && p < propose_split.size() && propose_split[p])
      balances.back()->proposal = propose_split[p]();
    where.push_back(observe_steps(timeline, results.phase));
  }
}

std::vector<Phase> Report::phases() const {
  std::vector<Phase> phases;
  for (const PhaseResults& results : ranks.front().phases) phases.push_back(results.phase);
  return phases;
}

Picoseconds Report::step_time(std::size_t phase) const {
  Picoseconds longest = 0;
  for (const RankResults& rank : ranks) longest = std::max(longest, rank.phases[phase].last_step);
  return longest;
}

double Report::step_seconds() const {
  return ranks.front().train_seconds / static_cast<double>(options.run.steps);
}

std::string Report::drawings(const Console& console) const {
  std::string text;
  for (const auto& [step, phase] : steps_to_draw(*this)) {
    const std::string drawing = draw_timeline(timeline, step, console.width, console.colour);
    if (drawing.empty()) continue;
    const std::string length = ms(step_account(timeline, step).length);
    const auto actions = bubble(timeline, step);
    text += fmt::format(
        "\nstep {}, {}{} time: {} ms{}\n", step, phase, options.clock().name(), length,
        actions && ms(actions->window) != length && !options.output.brief
            ? fmt::format(", of which {} ms from the first action to the last", ms(actions->window))
            : "");
    text += drawing;
  }
  if (!text.empty()) text += legend(*this, console);
  return text;
}

std::string Report::brief_text(const Console& console) const {
  std::string text = drawings(console) + '\n';
  if (const auto last = bubble(timeline, options.run.steps - 1)) {
    text +=
        fmt::format("From the first action to the last, the stages are idle for {} of the time.",
                    percent(last->share()));
    const Predicted& predicted = ranks.front().phases.back().predicted;
    if (predicted.bubble && !predicted.formula.empty())
      text += fmt::format(
          " This is the bubble: {} = {} if\nall stages take equally long and "
          "messages are free.",
          predicted.formula, percent(*predicted.bubble));
    text += '\n';
  } else if (!where.empty() && where.back().means.step > 0) {
    const auto& means = where.back().means;
    text += fmt::format("Ranks compute for {} of a step; for {}, communication stalls them.\n",
                        percent(means.compute / means.step), percent(means.exposed / means.step));
  }
  if (!losses.empty())
    text += fmt::format("Loss: {:.2f} → {:.2f} in {} steps.", losses.front(), losses.back(),
                        losses.size());
  if (parity && compared_with != "one device")
    text += fmt::format(" A run on {} has the same weights{}.", compared_with,
                        parity->bitwise
                            ? ", bit for bit"
                            : fmt::format(" to within {:.0e}", parity->max_relative_parameter));
  else if (parity)
    text += parity->bitwise
                ? " One device, trained on the same data, has the same weights, bit for "
                  "bit."
                : fmt::format(
                      " One device, trained on the same data, has the same "
                      "weights to within {:.0e}.",
                      parity->max_relative_parameter);
  if (!sample.empty())
    text += options.run.tokens.empty() ? fmt::format("\nThe model says: \"The {}\"", sample)
                                       : fmt::format("\nThe model says: {}", sample);
  return text + '\n';
}

std::string Report::text(const Console& console) const {
  if (options.output.brief) return brief_text(console);
  std::string text = drawings(console);
  if (const std::string shares = bubble_table(*this); !shares.empty()) text += "\n" + shares;
  if (const std::string parts = where_it_goes(where, console, options.plan.modelled.has_value());
      !parts.empty())
    text += "\n" + parts;
  if (const std::string shorter = counterfactual_table(better); !shorter.empty())
    text += "\n" + shorter;
  if (const std::string why = last_step(*this); !why.empty()) text += "\n" + why;
  if (const std::string peaks = varying_memory(*this); !peaks.empty()) text += "\n" + peaks;
  if (!ranks.front().phases.empty()) text += "\n" + memory_table(*this);
  if (const std::string peak = peak_table(*this); !peak.empty()) text += "\n" + peak;
  if (const std::string times = step_times(*this); !times.empty()) text += "\n" + times;
  if (const std::string gpus = gpu_table(*this); !gpus.empty()) text += "\n" + gpus;
  if (!losses.empty())
    text += fmt::format(
        "\nloss {:.4f} → {:.4f} in {} steps, {:.1f} ms of this machine's time per step\n",
        losses.front(), losses.back(), losses.size(), step_seconds() * 1e3);
  if (uncomputed)
    text +=
        "\nthe meta device computes nothing, so there are no losses, no parity and no generated "
        "text\n";
  if (parity) text += parity_text(*this);
  if (!sample.empty()) text += fmt::format("the model says now: {}\n", sample);
  return text;
}

}  // namespace lockstep
