#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::viz {

/// An entry of a folder in which the user looks for a trace.
struct FolderEntry {
  enum class Kind { folder, run, trace };
  Kind kind = Kind::folder;  ///< a folder of traces is a run
  std::string name;
  bool operator==(const FolderEntry&) const = default;
};

/// The folders and the traces in a folder.
struct FolderListing {
  std::vector<FolderEntry> entries;  ///< folders and runs, then traces, each by name
  std::size_t left_out = 0;          ///< entries beyond the limit
  std::string trouble;               ///< why the folder can't be read, or ""
};

/// Lists a folder's subfolders and the files that the viewer may be able to open, judged by their
/// names. Leaves out hidden entries and other files. Reads at most `most` entries of the folder.
FolderListing list_folder(const std::filesystem::path& folder, std::size_t most = 5000);

/// Completes a typed path, as the Tab key does: returns the longest common prefix of the entries
/// whose paths begin with `typed`, or `typed` itself if there are none.
std::string completed_path(const std::string& typed);

}  // namespace lockstep::viz
