#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/time/time.h"

namespace lockstep::kineto {

// A trace of one process, as PyTorch's profiler (Kineto) writes it, as plain values. Field names of
// the JSON are in reader.cpp. Times are on the process's own clock until align.h corrects them.

/// What a process told the profiler about a collective or a message.
/// (torch/csrc/distributed/c10d/ParamCommsUtils.hpp; older versions write fewer fields.)
struct Communication {
  std::uint32_t operation = 0;    ///< "allreduce", "send"; in Trace::names
  std::uint32_t group = 0;        ///< name of the process group; in Trace::names
  std::uint32_t description = 0;  ///< what the program calls the group; in Trace::names
  std::uint32_t members = 0;      ///< "[0, 1, 2, 3]", as written; in Trace::names
  int group_size = -1;
  std::int64_t sequence = -1;  ///< counts the collectives of a group
  std::uint32_t comms_id = 0;  ///< identifies one collective on all ranks; in Trace::names
  std::int64_t elements_in = -1, elements_out = -1;
  std::uint32_t dtype = 0;            ///< in Trace::names
  int source = -1, destination = -1;  ///< of a message: its ranks
};

struct Event {
  enum class Kind : std::uint8_t {
    op,              ///< an operator on the host ("cpu_op")
    annotation,      ///< record_function on the host
    python,          ///< a Python function
    runtime,         ///< a call of CUDA's runtime or driver
    gpu_annotation,  ///< the kernels that were launched in an annotation
    kernel,          ///< on the GPU
    memory,          ///< a copy or a memset on the GPU
  };
  Picoseconds start = 0, end = 0;
  std::int64_t correlation = -1;    ///< joins a runtime call and what it launched
  std::int64_t bytes = -1;          ///< of a copy, or of an operator's first tensor
  std::uint32_t name = 0;           ///< in Trace::names
  std::int32_t communication = -1;  ///< in Trace::communications
  std::int32_t peer = -1;           ///< of c10d::send and c10d::recv_: the rank in the group
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

/// An operator of the forward pass, and the backward operator that autograd recorded for it: two
/// times on tracks.
struct ForwardBackward {
  Picoseconds forward = 0, backward = 0;
  std::uint16_t forward_track = 0, backward_track = 0;
};

struct Trace {
  std::string file;  ///< for messages
  int rank = -1;     ///< -1: the trace does not say
  int world_size = -1;
  std::string host;  ///< "" if the trace does not say
  std::vector<ProcessGroup> groups;
  std::vector<std::string> names;  ///< names[0] is ""
  std::vector<Track> tracks;
  std::vector<Communication> communications;
  std::vector<Event> events;  ///< by start; of equal starts, the longest first
  std::vector<ForwardBackward> passes;
  /// The time that `events` count from, in nanoseconds since 1970.
  std::int64_t origin_ns = 0;
  std::int64_t base_ns = 0;     ///< baseTimeNanoseconds, which is part of origin_ns
  std::int64_t written_ns = 0;  ///< the origin as the times of events count it, without the base
  std::int64_t skipped = 0;     ///< malformed events
  std::string first_skipped{};  ///< why, with the event's number

  const std::string& name(std::uint32_t id) const { return names[id]; }
  bool has_gpu() const;
};

}  // namespace lockstep::kineto
