#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// Returns whether a run writes files with this name, such as rank0.json, trace.json or
/// report.json.
bool is_run_file(const std::string& name);
/// Returns whether a Lockstep run wrote the file, judging by the file's first line (for a trace) or
/// fields (for a report). Returns true for an empty file.
bool is_own(const std::filesystem::path& file);
/// Returns why a run may not write its files to this folder: it would replace a file that is not
/// Lockstep's, or the folder holds other files but no run. Returns "" if the run may write there.
/// Ignores hidden files.
std::string why_not_a_run_folder(const std::filesystem::path& folder);

}  // namespace lockstep
