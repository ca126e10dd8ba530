#include "core/model/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/base/crc32.h"
#include "core/base/error.h"
#include "core/model/checkpoint/common_folder.h"
#include "core/model/checkpoint/save_lock.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// Whether a file's name has the form "model-00001-of-00002.safetensors".
bool is_model_part(const std::string& name) {
  const std::string pattern = "model-#####-of-#####.safetensors";
  return std::ranges::equal(
      name, pattern, [](char c, char p) { return p == '#' ? c >= '0' && c <= '9' : c == p; });
}

/// Whether a checkpoint or an exported model, complete or unfinished, may contain a file of this
/// name.
bool is_own_file(const std::string& name) {
  constexpr const char* names[] = {manifest_name, "model.safetensors", "config.json",
                                   "optimizer.safetensors", index_name};
  return std::ranges::find(names, name) != std::end(names) || is_model_part(name) ||
         is_shard_file(name) || name.starts_with(token_prefix);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    names.push_back(entry.path().filename().string());
  return names;
}

/// Deletes a checkpoint's files and then its folder. Returns whether nothing is left. A folder that
/// contains other files stays, and so does the target of a symbolic link.
bool delete_checkpoint(const std::string& folder) {
  if (::unlink(folder.c_str()) == 0) return true;  // a link or a file
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor >= 0) {
    for (const std::string& name : names_in(folder))
      if (is_own_file(name)) ::unlinkat(descriptor, name.c_str(), 0);
    ::close(descriptor);
    ::rmdir(folder.c_str());
  }
  struct stat left {};
  return ::lstat(folder.c_str(), &left) != 0;
}

bool exists(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0;
}

void make_way(const std::string& flag, const std::string& folder) {
  if (!delete_checkpoint(folder))
    throw UsageError{fmt::format(
        "{}: the folder {} is in the way: it may hold an interrupted run's files only; delete "
        "it, or give another name",
        flag, folder)};
}

/// Completes a Replacement::rename that was interrupted.
void recover(const std::string& flag, const std::string& path) {
  const std::string previous = path + ".previous";
  if (!exists(previous)) return;
  if (exists(path) || std::rename(previous.c_str(), path.c_str()) != 0) make_way(flag, previous);
}

/// Renames the complete folder `fresh` to `path`. Returns 0 or an error number.
int replace(const std::string& fresh, const std::string& path, Replacement replacement) {
  // Succeeds if `path` does not exist or is an empty folder.
  if (std::rename(fresh.c_str(), path.c_str()) == 0) return 0;
  if (errno != ENOTEMPTY && errno != EEXIST) return errno;
  if (replacement == Replacement::exchange) {
    if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0)
      return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return errno;
  }
  const std::string previous = path + ".previous";
  if (std::rename(path.c_str(), previous.c_str()) != 0) return errno;
  if (std::rename(fresh.c_str(), path.c_str()) == 0) return 0;
  const int error = errno;
  [[maybe_unused]] const int ignored = std::rename(previous.c_str(), path.c_str());
  return error;
}

}  // namespace

NewFolder::NewFolder(std::string flag, std::string path)
    : flag_(std::move(flag)),
      path_(std::move(path)),
      target_(resolved_folder(path_)),
      partial_(target_ + ".partial") {
  std::error_code error;
  fs::create_directories(fs::path{target_}.parent_path(), error);
  recover(flag_, target_);
  make_way(flag_, partial_);
  if (::mkdir(partial_.c_str(), 0777) != 0)
    throw UsageError{
        fmt::format("{} {}: can't create {}: {}; give a name in a folder that may "
                    "be written to",
                    flag_, path_, partial_, std::strerror(errno))};
  descriptor_ = ::open(partial_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor_ < 0)
    throw UsageError{
        fmt::format("{} {}: can't open {}: {}", flag_, path_, partial_, std::strerror(errno))};
}

NewFolder::~NewFolder() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!keep_) delete_checkpoint(partial_);
}

Manifest::File NewFolder::write(const std::string& name, const std::string& text) {
  NewFile file{partial_ + "/" + name, NewFile::Mode::create, fmt::format("{} {}", flag_, path_)};
  file.write_at(0, text.data(), text.size());
  file.finish();
  Crc32 checksum;
  checksum.add(text.data(), text.size());
  return {text.size(), checksum.value()};
}

void NewFolder::take_place(Replacement replacement) {
  ::fsync(descriptor_);
  keep_ = true;  // keeps the trained model in NAME.partial if it can't replace `path`
  const auto kept = [&](const std::string& why) {
    return RunError{
        fmt::format("{} {}: {}; the checkpoint is complete in {}", flag_, path_, why, partial_)};
  };
  if (const std::string foreign = foreign_file(target_); !foreign.empty())
    throw kept(fmt::format("this folder contains {}, which is no part of a checkpoint", foreign));
  if (const int failed = replace(partial_, target_, replacement); failed != 0)
    throw kept(fmt::format("can't be replaced: {}", std::strerror(failed)));
  sync_folder(fs::path{target_}.parent_path().string());
  delete_checkpoint(partial_);  // the old checkpoint, after an exchange
  delete_checkpoint(target_ + ".previous");
}

std::string folder_to_load(const std::string& path) {
  std::error_code error;
  const std::string previous = resolved_folder(path) + ".previous";
  return !fs::exists(path, error) && fs::is_directory(previous, error) ? previous : path;
}

std::string foreign_file(const std::string& folder) {
  for (const std::string& name : names_in(folder))
    if (!is_own_file(name)) return name;
  return "";
}

}  // namespace lockstep
