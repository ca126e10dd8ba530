#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "viz/app/comparison_screen.h"
#include "viz/app/options.h"
#include "viz/data/layout/strip_layout.h"
#include "viz/data/window/model.h"

namespace lockstep::viz {

/// Writes the timeline (SVG), the statistics (CSV) or, by `write_picture`, the window's picture
/// (PNG) to a new file in the options' folder, and returns a sentence about it.
std::string export_view(Export what, const ViewerOptions& options, Model& model,
                        const StripLayout& lanes,
                        const std::function<void(const std::filesystem::path&)>& write_picture);

/// Does the same for a comparison: the files of both runs, or one picture.
std::string export_comparison(
    Export what, const ViewerOptions& options, ComparedRuns& runs, const ComparisonScreen& screen,
    const std::function<void(const std::filesystem::path&)>& write_picture);

/// Writes the files of --export, whose extensions select their formats. Needs no display.
void export_files(const ViewerOptions& options);

}  // namespace lockstep::viz
