#pragma once

#include <memory>
#include <string>

namespace lockstep {

/// Returns the folder that `path` names, as an absolute path without links or a final slash.
std::string resolved_folder(const std::string& path);

/// Keeps other runs from writing to the same place. A run holds the lock from before its first
/// step until it ends. If the run is killed, the kernel releases the lock, as soon as an mpirun
/// that the run has started (which inherits the lock) has ended too. The lock is the file
/// .NAME.lock beside the checkpoint, or `file`, locked with flock(2). If the file system does not
/// support locks, does nothing.
class SaveLock {
 public:
  /// `flag` names `path`: --save, --export or --report. Throws UsageError if another run holds the
  /// lock, naming that run's process and host.
  SaveLock(const std::string& flag, const std::string& path);
  /// Like the constructor above, but locks `file`.
  SaveLock(const std::string& flag, const std::string& path, std::string file);
  ~SaveLock();
  SaveLock(const SaveLock&) = delete;
  SaveLock& operator=(const SaveLock&) = delete;

 private:
  std::string file_;
  int descriptor_ = -1;
};

/// Locks the file of --report, like SaveLock. Returns null, without a lock, if `file` is "" or not
/// a regular file, such as /dev/stdout, or if its folder is not writable.
std::unique_ptr<const SaveLock> lock_report(const std::string& file);

}  // namespace lockstep
