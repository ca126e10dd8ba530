#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "viz/data/layout/viewport.h"
#include "viz/read/timeline/analysis.h"

namespace lockstep::viz {

/// Returns statistics as CSV. Without a selected range, writes a line per rank for each completed
/// step that overlaps the window, with the step's parts (viz/read/timeline/step_account.h), which
/// add up to its length. With one, writes a line per rank of the range (RangeStatistics). Times are
/// in seconds to the picosecond, so their sums are exact. The names of an axis's columns begin with
/// the axis.
std::string statistics_csv(const Timeline& timeline, const TimeWindow& window,
                           const std::optional<Interval>& selection);

/// Returns a range's statistics by name as CSV: a line for each rank and name (NameStatistics).
/// Times are in seconds; `total_seconds` counts only the parts of the spans inside the range.
std::string names_csv(const Timeline& timeline, const Interval& selection);

/// Returns folder/stem-N.extension with the smallest N for which no such file exists. Characters of
/// `stem` that are unusual in file names become '-'.
std::filesystem::path free_name(const std::filesystem::path& folder, const std::string& stem,
                                const std::string& extension);

/// Writes a text to a file, creating the folder if necessary. Throws RunError on failure.
void write_text(const std::filesystem::path& file, const std::string& text);

}  // namespace lockstep::viz
