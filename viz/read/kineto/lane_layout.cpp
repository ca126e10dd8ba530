#include "viz/read/kineto/lane_layout.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace lockstep::kineto {
namespace {

std::uint16_t compute_track(const Trace& trace, const std::vector<bool>& is_call) {
  const bool has_kernels = trace.has_kernels();
  std::vector<Picoseconds> work(trace.tracks.size());
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    const bool counts = has_kernels ? event.kind == Event::Kind::kernel && !is_call[i]
                                    : event.kind == Event::Kind::op;
    if (counts) work[event.track] = plus(work[event.track], event.end - event.start);
    if (!has_kernels && event.kind == Event::Kind::annotation && profiler_step(trace.name(event)))
      work[event.track] = std::numeric_limits<Picoseconds>::max();
  }
  return static_cast<std::uint16_t>(std::ranges::max_element(work) - work.begin());
}

class LayoutBuilder {
 public:
  LayoutBuilder(const Trace& trace, const RankCalls& calls, const std::vector<bool>& is_call)
      : trace_(trace), calls_(calls), is_call_(is_call) {}

  LaneLayout lay_out() {
    const std::size_t tracks = trace_.tracks.size();
    layout_.of_track.resize(tracks, -1);
    layout_.of_python.resize(tracks, -1);
    if (tracks == 0) return std::move(layout_);
    layout_.compute = compute_track(trace_, is_call_);
    layout_.of_track[layout_.compute] = add_lane("compute, " + trace_.tracks[layout_.compute].name);
    std::vector<bool> used(tracks), python(tracks);
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (event.kind == Event::Kind::python)
        python[event.track] = true;
      else if (event.kind != Event::Kind::gpu_annotation && !is_call_[i])
        used[event.track] = true;
    }
    add_tracks(used, true);
    for (const Call& call : calls_.calls) layout_.of_call.push_back(lane_of(call));
    add_tracks(used, false);
    for (std::size_t track = 0; track < tracks; ++track)
      if (python[track])
        layout_.of_python[track] = add_lane("Python " + std::to_string(trace_.tracks[track].tid));
    return std::move(layout_);
  }

 private:
  int add_lane(std::string name) {
    layout_.names.push_back(std::move(name));
    return static_cast<int>(layout_.names.size()) - 1;
  }

  void add_tracks(const std::vector<bool>& used, bool gpu) {
    for (std::size_t i = 0; i < used.size(); ++i) {
      const Track& track = trace_.tracks[i];
      if (track.gpu == gpu && used[i] && layout_.of_track[i] < 0)
        layout_.of_track[i] = add_lane(track.name);
    }
  }

  int lane_of(const Call& call) {
    const Track& track = trace_.tracks[trace_.events[call.event].track];
    const std::string channel = is_message(call.kind) ? name_of(call.kind)
                                : call.group.empty()  ? "collectives"
                                                      : call.group;
    const std::string stream = track.gpu ? track.name : "";
    const auto known = channels_.find({stream, channel});
    if (known != channels_.end()) return known->second;
    const int lane = add_lane(track.gpu ? channel + ", " + stream : channel);
    channels_[{stream, channel}] = lane;
    return lane;
  }

  const Trace& trace_;
  const RankCalls& calls_;
  const std::vector<bool>& is_call_;
  LaneLayout layout_;
  std::map<std::pair<std::string, std::string>, int> channels_;  ///< lanes, by stream and channel
};

}  // namespace

LaneLayout lay_out(const Trace& trace, const RankCalls& calls, const std::vector<bool>& is_call) {
  return LayoutBuilder{trace, calls, is_call}.lay_out();
}

}  // namespace lockstep::kineto
