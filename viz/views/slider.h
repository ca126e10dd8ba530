#pragma once

#include <string_view>

#include "viz/views/draw.h"

namespace lockstep::viz {

// Dear ImGui's own sliders draw their value under the knob. In these, the words are above the
// track: the label on the left, the value on the right.

/// The words above a slider.
struct SliderWords {
  std::string_view label;  ///< gets the room that the value leaves
  std::string_view value;
  bool emphasised = false;  ///< whether the label is as bright as the value
};

/// The heights of a slider, and of its track alone.
float slider_height(const Painter& painter);
float slider_track_height(const Painter& painter);

/// Returns the rectangle in which the middle of the knob moves.
Rect slider_range(const Painter& painter, const Rect& track);
/// Draws a track with a knob at `position`, from 0 to 1, filled from `origin` on; an origin within
/// the track is marked. Returns whether the user drags the knob, and sets the position.
bool slider_track(const Painter& painter, const char* id, const Rect& track, float& position,
                  float origin = 0);
/// Draws the words of a slider at the top of `rect`.
void draw_slider_words(const Painter& painter, const Rect& rect, const SliderWords& words);
/// Draws a slider with its words at the top of `rect` and its track at the bottom. Returns whether
/// the user drags the knob, and sets the position.
bool slider(const Painter& painter, const char* id, const Rect& rect, const SliderWords& words,
            float& position);
/// Does the same for a whole number. Returns whether the user has changed it.
bool whole_slider(const Painter& painter, const char* id, const Rect& rect,
                  const SliderWords& words, int& value, int least, int most);

}  // namespace lockstep::viz
