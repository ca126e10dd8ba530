#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/comm/transport/transport.h"
#include "core/model/checkpoint/new_file.h"

namespace lockstep {

/// The prefix of the names of CommonFolder's own temporary files.
constexpr const char* token_prefix = ".lockstep-";

/// A folder of rank 0's host, in which all ranks write files. A rank that sees the folder, because
/// the ranks share a file system, writes directly, at the same time as the others. A rank that does
/// not see it, because its host has another file system, sends its bytes to rank 0, in pieces of at
/// most 4 MiB.
class CommonFolder {
 public:
  /// Collective. Only rank 0's `path` is used. The folder must exist.
  CommonFolder(Transport& ranks, const std::string& path);

  /// Collective. On each rank that passes a `name`, calls `fill` with a function that writes to the
  /// file of that name; several ranks may pass the same name. On rank 0, returns the text that
  /// `fill` returned on each rank; on the others, returns nothing. If any rank failed, rank 0
  /// throws RunError, and the others return. `shown` is the flag and its path, for messages.
  std::vector<std::string> write(const std::string& name, NewFile::Mode mode,
                                 const std::string& shown,
                                 const std::function<std::string(const WriteAt&)>& fill);

 private:
  bool is_root() const { return ranks_.rank() == 0; }
  void write_for_others(NewFile::Mode mode, const std::string& shown, std::string& error);

  Transport& ranks_;
  std::string path_;
  bool sees_ = false;
  std::vector<int> remote_;  ///< on rank 0: the ranks that do not see the folder
};

}  // namespace lockstep
