#include "viz/app/preferences.h"

namespace lockstep::viz {

Preferences::Preferences(ViewerOptions& options) {
  if (!options.remembers || options.screenshot) return;
  file_ = settings_file();
  settings_ = load_settings(file_);
  if (!options.theme) options.theme = settings_.theme;
  if (!options.scale) options.scale = settings_.scale;
  if (!options.size_given) {
    options.width = settings_.width;
    options.height = settings_.height;
  }
  options.critical_path |= settings_.critical_path;
  options.ghost |= settings_.predicted;
}

void Preferences::save(const ViewerOptions& options, const ViewState& view,
                       std::pair<int, int> window_size) {
  if (file_.empty()) return;
  Settings now = settings_;
  // Values from the command line apply to this start only, unless the user has changed them since.
  if (view.theme != options.theme.value_or(Theme::dark)) now.theme = view.theme;
  if (view.scale != options.scale.value_or(0)) now.scale = view.scale;
  if (window_size != std::pair{options.width, options.height}) {
    now.width = window_size.first;
    now.height = window_size.second;
  }
  if (view.critical_path != options.critical_path) now.critical_path = view.critical_path;
  if (view.ghost != options.ghost) now.predicted = view.ghost;
  if (!options.live())
    for (const auto& path : options.paths) remember(now, path);
  if (now != settings_ && save_settings(now, file_)) settings_ = now;
}

}  // namespace lockstep::viz
