#pragma once

#include <fmt/format.h>

#include <fstream>
#include <string>

#include "core/base/error.h"
#include "core/base/input_file.h"
#include "core/pipeline/csv.h"
#include "core/pipeline/validate.h"

namespace lockstep {

/// Reads a schedule from a CSV file and checks it, with its messages if it has any. Throws
/// UsageError naming `flag` if the file cannot be read, is not a valid schedule, or does not fit
/// the run.
inline Schedule read_schedule(const std::string& flag, const std::string& path, int ranks,
                              int microbatches) {
  Schedule schedule;
  try {
    const std::string text = content_of(path);
    schedule = schedule_from_csv(text, path);
    validate(schedule);
    check_messages(text, schedule);
  } catch (const InputError& error) {
    throw UsageError(fmt::format("{} {}: {}; give a file with a row of actions for each rank", flag,
                                 path, error.what()));
  } catch (const ScheduleError& error) {
    throw UsageError(fmt::format("{} {}", flag, error.what()));
  }
  schedule.name = path.substr(path.rfind('/') + 1);
  if (schedule.ranks != ranks)
    throw UsageError(fmt::format("{} {}: the file has a row for each of {} ranks; use --pp {}",
                                 flag, path, schedule.ranks, schedule.ranks));
  if (schedule.microbatches != microbatches)
    throw UsageError(fmt::format("{} {}: the file has {} microbatches; use --microbatches {}", flag,
                                 path, schedule.microbatches, schedule.microbatches));
  return schedule;
}

/// Writes a schedule to a CSV file. Throws UsageError naming `flag` if that fails.
inline void write_schedule(const std::string& flag, const std::string& path,
                           const Schedule& schedule) {
  std::ofstream file{path};
  file << to_csv(schedule);
  if (!file.flush()) throw UsageError(fmt::format("{} {}: can't write this file", flag, path));
}

}  // namespace lockstep
