#pragma once

#include "viz/views/draw.h"

namespace lockstep::viz {

/// The parts of the window, from top to bottom. The cards are a row below the middle or, in a
/// narrow window, a column beside it.
struct ScreenParts {
  Rect bar, toolbar, middle, cards, line;
  bool column = false;
};

/// The heights that differ between the screens of one run and of two.
struct ScreenHeights {
  float bar = 0;
  float cards = 0;
  float cards_share = 0;  ///< of the window's height, at most
  float line = 0;         ///< pixels
  float least_row = 0;    ///< the width of a window whose cards have room in a row
};

/// Begins a window of Dear ImGui that fills the whole window; end it with ImGui::End().
void begin_screen();
/// Divides the window.
ScreenParts screen_parts(const Painter& painter, const ScreenHeights& heights);

}  // namespace lockstep::viz
