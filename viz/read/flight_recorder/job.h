#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "viz/read/flight_recorder/dump.h"

namespace lockstep::flight {

/// One rank's dump.
struct RankDump {
  int rank = 0;
  Dump dump;
};

/// The dumps of one run.
struct Job {
  enum class Evidence : std::uint8_t { dump, trace };
  Evidence evidence = Evidence::dump;  ///< from which the dumps were made
  std::vector<RankDump> dumps{};       ///< by rank, ascending
  std::vector<std::string> notes{};    ///< files that were not read, and why
};

/// Returns the rank at the end of a file's name, before any extensions: 3 for "nccl_trace_rank_3"
/// and for "rank3.pkl"; -1 if there is none.
int rank_in_name(const std::filesystem::path& file);

/// Returns the flight-recorder dumps among these files and directly in these folders, sorted, with
/// the damaged files in the folders that have the name of a dump.
std::vector<std::filesystem::path> dump_files(const std::vector<std::filesystem::path>& paths);

/// Reads the dumps of one run. A dump that can't be read counts as missing, and the job's notes
/// give the reason. The rank is the one in the file's name or, if there is none, the one that the
/// content implies: the only rank that all process groups share, or the sender of the dump's sends.
/// Throws UsageError if no dump can be read, or if two are of the same rank.
Job read_job(const std::vector<std::filesystem::path>& files);

}  // namespace lockstep::flight
