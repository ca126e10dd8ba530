#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/flight_recorder/calls.h"
#include "core/flight_recorder/dump.h"

namespace lockstep::flight {

/// One rank's dump.
struct RankDump {
  int rank = 0;
  std::string file{};  ///< its name, for messages
  Dump dump;
};

/// The dumps of one run.
struct Job {
  enum class Evidence : std::uint8_t { dump, trace };
  Evidence evidence = Evidence::dump;  ///< what the dumps were made from
  std::vector<RankDump> dumps{};       ///< by rank, ascending
  std::vector<std::string> notes{};    ///< files that were not read, and why
};

/// A process group of a job.
struct ProcessGroup {
  std::string name{}, description{};
  std::vector<int> members{};  ///< ranks, ascending
  std::vector<int> order{};    ///< ranks, by rank in the group; -1: unknown
  /// Whether no dump lists the members, so that they are those ranks that called something in it.
  bool inferred = false;
  /// How texts call the group: its description, if it has one, or else its name; with its ranks if
  /// other groups are called the same.
  std::string title{};
};

/// The process groups of a job, and which of them each rank's calls belong to.
struct ProcessGroups {
  std::vector<ProcessGroup> all{};
  /// By position in Job::dumps and the name in the calls: the group's position in `all`.
  std::vector<std::map<std::string, int, std::less<>>> of_dump{};
  std::vector<int> ranks{};  ///< all ranks of the run that are known, ascending
  std::vector<std::string> notes{};
};

/// Finds the process groups. Throws UsageError if the dumps contradict one another, because they
/// come from different runs. `calls` are those of job.dumps.
ProcessGroups groups_of(const Job& job, const std::vector<Calls>& calls);

/// Returns the rank at the end of a file's name, without the name's extensions: 3 for
/// "nccl_trace_rank_3" and "rank3.pkl"; -1 if there is none.
int rank_in_name(const std::filesystem::path& file);
/// Returns the rank that a dump's content implies: the only rank that all its process groups
/// share, or the sender of its sends; -1 if it implies none.
int rank_in_content(const Dump& dump);

/// Returns the flight-recorder dumps among these files and in these folders (not in folders inside
/// them), sorted; empty if there are none.
std::vector<std::filesystem::path> dump_files(const std::vector<std::filesystem::path>& paths);

/// Reads the dumps of one run. A dump that can't be read counts as missing, and the job's notes say
/// why. Throws UsageError if none can be read, or if two are of the same rank.
Job read_job(const std::vector<std::filesystem::path>& files);

}  // namespace lockstep::flight
