#include "viz/app/export.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "viz/app/open_files.h"
#include "viz/data/feed/trace_input.h"
#include "viz/data/selection/exports.h"
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
      const auto range = selection_of(model);
      std::string written = "wrote ";
      try {
        write_text(file, statistics_csv(model.timeline, model.viewport.window(), range));
        written += file.string() + (range ? " and " : "");
      } catch (const RunError& error) {
        if (!range) throw;
        written = std::string{error.what()} + "; wrote ";  // the names can still be counted
      }
      if (!range) return written;
      auto names = file;
      names.replace_filename(file.stem().string() + "-names.csv");
      write_text(names, names_csv(model.timeline, *range));
      return written + names.string();
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
  const auto runs = open_files(options, model);
  palette = options.theme == Theme::light ? light_palette : dark_palette;
  for (const auto& file : options.exports) {
    if (file.extension() == ".zip") {
      if (runs)
        throw UsageError("--export " + file.string() + ": holds one run; give the traces of one");
      export_archive(options.paths, options.memory, file);
      continue;
    }
    const bool compares = file.extension() == ".json";
    if (compares != (runs != nullptr))
      throw UsageError("--export " + file.string() +
                       (compares ? ": compares two runs; give the traces of two"
                                 : ": holds one run; give the traces of one"));
    // Without --steps, exports all steps, although the screen would open at the last ones.
    const Timeline& timeline = model.timeline;
    const TimeWindow window =
        options.steps.empty()
            ? TimeWindow{static_cast<double>(timeline.start()), static_cast<double>(timeline.end())}
            : model.viewport.window();
    write_text(file, compares ? sentences_json(runs->sentences())
                     : file.extension() == ".svg"
                         ? timeline_svg(model, whole_layout(model.timeline), options.width)
                         : statistics_csv(timeline, window, {}));
  }
}

}  // namespace lockstep::viz
