#pragma once

#include <optional>
#include <string>

#include "viz/data/feed/folder_listing.h"
#include "viz/data/window/model.h"
#include "viz/views/draw.h"
#include "viz/views/scrolled_rows.h"

namespace lockstep::viz {

/// The dialog in which the user chooses the traces to open: a path to type, the entries of a
/// folder, and the traces opened before. For traces dropped on the window, it only asks whether to
/// open them or to compare them with the run shown.
class OpenView {
 public:
  /// Draws the dialog if `model.view.opening` is set. Writes the choice to `model.view.open`.
  void draw(const Look& look, ImVec2 size, Model& model);
  /// The buttons and entries drawn last, for tests: their texts and rectangles.
  struct Spot {
    std::string words;
    Rect rect;
  };
  const std::vector<Spot>& spots() const { return spots_; }

 private:
  void begin(Model& model);
  void go_to(const std::filesystem::path& folder);
  /// Enters a folder, or selects a run or a trace; `twice` opens it.
  void choose(const std::filesystem::path& path, bool is_folder, bool twice, Model& model);
  void draw_path(const Painter& painter, const Rect& rect, Model& model);
  void draw_entries(const Painter& painter, const Rect& rect, Model& model);
  void draw_recent(const Painter& painter, const Rect& rect, Model& model);
  void draw_buttons(const Painter& painter, const Rect& rect, Model& model);
  /// Draws a line that can be clicked. Returns how often it was clicked: 0, 1 or 2.
  int line(const Painter& painter, const Rect& rect, const std::string& id,
           const std::string& words, const std::string& note, bool chosen);

  bool was_open_ = false;
  std::filesystem::path folder_;
  FolderListing listing_;
  ScrolledRows rows_;  ///< of the folder
  std::string path_;   ///< as typed or chosen
  std::vector<Spot> spots_;
};

}  // namespace lockstep::viz
