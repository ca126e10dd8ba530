#include "core/run/launch/mpirun_log.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "core/base/available_memory.h"

namespace lockstep {

namespace {

// The states that end a run, as OpenMPI 4.1 and 5 print them.
const std::map<std::string, MpirunLog::Kind> bad_states{
    {"FAILED TO START", MpirunLog::Kind::failed_to_start},
    {"FAILED TO LAUNCH", MpirunLog::Kind::failed_to_start},
    {"ABORTED BY SIGNAL", MpirunLog::Kind::killed},
    {"EXITED WITH NON-ZERO STATUS", MpirunLog::Kind::ended},
    {"PROC CALLED ABORT", MpirunLog::Kind::ended}};

/// "[[900,1],3]" or, from OpenMPI 5, "[prterun-vm-8518@1,3]": the rank of job 1; -1 for the
/// daemons, which form job 0.
int rank_in(const std::string& name) {
  const auto comma = name.rfind(',');
  if (comma == std::string::npos || comma < 2) return -1;
  std::string job = name.substr(0, comma);
  if (job.ends_with(']')) job.pop_back();
  return job.ends_with(",1") || job.ends_with("@1") ? std::atoi(name.c_str() + comma + 1) : -1;
}

/// "[host:1234] ": returns where the text after it begins, or npos.
std::size_t after_origin(const std::string& line, std::size_t begin) {
  const auto end = line.find("] ", begin);
  if (begin >= line.size() || line[begin] != '[' || end == std::string::npos)
    return std::string::npos;
  const auto colon = line.rfind(':', end);
  if (colon == std::string::npos || colon <= begin + 1 || colon + 1 == end)
    return std::string::npos;
  const bool is_process = std::all_of(line.begin() + static_cast<std::ptrdiff_t>(colon) + 1,
                                      line.begin() + static_cast<std::ptrdiff_t>(end),
                                      [](char c) { return c >= '0' && c <= '9'; });
  return is_process ? end + 2 : std::string::npos;
}

}  // namespace

void log_rank_states() {
  for (const char* name : {"OMPI_MCA_state_base_verbose", "PRTE_MCA_state_base_verbose"})
    ::setenv(name, "1", 1);
}

std::optional<MpirunLog> MpirunLog::from_line(const std::string& line) {
  constexpr const char* change = " ACTIVATE ";
  MpirunLog log;
  if (const auto at = line.find(change); at != std::string::npos) {
    // "[host:1234] [[900,0],0] ACTIVATE PROC [[900,1],3] STATE RUNNING AT file:line"
    const auto origin = line.rfind("] [", at);
    const auto begin = origin == std::string::npos ? origin : line.rfind('[', origin);
    if (begin != std::string::npos && after_origin(line, begin) != std::string::npos) {
      log.kind = Kind::state;
      log.before = line.substr(0, begin);
      const auto state = line.find(" STATE ", at);
      const auto place = line.find(" AT ", state);
      if (state == std::string::npos || place == std::string::npos ||
          line.compare(at, 16, " ACTIVATE PROC [") != 0)
        return log;
      log.rank = rank_in(line.substr(at + 15, state - at - 15));
      const auto known = bad_states.find(line.substr(state + 7, place - state - 7));
      if (log.rank >= 0 && known != bad_states.end()) log.kind = known->second;
      return log;
    }
  }
  // A rank's MPI prints "*** An error occurred in MPI_Init" and more such lines.
  const auto text = line.starts_with("*** ") ? 4 : after_origin(line, 0);
  if (text == std::string::npos) return {};
  log.text = line.substr(text);
  // "[[900,0],0] ORTE_ERROR_LOG: Out of resource in file show_help.c at line 501"
  if (log.text.starts_with('['))
    if (const auto end = log.text.find("] "); end != std::string::npos) log.text.erase(0, end + 2);
  log.text = log.text.substr(0, log.text.find(" in file "));
  return log;
}

std::string limits_on_starting() {
  rlimit files{}, size{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  ::getrlimit(RLIMIT_FSIZE, &size);
  std::string text = fmt::format("; this process may open {} files (ulimit -n)", files.rlim_cur);
  if (size.rlim_cur != RLIM_INFINITY)
    text += fmt::format(" and write {} to a file (ulimit -f)",
                        text_of_bytes(static_cast<double>(size.rlim_cur)));
  return text + address_space_limit();
}

}  // namespace lockstep
