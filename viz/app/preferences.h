#pragma once

#include "viz/app/options.h"
#include "viz/data/window/settings.h"
#include "viz/data/window/view_state.h"

namespace lockstep::viz {

/// The settings file: read at the start, and written at the end if the user has changed something.
/// Pictures and tests neither read nor write it.
class Preferences {
 public:
  /// Fills in the options that the command line leaves open.
  explicit Preferences(ViewerOptions& options);
  void save(const ViewerOptions& options, const ViewState& view, std::pair<int, int> window_size);
  const Settings& settings() const { return settings_; }

 private:
  std::filesystem::path file_;  ///< empty if nothing is remembered
  Settings settings_;
};

}  // namespace lockstep::viz
