#pragma once

#include <string>

#include "viz/views/draw.h"

namespace lockstep::viz {

/// Shows all keys and mouse actions, in the middle of the screen.
class HelpView {
 public:
  void draw(const Painter& painter, ImVec2 size) const;
};

/// Returns the same as text, one line each, for --help.
std::string help_text();

}  // namespace lockstep::viz
