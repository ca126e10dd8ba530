#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/model/new_file.h"

namespace lockstep {

// A checkpoint's folder is complete or absent. A new checkpoint is first written beside the old
// one, as NAME.partial, with manifest.json as its last file. Only then does it replace NAME, in one
// step. Even if the process is killed, either the old checkpoint or the new one is there.

/// The contents of manifest.json: the list of the files that belong together.
struct Manifest {
  struct File {
    std::uint64_t bytes = 0;
    std::string crc32;  ///< eight hexadecimal digits
    bool operator==(const File&) const = default;
  };
  std::int64_t step = 0;  ///< optimizer steps taken
  std::map<std::string, File> files;

  std::string to_json() const;
  bool operator==(const Manifest&) const = default;
};

/// Reads a folder's manifest, or returns nothing if there is none. Throws UsageError, naming
/// --load, if it is malformed.
std::optional<Manifest> read_manifest(const std::string& folder);
/// Throws UsageError, naming --load and the file, unless each file that the manifest lists has the
/// listed size and checksum.
void verify_files(const std::string& folder, const Manifest& manifest);

/// A file to write.
struct CheckpointFile {
  std::string name;
  std::function<void(NewFile&)> fill;
};

/// How a new folder replaces an old one.
enum class Replacement {
  exchange,  ///< swaps both names in one step (renameat2(2)), if the file system supports it
  rename     ///< renames the old folder to NAME.previous first; NAME is absent in between
};

/// Writes the folder `path` completely or not at all; creates its parent folders. Throws UsageError
/// if NAME.partial cannot be created, and RunError if the files cannot be written. Also throws
/// RunError, and leaves the complete checkpoint in NAME.partial, if `path` cannot be replaced or
/// contains other files.
void write_checkpoint_folder(const std::string& path, std::int64_t step,
                             const std::vector<CheckpointFile>& files,
                             Replacement replacement = Replacement::exchange);

/// Returns the folder to read for `path`: NAME.previous if a run was killed between the two steps
/// of Replacement::rename, otherwise `path` itself.
std::string folder_to_load(const std::string& path);

/// Returns the folder that `path` names, as an absolute path without links or a final slash.
std::string resolved_folder(const std::string& path);
/// Returns the name of a file in the folder that is not part of a checkpoint, or "".
std::string foreign_file(const std::string& folder);

}  // namespace lockstep
