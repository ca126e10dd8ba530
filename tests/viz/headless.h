#pragma once

#include <algorithm>
#include <ctime>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "viz/app/comparison_screen.h"
#include "viz/app/screen.h"
#include "viz/data/selection/range_statistics.h"
#include "viz/read/timeline/reader.h"
#include "viz/views/imgui_shim.h"

namespace lockstep {

/// Returns this thread's CPU time in seconds, which does not depend on the load of the machine.
inline double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The viewer without a window: builds every frame's draw lists, but does not pass them to a GPU.
class Headless {
 public:
  Headless() {
    ImGui::CreateContext();
    ImGuiIO& io = ImGui::GetIO();
    io.IniFilename = nullptr;
    io.DisplaySize = {1600, 900};
    io.DeltaTime = 1.0f / 60;
    io.BackendFlags |= ImGuiBackendFlags_RendererHasVtxOffset;
    ImFont* font = io.Fonts->AddFontDefault();
    unsigned char* pixels = nullptr;
    int width = 0, height = 0;
    io.Fonts->GetTexDataAsRGBA32(&pixels, &width, &height);
    viz::apply_theme(1);
    look_.body = look_.bold = look_.small = look_.large = font;
  }
  ~Headless() { ImGui::DestroyContext(); }
  Headless(const Headless&) = delete;
  Headless& operator=(const Headless&) = delete;

  /// Opens a trace and draws frames that show the whole trace, its last step and a detail, with the
  /// cursor at several places. Returns whether the trace had spans.
  bool open(std::string_view trace) {
    viz::Model model;
    viz::Screen screen;
    const double begun = thread_seconds();
    TraceReader reader{model.timeline};
    reader.feed(trace);
    reader.finish();
    model.timeline.settle();
    open_seconds = thread_seconds() - begun;
    const Timeline& timeline = model.timeline;
    const auto frame = [&](float x, float y) { draw(screen, model, x, y); };
    model.viewport.fit(timeline);
    for (const float y : {200.0f, 400.0f, 850.0f}) frame(800, y);
    model.viewport.fit_steps(timeline, timeline.steps().size(), timeline.steps().size());
    frame(300, 150);
    model.viewport.zoom(1e-9, static_cast<double>(timeline.start()));
    frame(185, 170);
    model.viewport.zoom(1e30, 0);
    frame(1500, 600);
    model.viewport.fit(timeline);
    for (const viz::Panel panel : viz::panels_for(viz::contents_of(timeline)).choices) {
      model.view.panel = panel;
      frame(1300, 790);
      frame(300, 150);
    }
    model.viewport.follow(true);
    model.selected = model.hovered;
    frame(800, 300);
    use_everything(model);
    frame(700, 250);
    model.viewport.fit(timeline);
    frame(900, 400);
    compare(model, trace);
    return !timeline.empty();
  }

  /// Lets the frames that follow append their texts to `*texts`; null ends this.
  void record(std::vector<viz::DrawnText>* texts) { look_.texts = texts; }

  double open_seconds = 0;   ///< of the last trace
  double longest_frame = 0;  ///< of all frames, in seconds
  std::int64_t frames = 0;

 protected:
  /// Turns everything on that a user can turn on.
  static void use_everything(viz::Model& model) {
    const Timeline& timeline = model.timeline;
    const Interval whole{timeline.start(), timeline.end()};
    model.view.critical_path = model.view.ghost = true;
    model.view.set_query("F0 step:0 e", timeline);
    model.view.range = viz::range_statistics(timeline, whole);
    model.view.mark(whole, 0);
    model.playback.toggle(timeline, model.viewport);
    for (const auto& rank : timeline.ranks()) {
      const Lane* lane = rank->compute();
      if (!lane || lane->rows(Band::action).empty()) continue;
      for (const TimelineSpan& span : lane->rows(Band::action).front()) {
        if (!span.is_action()) continue;
        model.chain = {rank->rank, span.step, span.start,
                       data_chain(timeline, span.step, rank->rank, span.start)};
        return;
      }
    }
  }

  /// Compares a run with the same run, read again.
  void compare(viz::Model& model, std::string_view trace) {
    auto again = std::make_unique<viz::Model>();
    TraceReader reader{again->timeline};
    reader.feed(trace);
    reader.finish();
    again->timeline.settle();
    viz::ComparedRuns runs{model, std::move(again)};
    viz::ComparisonScreen screen;
    for (const float y : {200.0f, 450.0f, 850.0f}) draw(screen, runs, 800, y);
    runs.go_by_steps(viz::Side::a, -1);
    runs.exchange();
    draw(screen, runs, 700, 300);
  }

  void draw(viz::ComparisonScreen& screen, viz::ComparedRuns& runs, float x, float y) {
    runs.advance(0, true);
    for (const viz::Side side : viz::both_sides)
      runs.model(side).explanations.update(std::chrono::milliseconds{50});
    viz::set_cursor({x, y});
    ImGui::NewFrame();
    screen.draw(runs, look_);
    ImGui::Render();
  }

  void draw(viz::Screen& screen, viz::Model& model, float x, float y) {
    const double begun = thread_seconds();
    model.playback.advance(model.timeline, model.viewport, 1.0 / 60);
    model.viewport.advance(model.timeline, 0, true);
    model.bubbles.update(model.timeline, std::chrono::milliseconds{50});
    model.explanations.update(std::chrono::milliseconds{50});
    viz::set_cursor({x, y});
    ImGui::NewFrame();
    screen.draw(model, look_);
    ImGui::Render();
    longest_frame = std::max(longest_frame, thread_seconds() - begun);
    ++frames;
  }

  viz::Look look_;
};

}  // namespace lockstep
