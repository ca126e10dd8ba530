#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::viz {

/// A Perfetto manifest's entry for a file in the same archive.
/// (https://perfetto.dev/docs/reference/perfetto-manifest)
struct ManifestEntry {
  std::string path;
  std::string machine;  ///< "" if not given
  std::string sync_to;  ///< the file that the offset refers to; "" if not given
  /// An event at T on this file's clock is at T + offset on the other file's.
  std::int64_t offset_ns = 0;
};

/// Returns whether a file is a manifest, judging by its content, not by its name.
bool is_manifest(std::string_view content);
/// Throws UsageError, naming `file`, if the manifest is malformed.
std::vector<ManifestEntry> parse_manifest(const std::string& content, const std::string& file);
std::string manifest_json(const std::vector<ManifestEntry>& entries);

/// Returns each file's offset to a common clock, by path, omitting files that refer to no clock.
/// Throws UsageError, naming `file`, if the references form a cycle.
std::map<std::string, std::int64_t> clock_offsets(const std::vector<ManifestEntry>& entries,
                                                  const std::string& file);

}  // namespace lockstep::viz
