#pragma once

#include <string>

#include "viz/views/draw.h"

namespace lockstep::viz {

/// Shows all keys and mouse actions, in the middle of the screen.
class HelpView {
 public:
  enum class Runs { one, two };
  /// Omits actions that have no effect with this number of runs.
  void draw(const Painter& painter, ImVec2 size, Runs runs) const;
};

/// Returns the same as text, one line each, for --help.
std::string help_text();

}  // namespace lockstep::viz
