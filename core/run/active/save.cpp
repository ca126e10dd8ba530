#include "core/run/active/save.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/base/error.h"
#include "core/comm/transport/control.h"
#include "core/model/checkpoint/checkpoint_folder.h"
#include "core/model/checkpoint/save_lock.h"
#include "core/model/checkpoint/sharded_checkpoint.h"
#include "core/run/active/active_run.h"
#include "core/run/files/run_folder.h"
#include "core/run/options/check_paths.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

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

void check_saving(const Output& output) {
  if (!output.save.empty()) check_save("--save", output.save);
  if (!output.export_to.empty()) check_save("--export", output.export_to);
  check_apart(output, "--save", output.save);
  check_apart(output, "--export", output.export_to);
}

void save(ActiveRun& run, Rank& rank, const std::vector<Parameter*>& parameters,
          const AdamW& optimizer) {
  const Output& output = run.options.output;
  const int steps = run.stop.ended_early() ? run.stop.steps() : run.options.run.steps;
  if (steps == 0 || (output.save.empty() && output.export_to.empty())) return;
  const auto& losses = run.ranks.meter(rank).results().losses;
  const bool finite =
      std::ranges::all_of(losses, [](const auto& each) { return std::isfinite(each.second); });
  const TrainingState state{.device = rank.device,
                            .parameters = parameters,
                            .optimizer = optimizer,
                            .step = run.options.run.trained_steps + steps,
                            .unsound = finite ? "" : "the loss is not a number"};
  const auto done = [&](const std::string& flag, const std::string& path, const std::string& why) {
    if (!why.empty() && rank.id == 0 && run.collected.not_saved.empty())
      run.collected.not_saved = fmt::format("{} {}: {}, so nothing was saved", flag, path, why);
  };
  Transport& ranks = *rank.transport;
  if (output.save.ends_with(".safetensors"))
    done("--save", output.save, export_model(ranks, "--save", output.save, rank.plan, state));
  else if (!output.save.empty())
    done("--save", output.save, save_checkpoint(ranks, output.save, rank.plan, state));
  if (!output.export_to.empty() && !run.stop.ended_early())
    done("--export", output.export_to,
         export_model(ranks, "--export", output.export_to, rank.plan, state));
  // The other ranks finish before rank 0, which gives the folder its name.
  broadcast_from_root(ranks, "");
  run.stop.saved();
}

}  // namespace lockstep
