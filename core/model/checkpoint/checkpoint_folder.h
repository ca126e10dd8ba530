#pragma once

#include <string>

#include "core/model/checkpoint/manifest.h"
#include "core/model/checkpoint/new_file.h"

namespace lockstep {

// A checkpoint's folder is complete or absent. A new checkpoint is first written beside the old
// one, as NAME.partial. Only when it is complete does it replace NAME, in one step. Even if a
// process is killed, either the old checkpoint or the new one exists.

/// How a new folder replaces an old one.
enum class Replacement {
  exchange,  ///< swaps both names in one step (renameat2(2)), if the file system supports it
  rename     ///< renames the old folder to NAME.previous first; NAME is absent in between
};

/// A folder that is being written. One process owns it; other processes may write files to
/// partial().
class NewFolder {
 public:
  /// Creates the empty folder NAME.partial, and parent folders. `flag` is the flag that names
  /// `path`, for messages. Throws UsageError if the folder cannot be created.
  NewFolder(std::string flag, std::string path);
  /// Deletes NAME.partial, unless it has been renamed or is kept.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::string& partial() const { return partial_; }
  /// Writes one file. Throws RunError if the file cannot be written to the disk.
  Manifest::File write(const std::string& name, const std::string& text);
  /// Syncs the folder to the disk and renames it to `path`. Throws RunError, and leaves the
  /// complete folder in NAME.partial, if `path` contains other files or cannot be replaced.
  void take_place(Replacement replacement = Replacement::exchange);

 private:
  std::string flag_, path_;  ///< as given
  std::string target_;       ///< resolved_folder(path)
  std::string partial_;
  int descriptor_ = -1;
  bool keep_ = false;
};

/// Returns the folder to read for `path`: NAME.previous if a run was killed between the two steps
/// of Replacement::rename, otherwise `path` itself.
std::string folder_to_load(const std::string& path);

/// Returns the name of a file in the folder that is not part of a checkpoint, or "".
std::string foreign_file(const std::string& folder);

}  // namespace lockstep
