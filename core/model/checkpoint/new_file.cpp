#include "core/model/checkpoint/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace lockstep {

NewFile::NewFile(const std::string& path, Mode mode, std::string shown)
    : shown_(std::move(shown)),
      descriptor_(
          ::open(path.c_str(),
                 O_WRONLY | O_NOFOLLOW | O_CLOEXEC | (mode == Mode::create ? O_CREAT | O_EXCL : 0),
                 0666)) {
  if (descriptor_ < 0)
    throw UsageError{fmt::format(
        "{}: can't be written: {}; give a name in a folder that exists and may be written to",
        shown_, std::strerror(errno))};
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void NewFile::fail() const {
  throw RunError{
      fmt::format("{}: could not be written completely: {}", shown_, std::strerror(errno))};
}

void NewFile::resize(std::uint64_t bytes) {
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) fail();
}

void NewFile::write_at(std::uint64_t offset, const void* data, std::size_t bytes) {
  for (const auto* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t count = ::pwrite(descriptor_, at, bytes, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail();
    at += count;
    offset += static_cast<std::uint64_t>(count);
    bytes -= static_cast<std::size_t>(count);
  }
}

void NewFile::finish() {
  // EINVAL means that this is not a file on a disk.
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail();
  if (::close(std::exchange(descriptor_, -1)) != 0) fail();
}

void sync_folder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  ::fsync(folder);  // may fail: some file systems do not support it
  ::close(folder);
}

}  // namespace lockstep
