#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/time/time.h"

namespace lockstep::kineto {

// The trace that PyTorch's profiler (Kineto) recorded of one process, as plain values. Only
// reader.cpp knows the field names of the JSON. Times are on the process's own clock until
// alignment.h corrects them.

/// The arguments of a collective or a message, as the process passed them to the profiler
/// (torch/csrc/distributed/c10d/ParamCommsUtils.hpp). Older versions write fewer of them. Strings
/// are indices into Trace::names.
struct Communication {
  std::uint32_t operation = 0;    ///< "allreduce", "send"
  std::uint32_t group = 0;        ///< name of the process group
  std::uint32_t description = 0;  ///< the program's name for the group
  std::uint32_t members = 0;      ///< "[0, 1, 2, 3]", as written
  std::uint32_t comms_id = 0;     ///< the same on all ranks of one collective
  std::uint32_t dtype = 0;
  int group_size = -1;
  std::int64_t sequence = -1;  ///< counts the collectives of a group
  std::int64_t elements_in = -1, elements_out = -1;
  int source = -1, destination = -1;  ///< the sender or the receiver of a message
};

/// A point in time on a track.
struct TrackTime {
  std::uint16_t track = 0;  ///< in Trace::tracks
  Picoseconds at = 0;
};

struct Event {
  enum class Kind : std::uint8_t {
    op,              ///< an operator on the host ("cpu_op")
    annotation,      ///< record_function on the host
    python,          ///< a Python function
    runtime,         ///< a call of CUDA's runtime or driver
    gpu_annotation,  ///< spans the kernels that were launched within an annotation
    kernel,          ///< on the GPU
    memory,          ///< a copy or a memset on the GPU
  };
  Picoseconds start = 0, end = 0;
  std::int64_t correlation = -1;    ///< links a runtime call with the work that it launches
  std::int64_t bytes = -1;          ///< of a copy, or of an operator's first tensor
  std::uint32_t name = 0;           ///< in Trace::names
  std::int32_t communication = -1;  ///< in Trace::communications
  std::int32_t peer = -1;           ///< of c10d::send and c10d::recv_: the rank within the group
  std::uint16_t track = 0;          ///< in Trace::tracks
  Kind kind = Kind::op;
};
static_assert(sizeof(Event) <= 56);

/// A thread of the host, or a stream of a GPU.
struct Track {
  std::string name;
  std::int64_t tid = 0;
  bool gpu = false;
};

struct ProcessGroup {
  std::string name, description;
  int size = 0;
  std::vector<int> ranks;  ///< empty if unknown
};

/// A point within an operator of the forward pass, and one within the backward operator that
/// autograd recorded for it (a "fwdbwd" flow).
struct AutogradLink {
  TrackTime forward, backward;
};

struct Trace {
  std::string file;  ///< for messages
  int rank = -1;     ///< -1 if the trace does not state it
  int world_size = -1;
  std::string host;  ///< "" if the trace does not state it
  std::vector<ProcessGroup> groups;
  std::vector<std::string> names;  ///< names[0] is ""
  std::vector<Track> tracks;
  std::vector<Communication> communications;
  std::vector<Event> events;  ///< by start; among equal starts, the longest first
  std::vector<AutogradLink> links;
  std::int64_t origin_ns = 0;   ///< time 0 of `events`, in nanoseconds since 1970
  std::int64_t base_ns = 0;     ///< the part of origin_ns that baseTimeNanoseconds states
  std::int64_t written_ns = 0;  ///< the rest of origin_ns: time 0 as the file's `ts` counts it
  std::int64_t skipped = 0;     ///< malformed events
  std::string first_skipped{};  ///< the number of the first skipped event, and the reason

  const std::string& name(std::uint32_t id) const { return names[id]; }
  const std::string& name(const Event& event) const { return names[event.name]; }
  /// Returns whether any track is a GPU's stream.
  bool has_gpu() const;
  /// Returns whether kernels ran on a GPU. If so, its streams show the compute, not the host's
  /// threads.
  bool has_kernels() const;

  /// Replaces each time t by at(t), which must be monotonic.
  template <class Map>
  void map_times(Map at) {
    for (Event& event : events) {
      event.start = at(event.start);
      event.end = std::max(at(event.end), event.start);
    }
    for (AutogradLink& link : links) {
      link.forward.at = at(link.forward.at);
      link.backward.at = at(link.backward.at);
    }
  }
};

/// Returns the starts of the runtime calls that launched work on the GPU, by correlation.
std::unordered_map<std::int64_t, TrackTime> launches_of(const Trace& trace);

}  // namespace lockstep::kineto
