#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viz/data/step/expert_load.h"
#include "viz/data/window/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Shows how many tokens each expert gets in the completed step in view: a bar for each expert,
/// layer by layer, with the mean as a line. A click on a layer shows this layer alone, and another
/// click all layers again (`ViewState::expert_layer`).
class ExpertsView {
 public:
  void draw(const Painter& painter, const Rect& rect, Model& model);
  const ExpertLoad& load() const { return load_; }
  /// Returns the centre of a bar on the screen, as drawn last. The layer is an index in load().
  std::optional<ImVec2> centre_of(std::size_t layer, std::size_t expert) const;
  /// The explanation last drawn below the bars.
  const std::vector<std::string>& explanation() const { return explanation_; }

 private:
  /// The bars of one layer on the screen.
  struct Group {
    std::size_t layer = 0;  ///< index in load_
    float left = 0, bar = 0;
  };
  using Bar = std::pair<std::size_t, std::size_t>;  ///< layer and expert

  void refresh(const Model& model);
  /// Returns the layer that is shown alone.
  std::optional<std::size_t> chosen_layer(const Model& model) const;
  void arrange(const Painter& painter, std::optional<std::size_t> only);
  /// Draws the bars, and returns the one under the cursor.
  std::optional<Bar> draw_bars(const Painter& painter) const;
  void draw_axes(const Painter& painter, bool alone) const;
  float y_of(double tokens) const;

  StepKey analysed_;
  ExpertLoad load_;
  std::int64_t highest_ = 0;  ///< of the bars
  Rect plot_;                 ///< on the screen
  std::vector<Group> groups_;
  std::vector<std::string> explanation_;
};

}  // namespace lockstep::viz
