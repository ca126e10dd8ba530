#include "viz/views/lab_controls_view.h"

#include <fmt/format.h>

#include <limits>

#include "viz/data/words.h"

namespace lockstep::viz {
namespace {

using Range = LabRange;

constexpr float knob_opacity = 0.45f;

constexpr LogScale time_scale{static_cast<double>(Range::least_time),
                              static_cast<double>(Range::most_time)};
constexpr LogScale latency_scale{
    static_cast<double>(Range::least_latency), static_cast<double>(Range::most_latency), 0.0, {}};
constexpr LogScale bandwidth_scale{
    Range::least_bandwidth, Range::most_bandwidth, {}, std::numeric_limits<double>::infinity()};
constexpr LogScale bytes_scale{static_cast<double>(Range::least_bytes),
                               static_cast<double>(Range::most_bytes)};

void heading(const char* words) {
  ImGui::PushStyleColor(ImGuiCol_Text, colours::text_dim);
  ImGui::TextUnformatted(words);
  ImGui::PopStyleColor();
}

/// A slider that shows `words` instead of its position.
void log_slider(const char* name, const std::string& words, const LogScale& scale, double value,
                const auto& set) {
  float at = scale.position(value);
  ImGui::SetNextItemWidth(-1);
  if (ImGui::SliderFloat(name, &at, 0, 1, words.c_str(), ImGuiSliderFlags_NoInput))
    set(scale.value(at));
}

void whole_slider(const char* name, int& value, int least, int most, const std::string& words) {
  ImGui::SetNextItemWidth(-1);
  ImGui::SliderInt(name, &value, least, most, words.c_str(),
                   ImGuiSliderFlags_AlwaysClamp | ImGuiSliderFlags_NoInput);
}

std::string counted(int number, const char* what, const char* plural) {
  return fmt::format("{} {}", number, number == 1 ? what : plural);
}

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
  // The words are behind the knobs.
  ImGui::PushStyleColor(ImGuiCol_SliderGrab, faded(colours::accent, knob_opacity));
  ImGui::PushStyleColor(ImGuiCol_SliderGrabActive, faded(colours::accent, 2 * knob_opacity));
  heading("Pipeline");
  whole_slider("##ranks", set.ranks, Range::least_ranks, Range::most_ranks,
               counted(set.ranks, "rank", "ranks"));
  whole_slider("##microbatches", set.microbatches, 1, Range::most_microbatches,
               counted(set.microbatches, "microbatch", "microbatches"));
  whole_slider("##chunks", set.chunks, 1, Range::most_chunks,
               counted(set.chunks, "chunk per rank", "chunks per rank"));
  heading("A rank's times for one microbatch");
  const auto time_slider = [](const char* name, const char* what, Picoseconds& time) {
    log_slider(name, fmt::format("{}: {}", what, duration_words(time)), time_scale,
               static_cast<double>(time),
               [&](double value) { time = static_cast<Picoseconds>(value); });
  };
  time_slider("##forward", "F, forward", set.forward);
  time_slider("##input", "I, input gradient", set.backward_input);
  time_slider("##weight", "W, weight gradient", set.backward_weight);
  heading(fmt::format("B, full backward: {}", duration_words(set.backward())).c_str());
  heading("Links between neighbours");
  log_slider("##latency",
             fmt::format("latency: {}", set.latency > 0 ? duration_words(set.latency) : "none"),
             latency_scale, static_cast<double>(set.latency),
             [&](double value) { set.latency = static_cast<Picoseconds>(value); });
  log_slider("##bandwidth", "bandwidth: " + bandwidth_words(set.bandwidth), bandwidth_scale,
             set.bandwidth, [&](double value) { set.bandwidth = value; });
  log_slider("##bytes", "message: " + bytes_words(set.message_bytes), bytes_scale,
             static_cast<double>(set.message_bytes),
             [&](double value) { set.message_bytes = static_cast<std::int64_t>(value); });
  heading("Memory of a rank, for activations");
  whole_slider("##limit", set.memory_limit, 0, Range::most_microbatches,
               "limit: " + limit_words(set.memory_limit));
  ImGui::PopStyleColor(2);
  if (ImGui::SmallButton("reset")) set = LabSettings{};
  if (!(set == before)) lab.note.clear();
  bool take = false;
  if (from_run) {
    ImGui::SameLine();
    take = ImGui::SmallButton("take the run's values");
  }
  if (!lab.note.empty()) {
    ImGui::PushStyleColor(ImGuiCol_Text, colours::text_dim);
    ImGui::PushTextWrapPos(0);
    ImGui::TextUnformatted(lab.note.c_str());
    ImGui::PopTextWrapPos();
    ImGui::PopStyleColor();
  }
  end_area();
  return take;
}

}  // namespace lockstep::viz
