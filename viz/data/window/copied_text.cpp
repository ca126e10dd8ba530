#include "viz/data/window/copied_text.h"

#include <fmt/format.h>

#include "viz/data/step/words.h"

namespace lockstep::viz {
namespace {

std::string name_of_finding(const Model& model, const Finding& finding) {
  if (finding.kind == Finding::Kind::span) return model.timeline.name(finding.span.name);
  const auto lines = finding_words(model.timeline, finding, model.origin);
  return lines.empty() ? std::string{} : lines.front();
}

std::string table_of_names(const Model& model) {
  const NameStatistics& names = model.view.names;
  const auto ranks = names.by_rank() ? 1 : model.timeline.ranks().size();
  std::string text = names.by_rank() ? "rank\t" : "";
  text += "name\tcount\ttotal\tshare\tmean\tmin\tmax\n";
  for (const NameTotal& total : sorted_totals(model.timeline, names.totals(), NameColumn::total,
                                              false, names.totals().size())) {
    if (names.by_rank()) text += fmt::format("{}\t", total.kind.rank);
    text += fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\n", kind_words(model.timeline, total.kind),
                        total.count, duration_words(total.inside),
                        percent_words(share_of_time(total, names.range(), ranks)),
                        duration_words(total.mean()), duration_words(total.shortest),
                        duration_words(total.longest));
  }
  return text;
}

}  // namespace

std::string copied_name(const Model& model) {
  if (model.selected.kind != Finding::Kind::nothing) return name_of_finding(model, model.selected);
  if (model.view.range && model.view.chosen_kind)
    return kind_words(model.timeline, *model.view.chosen_kind);
  return name_of_finding(model, model.hovered);
}

std::string copied_values(const Model& model) {
  if (model.view.range) return table_of_names(model);
  std::string text;
  for (const std::string& line : finding_words(model.timeline, model.selected, model.origin))
    text += line + "\n";
  return text;
}

}  // namespace lockstep::viz
