#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/crc32.h"

namespace lockstep {

/// A file that is being written for --save. Counts its bytes and computes their checksum.
class NewFile {
 public:
  /// Creates the file in `folder` (a descriptor, or AT_FDCWD). Nothing may exist under that name,
  /// not even a symbolic link. `shown` is the path for messages. Throws UsageError if the file
  /// cannot be created.
  NewFile(int folder, const std::string& name, std::string shown);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Throws RunError if not all bytes can be written.
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Waits until the bytes are on the disk, and closes the file. Throws RunError on failure.
  void finish();

  std::uint64_t bytes() const { return bytes_; }
  const Crc32& checksum() const { return checksum_; }

 private:
  [[noreturn]] void fail() const;

  std::string shown_;
  int descriptor_;
  std::uint64_t bytes_ = 0;
  Crc32 checksum_;
};

/// Writes a file completely or not at all: `fill` writes PATH.partial, which then replaces `path`
/// in one step. Deletes a file named PATH.partial that an interrupted run has left. Throws
/// UsageError or RunError, naming --save and the file, on failure.
void write_whole_file(const std::string& path, const std::function<void(NewFile&)>& fill);

/// Waits until the folder's directory entries are on the disk.
void sync_folder(const std::string& path);

}  // namespace lockstep
