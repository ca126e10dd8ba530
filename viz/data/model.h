#pragma once

#include <string>

#include "viz/data/series.h"
#include "viz/data/viewport.h"
#include "viz/data/words.h"

namespace lockstep::viz {

/// Where the timeline comes from, and how that goes.
struct Source {
  bool live = false;
  bool piped = false;  ///< live, from standard input
  std::string name{};  ///< the address listened on, or the files
  int connected = 0;
  int refused = 0;
  std::int64_t malformed = 0;
  std::string first_malformed{};
  std::string notice{};  ///< something about what is not shown
};

/// All that the views show. Belongs to the frame loop's thread.
struct Model {
  Timeline timeline;
  Viewport viewport;
  BubbleSeries bubbles;
  Source source;
  Finding hovered;   ///< what the cursor is on, this frame
  Finding selected;  ///< what was clicked
};

}  // namespace lockstep::viz
