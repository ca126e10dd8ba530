#include "viz/views/lab_controls_view.h"

#include <limits>
#include <string>
#include <string_view>

#include "viz/data/step/words.h"
#include "viz/views/slider.h"

namespace lockstep::viz {
namespace {

using Range = LabRange;

constexpr float heading_gap = 8, line_gap = 6;

constexpr LogScale time_scale{static_cast<double>(Range::least_time),
                              static_cast<double>(Range::most_time)};
constexpr LogScale latency_scale{
    static_cast<double>(Range::least_latency), static_cast<double>(Range::most_latency), 0.0, {}};
constexpr LogScale bandwidth_scale{
    Range::least_bandwidth, Range::most_bandwidth, {}, std::numeric_limits<double>::infinity()};
constexpr LogScale bytes_scale{static_cast<double>(Range::least_bytes),
                               static_cast<double>(Range::most_bytes)};

/// Lays out headings and sliders from top to bottom, in an area that may scroll.
class Column {
 public:
  explicit Column(const Look& look)
      : painter_(ImGui::GetWindowDrawList(), look),
        at_(ImGui::GetCursorScreenPos()),
        right_(at_.x + ImGui::GetContentRegionAvail().x) {}

  void heading(std::string_view words) {
    ImFont* font = painter_.look().small;
    if (started_) at_.y += painter_.px(heading_gap);
    started_ = true;
    painter_.text(at_.x, at_.y, painter_.fitted(words, font, right_ - at_.x), palette.text_faint,
                  font);
    at_.y += size_of(font) + painter_.px(line_gap);
  }
  void note(const char* label, const std::string& value) {
    ImFont* font = painter_.look().small;
    painter_.text(at_.x, at_.y, label, palette.text_dim, font);
    painter_.text(right_, at_.y, value, palette.text, font, Align::right);
    at_.y += size_of(font) + painter_.px(line_gap);
  }
  void whole(const char* label, int& value, int least, int most, const std::string& words) {
    whole_slider(painter_, label, next(), {.label = label, .value = words}, value, least, most);
  }
  void log(const char* label, const std::string& words, const LogScale& scale, double value,
           const auto& set) {
    float position = scale.position(value);
    if (slider(painter_, label, next(), {.label = label, .value = words}, position))
      set(scale.value(position));
  }
  void end() const { ImGui::SetCursorScreenPos({at_.x, at_.y + painter_.px(line_gap)}); }

 private:
  Rect next() {
    const float height = slider_height(painter_);
    const Rect rect{at_.x, at_.y, right_, at_.y + height};
    at_.y += height + painter_.px(line_gap);
    return rect;
  }

  Painter painter_;
  ImVec2 at_;  ///< of the next line
  float right_;
  bool started_ = false;
};

}  // namespace

void begin_area(const Painter& painter, const char* name, const Rect& rect) {
  ImGui::PushFont(painter.look().small);
  ImGui::SetCursorScreenPos(rect.min());
  ImGui::PushStyleColor(ImGuiCol_ChildBg, 0);
  ImGui::BeginChild(name, {rect.width(), rect.height()});
  ImGui::PopStyleColor();
}

void end_area() {
  ImGui::EndChild();
  ImGui::PopFont();
}

bool draw_lab_controls(const Painter& painter, const Rect& rect, LabBench& lab, bool from_run) {
  LabSettings& set = lab.settings;
  const LabSettings before = set;
  begin_area(painter, "##lab settings", rect);
  Column column{painter.look()};
  column.heading("Pipeline");
  column.whole("ranks", set.ranks, Range::least_ranks, Range::most_ranks,
               std::to_string(set.ranks));
  column.whole("microbatches", set.microbatches, 1, Range::most_microbatches,
               std::to_string(set.microbatches));
  column.whole("chunks per rank", set.chunks, 1, Range::most_chunks, std::to_string(set.chunks));
  column.heading("A rank's times for one microbatch");
  const auto time_slider = [&](const char* label, Picoseconds& time) {
    column.log(label, duration_words(time), time_scale, static_cast<double>(time),
               [&](double value) { time = static_cast<Picoseconds>(value); });
  };
  time_slider("F, forward", set.forward);
  time_slider("I, input gradient", set.backward_input);
  time_slider("W, weight gradient", set.backward_weight);
  column.note("B, full backward: I + W", duration_words(set.backward()));
  column.heading("Links between neighbours");
  column.log("latency", set.latency > 0 ? duration_words(set.latency) : "none", latency_scale,
             static_cast<double>(set.latency),
             [&](double value) { set.latency = static_cast<Picoseconds>(value); });
  column.log("bandwidth", bandwidth_words(set.bandwidth), bandwidth_scale, set.bandwidth,
             [&](double value) { set.bandwidth = value; });
  column.log("message", bytes_words(set.message_bytes), bytes_scale,
             static_cast<double>(set.message_bytes),
             [&](double value) { set.message_bytes = static_cast<std::int64_t>(value); });
  column.heading("Memory of a rank, for activations");
  column.whole("limit", set.memory_limit, 0, Range::most_microbatches,
               limit_words(set.memory_limit));
  column.end();
  if (ImGui::SmallButton("reset")) set = LabSettings{};
  if (!(set == before)) lab.note.clear();
  bool take = false;
  if (from_run) {
    ImGui::SameLine();
    take = ImGui::SmallButton("take the run's values");
  }
  if (!lab.note.empty()) {
    ImGui::PushStyleColor(ImGuiCol_Text, palette.text_dim);
    ImGui::PushTextWrapPos(0);
    ImGui::TextUnformatted(lab.note.c_str());
    ImGui::PopTextWrapPos();
    ImGui::PopStyleColor();
  }
  end_area();
  return take;
}

}  // namespace lockstep::viz
