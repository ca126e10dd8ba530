#include "core/run/files/gather_traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/comm/transport/control.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// A file's size and its first two lines. The second line is the hello, which names the run and the
/// rank.
std::string description(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) return "";
  std::ifstream file{path, std::ios::binary};
  std::string bracket, hello;
  std::getline(file, bracket);
  std::getline(file, hello);
  return fmt::format("{} {}{}", size, bracket, hello);
}

std::string piece_of(std::ifstream& file, std::size_t size) {
  std::string bytes(size, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

}  // namespace

int gather_traces(Transport& transport, const RunFolder& folder, std::size_t piece,
                  const std::function<void(const std::string&)>& warn) {
  if (folder.path.empty()) return 0;
  const fs::path mine = folder.rank_file(transport.rank());

  // Rank 0 names the ranks whose files are missing, and the number of pieces for each.
  std::string plan;
  const auto descriptions = gather_to_root(transport, description(mine));
  std::size_t pieces = 0;
  for (int rank = 1; rank < static_cast<int>(descriptions.size()); ++rank) {
    const std::string& theirs = descriptions[static_cast<std::size_t>(rank)];
    if (theirs.empty() || theirs == description(folder.rank_file(rank))) continue;
    plan += fmt::format(" {}", rank);
    pieces = std::max(pieces, (std::stoul(theirs) + piece - 1) / piece);
  }
  std::istringstream words{broadcast_from_root(transport, fmt::format("{}{}", pieces, plan))};
  words >> pieces;
  std::vector<int> missing;
  for (int rank = 0; words >> rank;) missing.push_back(rank);
  if (missing.empty()) return 0;

  const bool sends = std::find(missing.begin(), missing.end(), transport.rank()) != missing.end();
  std::ifstream source;
  if (sends) source.open(mine, std::ios::binary);
  // Files arrive under a temporary name. If the hosts do share a file system, which is merely slow
  // to show new files, the final name would be that of the rank's own file.
  const auto arriving = [&](int rank) { return folder.path / fmt::format(".rank{}.json", rank); };
  std::vector<std::ofstream> files;
  if (transport.rank() == 0)
    for (const int rank : missing) files.emplace_back(arriving(rank), std::ios::binary);
  for (; pieces > 0; --pieces) {
    const auto came = gather_to_root(transport, sends ? piece_of(source, piece) : "");
    for (std::size_t i = 0; i < files.size(); ++i)
      files[i] << came[static_cast<std::size_t>(missing[i])];
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    files[i].close();
    const fs::path to = folder.rank_file(missing[i]);
    std::error_code error;
    if (files[i]) fs::rename(arriving(missing[i]), to, error);
    if (files[i] && !error) continue;
    fs::remove(arriving(missing[i]), error);
    if (warn) warn(fmt::format("can't write {}, a trace from another host", to.string()));
  }
  return static_cast<int>(missing.size());
}

}  // namespace lockstep
