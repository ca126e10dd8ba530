#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/flight_recorder/values.h"

namespace lockstep::flight {

enum class State : std::uint8_t { unknown, scheduled, started, completed };

/// The shapes and element types of an operation's tensors, as texts for comparison: "[[4, 3]]".
/// Long ones end with a checksum of the rest.
struct Tensors {
  std::string_view sizes, dtypes;  ///< "" if unknown
  bool operator==(const Tensors&) const = default;
};

/// One operation that a rank called, as its flight recorder noted it. Numbers that a dump does not
/// contain are -1, texts are "". The texts live as long as the dump.
struct Entry {
  std::int64_t record = -1;      ///< the rank's own count of records
  std::int64_t pg_id = -1;       ///< the rank's own number of the process group
  std::int64_t sequence = -1;    ///< collective_seq_id: of the group's collectives
  std::int64_t p2p = -1;         ///< p2p_seq_id: of the rank's sends and receives in the group
  std::int64_t created_ns = -1;  ///< when it was called, by the host's clock
  std::int64_t completed_ns = -1;
  std::string_view group, description;  ///< of the process group
  std::string_view name;                ///< profiling_name: "nccl:all_reduce", "nccl:send 0->1"
  Tensors input, output;
  State state = State::unknown;
  bool is_p2p = false;
  bool retired = false;  ///< no longer watched: completed, timed out or failed
};

/// A process group, as a rank's dump describes it.
struct GroupConfig {
  std::string name, description;
  std::vector<int> ranks;  ///< by rank in the group; empty if the dump does not list them
};

/// How far a rank's process group has come.
struct GroupStatus {
  std::int64_t enqueued = -1, started = -1, completed = -1;  ///< sequence numbers of collectives
};

/// What one rank's flight recorder wrote.
struct Dump {
  std::string version;
  std::vector<GroupConfig> groups;
  std::map<std::int64_t, GroupStatus> status;                 ///< by Entry::pg_id
  std::vector<Entry> entries;                                 ///< in the order of their calls
  std::shared_ptr<std::set<std::string, std::less<>>> texts;  ///< those that the entries refer to
};

/// Returns whether a file's first bytes may be those of a dump: a pickle, or a JSON object whose
/// first key is one of a dump's.
bool is_dump(std::string_view beginning);

/// Reads a dump of version 2.0 to 2.10, as a pickle or as JSON. Fields that are missing are no
/// errors; fields of a wrong type are. Throws DumpError.
Dump read_dump(std::string content);

}  // namespace lockstep::flight
