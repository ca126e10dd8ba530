#include "viz/views/toolbar_view.h"

#include "viz/views/button.h"

namespace lockstep::viz {
namespace {

constexpr float edge = 16;

}  // namespace

void ToolbarView::draw(const Painter& painter, const Rect& rect, Model& model) const {
  ViewState& view = model.view;
  ButtonRow row{painter, rect, rect.left + painter.px(edge)};
  if (row.button("P  Critical path", view.critical_path,
                 "the chain of actions and messages that determines the step's length"))
    view.critical_path = !view.critical_path;
}

}  // namespace lockstep::viz
