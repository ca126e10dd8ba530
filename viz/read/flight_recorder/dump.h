#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "viz/read/flight_recorder/values.h"

namespace lockstep::flight {

enum class CollectiveState : std::uint8_t { unknown, scheduled, started, completed };

/// The shapes and element types of an operation's tensors, as texts that can be compared:
/// "[[4, 3]]". A long text is shortened and ends with a checksum of the whole.
struct Tensors {
  std::string_view sizes, dtypes;  ///< "" if unknown
};

/// An operation that a rank called, as its flight recorder recorded it. A number that the dump does
/// not contain is -1, and a text is "". The texts live as long as the dump.
struct Entry {
  std::int64_t record = -1;      ///< counts the rank's records
  std::int64_t pg_id = -1;       ///< the rank's own number of the process group
  std::int64_t sequence = -1;    ///< collective_seq_id: counts the group's collectives
  std::int64_t p2p = -1;         ///< p2p_seq_id: counts the rank's sends and receives in the group
  std::int64_t created_ns = -1;  ///< when it was called, by the host's clock
  std::int64_t completed_ns = -1;
  std::string_view group, description;  ///< of the process group
  std::string_view name;                ///< profiling_name: "nccl:all_reduce", "nccl:send 0->1"
  Tensors input, output;
  CollectiveState state = CollectiveState::unknown;
  bool is_p2p = false;
  bool retired = false;  ///< no longer watched: completed, timed out or failed
};

/// A process group, as a rank's dump describes it.
struct GroupConfig {
  std::string name, description;
  std::vector<int> ranks;  ///< by rank in the group; empty if the dump does not list them
};

/// The progress of a rank in one process group.
struct GroupStatus {
  std::int64_t enqueued = -1, started = -1, completed = -1;  ///< sequence numbers of collectives
};

/// The texts of a dump, each once.
using Texts = std::set<std::string, std::less<>>;

/// The content of one rank's dump.
struct Dump {
  std::string version;
  std::vector<GroupConfig> groups;
  std::map<std::int64_t, GroupStatus> status;  ///< by Entry::pg_id
  std::vector<Entry> entries;                  ///< in the order of the calls
  std::shared_ptr<Texts> texts;                ///< that the entries refer to
};

/// Returns whether a file's first bytes may be those of a dump: a pickle, or a JSON object whose
/// first key is one of a dump's.
bool is_dump(std::string_view beginning);

/// Reads a dump of version 2.0 to 2.10 from a pickle or JSON. Throws DumpError for a field of the
/// wrong type, but not for a missing field.
Dump read_dump(std::string_view content);

}  // namespace lockstep::flight
