#include "viz/read/report/texts.h"

#include <fmt/format.h>

#include "core/text/text_table.h"
#include "viz/read/report/drawings.h"
#include "viz/read/timeline/analysis.h"

namespace lockstep {

std::string brief_text(const Report& report, const Console& console) {
  const RunResults& results = report.results;
  std::string text = drawings(report, console, /*window=*/false) + '\n';
  if (const auto last = bubble(report.timeline, results.steps - 1)) {
    text +=
        fmt::format("From the first action to the last, the stages are idle for {} of the time.",
                    percent(last->share()));
    const Predicted& predicted = results.ranks.front().phases.back().predicted;
    if (predicted.bubble && !predicted.formula.empty())
      text += fmt::format(
          " This is the bubble: {} = {} if\nall stages take equally long and "
          "messages are free.",
          predicted.formula, percent(*predicted.bubble));
    text += '\n';
  } else if (!report.where.empty() && report.where.back().means.step > 0) {
    const auto& means = report.where.back().means;
    text += fmt::format("Ranks compute for {} of a step; for {}, communication stalls them.\n",
                        percent(means.compute / means.step), percent(means.exposed / means.step));
  }
  const std::optional<Parity>& parity = results.parity;
  if (!results.losses.empty())
    text += fmt::format("Loss: {:.2f} → {:.2f} in {} steps.", results.losses.front(),
                        results.losses.back(), results.losses.size());
  const bool same =
      parity && parity->within(results.tolerance) && results.tolerance.final_loss == 0;
  if (parity && !same)
    text += '\n' + parity_text(results);
  else if (parity && results.compared_with != "one device")
    text += fmt::format(" A run on {} has the same weights{}.", results.compared_with,
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
  if (!results.sample.empty())
    text += results.sample_follows_the ? fmt::format("\nThe model says: \"The {}\"", results.sample)
                                       : fmt::format("\nThe model says: {}", results.sample);
  return text + '\n';
}

}  // namespace lockstep
