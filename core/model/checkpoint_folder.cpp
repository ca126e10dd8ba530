#include "core/model/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

constexpr const char* manifest_name = "manifest.json";
constexpr const char* own_files[] = {manifest_name, "model.safetensors", "config.json",
                                     "optimizer.safetensors"};
constexpr const char* format_name = "lockstep checkpoint";

UsageError unusable(const std::string& folder, const std::string& why) {
  return UsageError{fmt::format(
      "--load {}: {}, so these files are not one complete checkpoint; load another one, or only "
      "the weights, by naming its model.safetensors",
      folder, why)};
}

/// Deletes a checkpoint's files and then its folder. Returns whether nothing is left. A folder that
/// contains other files stays, and so does the target of a symbolic link.
bool delete_checkpoint(const std::string& folder) {
  if (::unlink(folder.c_str()) == 0) return true;  // a link or a file
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor >= 0) {
    for (const char* name : own_files) ::unlinkat(descriptor, name, 0);
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

void make_way(const std::string& folder) {
  if (!delete_checkpoint(folder))
    throw UsageError{fmt::format(
        "--save: the folder {} is in the way: it may hold an interrupted run's files only; delete "
        "it, or give another name",
        folder)};
}

/// Completes a Replacement::rename that was interrupted.
void recover(const std::string& path) {
  const std::string previous = path + ".previous";
  if (!exists(previous)) return;
  if (exists(path) || std::rename(previous.c_str(), path.c_str()) != 0) make_way(previous);
}

Manifest write_files(const std::string& folder, const std::string& path, std::int64_t step,
                     const std::vector<CheckpointFile>& files) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0)
    throw UsageError{
        fmt::format("--save {}: can't open {}: {}", path, folder, std::strerror(errno))};
  try {
    Manifest manifest{.step = step, .files = {}};
    const auto write = [&](const std::string& name, const std::function<void(NewFile&)>& fill) {
      NewFile file{descriptor, name, path};
      fill(file);
      file.finish();
      return Manifest::File{file.bytes(), file.checksum().text()};
    };
    for (const CheckpointFile& file : files)
      manifest.files[file.name] = write(file.name, file.fill);
    write(manifest_name, [&](NewFile& file) { file.write(manifest.to_json()); });
    ::fsync(descriptor);
    ::close(descriptor);
    return manifest;
  } catch (...) {
    ::close(descriptor);
    throw;
  }
}

/// Gives the complete folder `fresh` the name `path`. Returns 0 or an error number.
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

std::string Manifest::to_json() const {
  nlohmann::ordered_json document = {
      {"format", format_name}, {"version", 1}, {"step", step}, {"files", nullptr}};
  for (const auto& [name, file] : files)
    document["files"][name] = {{"bytes", file.bytes}, {"crc32", file.crc32}};
  return document.dump(2) + "\n";
}

std::optional<Manifest> read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + manifest_name;
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  Manifest manifest;
  try {
    if (!fs::is_regular_file(path)) throw std::invalid_argument{path};
    std::ifstream file{path, std::ios::binary};
    const auto document = nlohmann::ordered_json::parse(file);
    if (document.at("format") != format_name || document.at("version") != 1)
      throw std::invalid_argument{"format"};
    manifest.step = document.at("step").get<std::int64_t>();
    for (const auto& [name, entry] : document.at("files").items()) {
      if (std::ranges::find(own_files, name) == std::end(own_files))
        throw std::invalid_argument{name};
      manifest.files[name] = {entry.at("bytes").get<std::uint64_t>(),
                              entry.at("crc32").get<std::string>()};
    }
    if (!manifest.files.contains("model.safetensors")) throw std::invalid_argument{"files"};
  } catch (const std::exception&) {
    throw unusable(folder, "its manifest.json is damaged or not Lockstep's");
  }
  return manifest;
}

void verify_files(const std::string& folder, const Manifest& manifest) {
  std::string piece(1 << 20, '\0');
  for (const auto& [name, expected] : manifest.files) {
    const std::string path = folder + "/" + name;
    std::error_code error;
    if (!fs::is_regular_file(path, error)) throw unusable(folder, name + " is missing");
    const std::uint64_t bytes = fs::file_size(path, error);
    if (error || bytes != expected.bytes)
      throw unusable(folder, fmt::format("{} has {} bytes, but manifest.json says {}", name, bytes,
                                         expected.bytes));
    std::ifstream file{path, std::ios::binary};
    Crc32 checksum;
    std::uint64_t left = bytes;
    while (left > 0 && file) {
      file.read(piece.data(), static_cast<std::streamsize>(std::min(left, piece.size())));
      checksum.add(piece.data(), static_cast<std::size_t>(file.gcount()));
      left -= static_cast<std::uint64_t>(file.gcount());
    }
    if (left > 0) throw unusable(folder, name + " can't be read");
    if (checksum.text() != expected.crc32)
      throw unusable(folder, fmt::format("{} has the CRC-32 {}, but manifest.json says {}", name,
                                         checksum.text(), expected.crc32));
  }
}

void write_checkpoint_folder(const std::string& path, std::int64_t step,
                             const std::vector<CheckpointFile>& files, Replacement replacement) {
  const std::string target = resolved_folder(path);
  const std::string fresh = target + ".partial";
  std::error_code error;
  fs::create_directories(fs::path{target}.parent_path(), error);
  recover(target);
  make_way(fresh);
  if (::mkdir(fresh.c_str(), 0777) != 0)
    throw UsageError{
        fmt::format("--save {}: can't create {}: {}; give a name in a folder that may "
                    "be written to",
                    path, fresh, std::strerror(errno))};
  try {
    write_files(fresh, path, step, files);
  } catch (...) {
    delete_checkpoint(fresh);
    throw;
  }
  // If `fresh` can't replace `path`, the trained model stays in `fresh`.
  const auto keep = [&](const std::string& why) {
    return RunError{
        fmt::format("--save {}: {}; the checkpoint is complete in {}", path, why, fresh)};
  };
  if (const std::string foreign = foreign_file(target); !foreign.empty())
    throw keep(fmt::format("this folder contains {}, which is no part of a checkpoint", foreign));
  if (const int failed = replace(fresh, target, replacement); failed != 0)
    throw keep(fmt::format("can't be replaced: {}", std::strerror(failed)));
  sync_folder(fs::path{target}.parent_path().string());
  delete_checkpoint(fresh);  // after an exchange, `fresh` is the old checkpoint
  delete_checkpoint(target + ".previous");
}

std::string folder_to_load(const std::string& path) {
  std::error_code error;
  const std::string previous = resolved_folder(path) + ".previous";
  return !fs::exists(path, error) && fs::is_directory(previous, error) ? previous : path;
}

std::string resolved_folder(const std::string& path) {
  std::error_code error;
  fs::path folder = fs::weakly_canonical(fs::absolute(path), error);
  if (error) folder = fs::absolute(path).lexically_normal();
  if (!folder.has_filename() && folder.has_parent_path()) folder = folder.parent_path();
  return folder.string();
}

std::string foreign_file(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const std::string name = entry.path().filename().string();
        std::ranges::find(own_files, name) == std::end(own_files))
      return name;
  return "";
}

}  // namespace lockstep
