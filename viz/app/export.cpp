#include "viz/app/export.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "viz/app/open_files.h"
#include "viz/data/exports.h"
#include "viz/views/theme.h"
#include "viz/views/timeline_svg.h"

namespace lockstep::viz {
namespace {

std::optional<Interval> selection_of(const Model& model) {
  return model.view.range ? std::optional{model.view.range->range} : std::nullopt;
}

}  // namespace

std::string export_view(Export what, const ViewerOptions& options, Model& model,
                        const StripLayout& lanes,
                        const std::function<void(const std::filesystem::path&)>& write_picture) {
  const std::string ending = what == Export::png ? "png" : what == Export::svg ? "svg" : "csv";
  try {
    const auto file = free_name(options.export_folder, model.timeline.run().lesson, ending);
    if (what == Export::svg) {
      write_text(file, timeline_svg(model, lanes, options.width));
    } else if (what == Export::csv) {
      write_text(file,
                 statistics_csv(model.timeline, model.viewport.window(), selection_of(model)));
    } else {
      std::error_code ignored;
      std::filesystem::create_directories(options.export_folder, ignored);
      write_picture(file);
    }
    return "wrote " + file.string();
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string export_comparison(
    Export what, const ViewerOptions& options, ComparedRuns& runs, const ComparisonScreen& screen,
    const std::function<void(const std::filesystem::path&)>& write_picture) {
  const auto of = [&](Side side) {
    return export_view(what, options, runs.model(side), screen.lanes(side), write_picture);
  };
  return what == Export::png ? of(Side::a) : of(Side::a) + "; " + of(Side::b);
}

void export_files(const ViewerOptions& options) {
  if (options.live())
    throw UsageError("--export needs traces, such as runs/latest; for a live run, press E");
  Model model;
  if (open_files(options, model))
    throw UsageError("--export writes one run; give the traces of one");
  palette = options.theme == Theme::light ? light_palette : dark_palette;
  for (const auto& file : options.exports)
    write_text(file, file.extension() == ".svg"
                         ? timeline_svg(model, whole_layout(model.timeline), options.width)
                         : statistics_csv(model.timeline, model.viewport.window(), {}));
}

}  // namespace lockstep::viz
