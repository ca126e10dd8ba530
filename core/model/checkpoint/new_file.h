#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace lockstep {

/// A function that writes `bytes` bytes at an offset of a file.
using WriteAt = std::function<void(std::uint64_t offset, const void* data, std::size_t bytes)>;

/// A file that is being written for --save or --export.
class NewFile {
 public:
  enum class Mode {
    create,   ///< nothing of that name may exist, not even a symbolic link
    existing  ///< another rank has created the file
  };
  /// `shown` is the flag and its path, for messages. Throws UsageError if the file cannot be
  /// opened.
  NewFile(const std::string& path, Mode mode, std::string shown);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Sets the size. Bytes that are never written are zeros, or stay as they are.
  void resize(std::uint64_t bytes);
  /// Throws RunError if not all bytes can be written.
  void write_at(std::uint64_t offset, const void* data, std::size_t bytes);
  /// Waits until the bytes are on the disk, and closes the file. Throws RunError on failure.
  void finish();

 private:
  [[noreturn]] void fail() const;

  std::string shown_;
  int descriptor_;
};

/// Waits until the folder's directory entries are on the disk.
void sync_folder(const std::string& path);

}  // namespace lockstep
