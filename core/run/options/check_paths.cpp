#include "core/run/options/check_paths.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/run/files/run_folder.h"
#include "core/trace/streamer.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

void check_report(const std::string& report) {
  const Refusal refuse{"--report", report};
  const fs::path path = fs::absolute(report);
  std::error_code error;
  if (fs::is_directory(path, error)) refuse("this is a folder; give the name of a file");
  check_parent(refuse, path.parent_path());
  if (fs::exists(path, error) ? ::access(path.c_str(), W_OK) != 0
                              : !can_write_in(path.parent_path()))
    refuse("this file is not writable; name another");
}

}  // namespace

void Refusal::operator()(const std::string& why) const {
  throw UsageError(fmt::format("{} {}: {}", flag, file, why));
}

void check_parent(const Refusal& refuse, const std::filesystem::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    refuse(fmt::format("there is no folder {}; create it, or name another", folder.string()));
}

void check_paths(const Output& output) {
  if (!output.report.empty()) check_report(output.report);
  if (!output.view.empty()) Streamer::check_address(output.view);
}

}  // namespace lockstep
