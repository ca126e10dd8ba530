#include "core/model/checkpoint/save_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/error.h"

namespace lockstep {

namespace {

std::string lock_file(const std::string& path) {
  const std::filesystem::path target = resolved_folder(path);
  return (target.parent_path() / ("." + target.filename().string() + ".lock")).string();
}

/// Returns whether `file` still names the descriptor's file. The run that held the lock may have
/// deleted it.
bool is_named(int descriptor, const std::string& file) {
  struct stat mine {
  }, named{};
  return ::fstat(descriptor, &mine) == 0 && ::lstat(file.c_str(), &named) == 0 &&
         mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

/// Returns the first line of the lock file, such as "process 123 on host".
std::string owner(int descriptor) {
  char text[200];
  const ssize_t count = ::pread(descriptor, text, sizeof text, 0);
  std::string line{text, static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
  line.resize(std::min(line.find('\n'), line.size()));
  const bool printable = std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; });
  return printable && !line.empty() ? line : "another process";
}

}  // namespace

std::string resolved_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::path folder =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
  if (error) folder = std::filesystem::absolute(path).lexically_normal();
  if (!folder.has_filename() && folder.has_parent_path()) folder = folder.parent_path();
  return folder.string();
}

SaveLock::SaveLock(const std::string& flag, const std::string& path)
    : SaveLock(flag, path, lock_file(path)) {}

SaveLock::SaveLock(const std::string& flag, const std::string& path, std::string file)
    : file_(std::move(file)) {
  while (true) {
    descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
    if (descriptor_ < 0)
      throw UsageError{fmt::format("{} {}: can't create {}: {}; name another place", flag, path,
                                   file_, std::strerror(errno))};
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return;  // this file system has no locks
      const std::string other = owner(descriptor_);
      ::close(descriptor_);
      throw UsageError{fmt::format(
          "{} {}: {} is a run that writes there too; wait until it ends, or name another place",
          flag, path, other)};
    }
    if (is_named(descriptor_, file_)) break;
    ::close(descriptor_);
  }
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const std::string text = fmt::format("process {} on {}\n", ::getpid(), host);
  [[maybe_unused]] const bool written =
      ::ftruncate(descriptor_, 0) == 0 && ::write(descriptor_, text.data(), text.size()) > 0;
}

SaveLock::~SaveLock() {
  if (descriptor_ < 0) return;
  if (is_named(descriptor_, file_)) ::unlink(file_.c_str());
  ::close(descriptor_);
}

std::unique_ptr<const SaveLock> lock_report(const std::string& file) {
  if (file.empty()) return nullptr;
  const std::filesystem::path path = resolved_folder(file);
  std::error_code error;
  const bool is_other =
      std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
  if (is_other || ::access(path.parent_path().c_str(), W_OK) != 0) return nullptr;
  return std::make_unique<SaveLock>("--report", file);
}

}  // namespace lockstep
