#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/timeline/analysis.h"
#include "viz/data/viewport.h"

namespace lockstep::viz {

/// Returns the statistics as CSV: a line per rank of each completed step that overlaps the window,
/// with the step's parts (core/timeline/step_account.h), which add up to its length; or, if a range
/// is selected, a line per rank of the range (RangeStatistics). Times are in seconds, with all
/// digits of a picosecond, so that their sums are exact. Columns of an axis begin with its name.
std::string statistics_csv(const Timeline& timeline, const TimeWindow& window,
                           const std::optional<Interval>& selection);

/// Returns the statistics by name of a range as CSV: a line per rank and name (NameStatistics).
/// Times are in seconds; `total_seconds` counts only the parts of the spans inside the range.
std::string names_csv(const Timeline& timeline, const Interval& selection);

/// Returns folder/stem-N.extension with the least N for which there is no such file. Characters of
/// `stem` that are unusual in file names become '-'.
std::filesystem::path free_name(const std::filesystem::path& folder, const std::string& stem,
                                const std::string& extension);

/// Writes a text to a file and creates the folder. Throws RunError on failure.
void write_text(const std::filesystem::path& file, const std::string& text);

}  // namespace lockstep::viz
