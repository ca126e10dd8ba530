#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::viz {

/// A file, or a member of an archive.
struct PackedFile {
  std::string name;
  std::string content;
};

/// Returns whether a file is compressed or an archive, by its first bytes: gzip, ZIP, zstd, xz.
bool is_packed(const std::filesystem::path& file);

/// Returns the content of a gzip file (one element, without the ending .gz), or the members of a
/// ZIP or TAR archive, which may themselves be compressed. Throws UsageError if the file is damaged
/// or cut off, or if it unpacks to more than `most_bytes`.
std::vector<PackedFile> unpack(const std::filesystem::path& file, std::size_t most_bytes);

/// Writes a ZIP archive. Throws RunError.
void pack(const std::filesystem::path& file, const std::vector<PackedFile>& members);

}  // namespace lockstep::viz
