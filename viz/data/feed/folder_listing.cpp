#include "viz/data/feed/folder_listing.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

namespace lockstep::viz {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 6> trace_endings{".json", ".gz",  ".zip",
                                                        ".tar",  ".tgz", ".pkl"};
constexpr int entries_looked_at =
    64;  // entries of a subfolder that are read to find out whether it is a run

bool is_trace_name(const std::string& name) {
  return std::ranges::any_of(trace_endings,
                             [&](std::string_view ending) { return name.ends_with(ending); });
}

/// Returns whether a folder contains the traces of a run, written by Lockstep or by PyTorch's
/// profiler.
bool holds_traces(const fs::path& folder) {
  std::error_code error;
  int left = entries_looked_at;
  for (fs::directory_iterator at{folder, error}, end; !error && at != end && left-- > 0;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name == "trace.json" || (name.starts_with("rank") && name.ends_with(".json")) ||
        name.find(".pt.trace.json") != std::string::npos)
      return true;
  }
  return false;
}

}  // namespace

FolderListing list_folder(const fs::path& folder, std::size_t most) {
  FolderListing listing;
  std::error_code error;
  std::size_t read = 0;
  for (fs::directory_iterator at{folder, error}, end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(".")) continue;
    if (++read > most) {
      ++listing.left_out;
      continue;
    }
    std::error_code ignored;
    if (at->is_directory(ignored)) {
      using Kind = FolderEntry::Kind;
      listing.entries.push_back({holds_traces(at->path()) ? Kind::run : Kind::folder, name});
    } else if (is_trace_name(name)) {
      listing.entries.push_back({FolderEntry::Kind::trace, name});
    }
  }
  if (error) listing.trouble = folder.string() + ": " + error.message();
  std::ranges::sort(listing.entries, {}, [](const FolderEntry& each) {
    return std::tuple{each.kind == FolderEntry::Kind::trace, each.name};
  });
  return listing;
}

std::string completed_path(const std::string& typed) {
  const fs::path path{typed};
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path{"."};
  const std::string start = path.filename().string();
  std::string shared;
  std::size_t fitting = 0;
  bool enters = false;  // whether the only match is a folder
  for (const FolderEntry& each : list_folder(folder).entries) {
    if (!each.name.starts_with(start)) continue;
    enters = ++fitting == 1 && each.kind != FolderEntry::Kind::trace;
    if (fitting == 1) {
      shared = each.name;
      continue;
    }
    const auto end = std::ranges::mismatch(shared, each.name).in1;
    shared.erase(end, shared.end());
  }
  if (fitting == 0) return typed;
  const std::string before =
      path.has_parent_path() ? (path.parent_path() / shared).string() : shared;
  return enters ? before + "/" : before;
}

}  // namespace lockstep::viz
