#include "core/model/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/error.h"

namespace lockstep {

NewFile::NewFile(int folder, const std::string& name, std::string shown)
    : shown_(std::move(shown)),
      descriptor_(::openat(folder, name.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0)
    throw UsageError{fmt::format(
        "--save {}: can't be written: {}; give a name in a folder that exists and may be written "
        "to",
        shown_, std::strerror(errno))};
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void NewFile::fail() const {
  throw RunError{
      fmt::format("--save {}: could not be written completely: {}", shown_, std::strerror(errno))};
}

void NewFile::write(const void* data, std::size_t bytes) {
  checksum_.add(data, bytes);
  bytes_ += bytes;
  for (const auto* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t count = ::write(descriptor_, at, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail();
    at += count;
    bytes -= static_cast<std::size_t>(count);
  }
}

void NewFile::finish() {
  // EINVAL means that this is not a file on a disk.
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail();
  if (::close(std::exchange(descriptor_, -1)) != 0) fail();
}

void write_whole_file(const std::string& path, const std::function<void(NewFile&)>& fill) {
  const std::string partial = path + ".partial";
  ::unlink(partial.c_str());  // deletes a symbolic link itself, not its target
  NewFile file{AT_FDCWD, partial, path};
  try {
    fill(file);
    file.finish();
    if (::rename(partial.c_str(), path.c_str()) != 0)
      throw UsageError{
          fmt::format("--save {}: {}; give the name of a file", path, std::strerror(errno))};
  } catch (...) {
    ::unlink(partial.c_str());
    throw;
  }
  sync_folder(std::filesystem::absolute(path).parent_path().string());
}

void sync_folder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  ::fsync(folder);  // may fail: some file systems do not support it
  ::close(folder);
}

}  // namespace lockstep
