#pragma once

#include <optional>
#include <string>
#include <vector>

#include "viz/data/step/shards.h"
#include "viz/data/window/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Shows which rank stores which part of a tensor between steps, and one rank's memory for
/// parameters through the step in view. The tensor is chosen from a list, or with the wheel.
class ShardsView {
 public:
  void draw(const Painter& painter, const Rect& rect, Model& model);
  /// Shows another tensor of the run; does nothing if there is none of this name.
  void choose(const std::string& tensor);
  const TensorShards& shown() const { return shown_; }
  const std::optional<ParameterMemory>& memory() const { return memory_; }
  /// Whether the drawing shows that a rank holds all of the tensor at the cursor's time.
  bool shows_whole() const { return whole_now_; }
  /// Returns a point on the screen in the area of a group of holders, as drawn last.
  std::optional<ImVec2> point_in(std::size_t layout, std::size_t holders) const;
  /// Returns a point on the list of tensors.
  ImVec2 list() const { return {list_.left + 8, (list_.top + list_.bottom) / 2}; }
  /// The explanation last drawn beside the tensor.
  const std::vector<std::string>& explanation() const { return explanation_; }

 private:
  void refresh(const Model& model);
  void show(std::size_t index);
  void draw_list(const Painter& painter, const Rect& rect);
  /// Draws one layout; returns the holders under the cursor.
  const Holders* draw_layout(const Painter& painter, const Rect& rect, std::size_t index);
  void draw_memory(const Painter& painter, const Rect& rect, const Model& model) const;

  /// A rectangle on the screen that belongs to holders of a layout.
  struct Area {
    Rect rect;
    std::size_t layout = 0, holders = 0;
  };

  std::string run_;
  std::size_t told_ = 0;  ///< bytes of the ranks' lists of their slices
  Shards all_;
  std::size_t chosen_ = 0;
  TensorShards shown_;
  std::optional<ParameterMemory> memory_;
  int memory_rank_ = -1, memory_step_ = -1;
  bool whole_now_ = false;   ///< whether that rank holds all of the tensor at the cursor's time
  std::vector<Area> areas_;  ///< in the order in which they were drawn
  Rect list_;
  std::vector<std::string> explanation_;
};

}  // namespace lockstep::viz
