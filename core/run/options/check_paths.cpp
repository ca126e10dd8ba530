#include "core/run/options/check_paths.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/model/checkpoint/checkpoint_folder.h"
#include "core/run/files/run_folder.h"
#include "core/trace/streamer.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// Throws errors that say what is wrong with a path.
struct Refusal {
  std::string flag, file;
  [[noreturn]] void operator()(const std::string& why) const {
    throw UsageError(fmt::format("{} {}: {}", flag, file, why));
  }
};

void check_parent(const Refusal& refuse, const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    refuse(fmt::format("there is no folder {}; create it, or name another", folder.string()));
}

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

bool is_mount_point(const std::string& folder) {
  struct statx found {};
  return ::statx(AT_FDCWD, folder.c_str(), 0, 0, &found) == 0 &&
         (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

/// A checkpoint is first written beside its final path, so the parent folder must be writable too.
void check_save(const std::string& flag, const std::string& save) {
  const Refusal refuse{flag, save};
  const bool is_file = save.ends_with(".safetensors");
  const std::string path = is_file ? fs::absolute(save).string() : resolved_folder(save);
  const fs::path around = fs::path{path}.parent_path();
  std::error_code error;
  check_parent(refuse, around);
  if (fs::is_directory(path, error)) {
    if (is_file) refuse("this is a folder; give the name of a file");
    if (path == fs::current_path(error) || is_mount_point(path))
      refuse("this folder can't be replaced by a new one; name another, such as one inside it");
    if (::access(path.c_str(), W_OK) != 0) refuse("this folder is not writable; name another");
    if (const std::string foreign = foreign_file(path); !foreign.empty())
      refuse(fmt::format("this folder contains {}, which is no part of a checkpoint; name another",
                         foreign));
  } else if (fs::exists(path, error)) {
    if (!is_file) refuse("this is a file; name a folder, or a file that ends in .safetensors");
    if (!fs::is_regular_file(path, error) || ::access(path.c_str(), W_OK) != 0)
      refuse("this file is not writable; name another");
  }
  if (!can_write_in(around))
    refuse(fmt::format("the folder {} is not writable; name another", around.string()));
  if (!is_file && fs::is_directory(path + ".partial", error))
    if (const std::string foreign = foreign_file(path + ".partial"); !foreign.empty())
      refuse(
          fmt::format("{}.partial, where it is written first, contains {}; delete that folder, "
                      "or name another",
                      path, foreign));
}

/// The folder of --save or --export must contain nothing else, such as a trace or a report, and a
/// file must be written only once.
void check_apart(const Output& output, const std::string& of, const std::string& folder) {
  if (folder.empty()) return;
  for (const auto& [flag, file] : {std::pair{"--trace", output.trace},
                                   {"--report", output.report},
                                   {"--save", output.save},
                                   {"--export", output.export_to}}) {
    if (file.empty() || file == "none" || flag == of) continue;
    const std::string inner = resolved_folder(file) + "/", outer = resolved_folder(folder);
    if (inner.starts_with(outer + "/"))
      throw UsageError(fmt::format(
          "{} {} with {} {}: {}; name another place for one of them", flag, file, of, folder,
          folder.ends_with(".safetensors") ? "both would write this file"
                                           : "a checkpoint's folder holds nothing else"));
  }
}

}  // namespace

void check_paths(const Options& options) {
  const Output& output = options.output;
  if (!output.save.empty()) check_save("--save", output.save);
  if (!output.export_to.empty()) check_save("--export", output.export_to);
  if (!output.report.empty()) check_report(output.report);
  check_apart(output, "--save", output.save);
  check_apart(output, "--export", output.export_to);
  if (!output.view.empty()) Streamer::check_address(output.view);
}

}  // namespace lockstep
