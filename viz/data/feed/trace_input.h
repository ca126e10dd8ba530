#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "viz/data/feed/memory_limit.h"
#include "viz/read/kineto/alignment.h"
#include "viz/read/timeline/reader.h"

namespace lockstep::viz {

/// Returns the files that a path refers to: a file refers to itself; a folder to the traces of a
/// Lockstep run or, if it has none, to all its files *.json, *.json.gz, *.zip, *.tar and *.tar.gz.
/// Throws UsageError if there are none.
std::vector<std::filesystem::path> input_files(const std::filesystem::path& path);

/// Reads the traces of one run, Lockstep's or PyTorch's, compressed or not, and settles the
/// timeline. Throws UsageError for a file that can't be read, for traces of two tools, and for
/// compressed files that exceed the memory limit.
ReadReport read_inputs(const std::vector<std::filesystem::path>& paths, const MemoryLimit& limit,
                       Timeline& timeline);

/// Writes the traces of one run as a ZIP archive that Perfetto merges: the files as they are,
/// unpacked, and a manifest that names each rank's machine and the offset of its clock. (Perfetto's
/// reference: https://perfetto.dev/docs/reference/perfetto-manifest)
void export_archive(const std::vector<std::filesystem::path>& paths, const MemoryLimit& limit,
                    const std::filesystem::path& file);

}  // namespace lockstep::viz
