// TimelineView: jumps to spans, causes, ranks and bookmarks, and back.
#include <algorithm>

#include "viz/data/window/copied_text.h"
#include "viz/views/imgui_shim.h"
#include "viz/views/timeline_view.h"

namespace lockstep::viz {

void TimelineView::go_to(const Finding& finding, Model& model, bool keeps_range) {
  model.history.leave({model.selected, model.viewport.window()});
  if (!keeps_range) model.view.range.reset();
  select(finding, model);
  // Brings the span into the window, without zooming unless it is wider than the window.
  const TimeWindow& window = model.viewport.window();
  const auto begin = static_cast<double>(finding.span.start);
  const auto end = static_cast<double>(finding.span.end);
  model.viewport.follow(false);
  if (begin < window.begin || end > window.end) {
    const double middle = (begin + end) / 2, half = window.width() / 2;
    const double margin = (end - begin) / 4;
    if (end - begin > window.width())
      model.viewport.go_to({begin - margin, end + margin});
    else
      model.viewport.go_to({middle - half, middle + half});
  }
  if (!finding.rank) return;
  if (!layout_.find(finding.rank->rank)) layout_.reveal(finding.rank->rank, model.places);
  reveal_ = finding.rank->rank;
}

void TimelineView::go_to_rank(int rank, Model& model) {
  model.view.marked_rank = rank;
  if (!layout_.find(rank)) layout_.reveal(rank, model.places);
  reveal_ = rank;
}

void TimelineView::go_to_cause(int by, Model& model) {
  const auto found =
      by < 0 ? cause_of(model.timeline, model.selected) : effect_of(model.timeline, model.selected);
  if (found) go_to(*found, model);
}

void TimelineView::go_in_history(int by, Model& model) {
  const VisitedPlace now{model.selected, model.viewport.window()};
  const auto place = by < 0 ? model.history.back(now) : model.history.forward(now);
  if (!place) return;
  model.view.range.reset();
  select(place->selected, model);
  model.viewport.follow(false);
  model.viewport.go_to(place->window);
  if (!place->selected.rank) return;
  const int rank = place->selected.rank->rank;
  if (!layout_.find(rank)) layout_.reveal(rank, model.places);
  reveal_ = rank;
}

void TimelineView::set_bookmark(int number, Model& model) const {
  auto& bookmark = model.notes.bookmarks[static_cast<std::size_t>(number - 1)];
  const TimeWindow& window = model.viewport.window();
  if (bookmark == window)
    bookmark.reset();
  else
    bookmark = window;
}

void TimelineView::go_to_bookmark(int number, Model& model) {
  const auto& bookmark = model.notes.bookmarks[static_cast<std::size_t>(number - 1)];
  if (!bookmark) return;
  model.history.leave({model.selected, model.viewport.window()});
  model.viewport.follow(false);
  model.viewport.go_to(*bookmark);
}

void TimelineView::take_jump_keys(Model& model) {
  const ImGuiIO& io = ImGui::GetIO();
  if (io.KeyCtrl) {
    if (key_pressed(keys::c, false)) {
      const std::string text = io.KeyShift ? copied_values(model) : copied_name(model);
      if (!text.empty()) ImGui::SetClipboardText(text.c_str());
    }
    for (int digit = 1; digit <= 9; ++digit)
      if (key_pressed(digit_key(digit), false)) set_bookmark(digit, model);
    return;
  }
  if (key_pressed(keys::j)) go_to_cause(io.KeyShift ? 1 : -1, model);
  if (key_pressed(keys::backspace)) go_in_history(io.KeyShift ? 1 : -1, model);
  for (int digit = 1; digit <= 9; ++digit)
    if (typed(static_cast<char>('0' + digit))) go_to_bookmark(digit, model);
}

}  // namespace lockstep::viz
