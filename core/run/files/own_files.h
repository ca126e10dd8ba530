#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// Returns whether a run writes a file of this name: rank0.json, trace.json, report.json.
bool is_run_file(const std::string& name);
/// Returns whether the file was written by a run of Lockstep, by its first line (a trace) or its
/// fields (a report). An empty file counts.
bool is_own(const std::filesystem::path& file);
/// Returns why a run may not write its files to this folder: one of them is not Lockstep's, or the
/// folder holds other files and no run. Returns "" if it may. Hidden files do not count.
std::string why_not_a_run_folder(const std::filesystem::path& folder);

}  // namespace lockstep
