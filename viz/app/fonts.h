#pragma once

#include <filesystem>

#include "viz/views/theme.h"

namespace lockstep::viz {

/// Adds the fonts of a look to Dear ImGui's atlas, in the sizes of the look's scale: `file` or, if
/// it is empty, a TrueType font of the system. Returns whether it found one; otherwise, the look
/// gets Dear ImGui's own font, which has neither Greek letters nor arrows.
bool load_fonts(Look& look, const std::filesystem::path& file);

}  // namespace lockstep::viz
