// TimelineView: the names of ranks and lanes, to the left of the strips.
#include <fmt/format.h>

#include "viz/views/timeline_view.h"

namespace lockstep::viz {

void TimelineView::draw_names(const Painter& painter, const Frame& frame,
                              const Model& model) const {
  const Look& look = painter.look();
  const float left = frame.names.left + painter.px(26);
  const float right = frame.names.right - painter.px(10);
  for (const RankGroup& group : layout_.groups()) {
    const float top = frame.names.top + group.top - scroll_;
    if (top + group.height < frame.names.top || top > frame.names.bottom) continue;
    // A triangle shows whether the rank is expanded or collapsed.
    const float middle = top + layout_.strips()[group.first].height / 2;
    const float size = painter.px(3.5f);
    const float x = frame.names.left + painter.px(17);
    if (group.collapsed) {
      painter.list()->AddTriangleFilled({x - size / 2, middle - size}, {x + size, middle},
                                        {x - size / 2, middle + size}, colours::text_faint);
    } else {
      painter.list()->AddTriangleFilled({x - size, middle - size / 2},
                                        {x + size, middle - size / 2}, {x, middle + size},
                                        colours::text_faint);
    }
    const float text_top = middle - look.bold->FontSize / 2;
    const ImU32 colour = colours::text;
    painter.text(left, text_top, group.rank->name, colour, look.bold);
    std::string note = fmt::format("{} spans", group.rank->spans);
    ImU32 note_colour = colours::text_faint;
    if (group.rank->ended && group.rank->spans_written >= 0 &&
        group.rank->spans_written != group.rank->spans) {
      note = fmt::format("{}/{} spans", group.rank->spans, group.rank->spans_written);
      note_colour = colours::trouble;
    }
    painter.text(right, middle - look.small->FontSize / 2, note, note_colour, look.small,
                 Align::right);
    for (std::size_t i = group.first + 1; i < group.first + group.count; ++i) {
      const Strip& strip = layout_.strips()[i];
      const Rect at = place(frame, strip);
      const float height = look.small->FontSize;
      if (strip.height < height * 0.8f) continue;
      const bool kernels = strip.kind == StripKind::kernels && strip.lanes.front()->is_compute();
      painter.text(right, (at.top + at.bottom - height) / 2, kernels ? "kernels" : strip.name(),
                   strip.shows(model.hovered.lane) ? colours::text : colours::text_faint,
                   look.small, Align::right);
    }
  }
}

}  // namespace lockstep::viz
