#include "viz/read/flight_recorder/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/input_file.h"
#include "core/base/number.h"
#include "core/base/printable.h"
#include "viz/read/flight_recorder/calls.h"
#include "viz/read/flight_recorder/rank_list.h"

namespace lockstep::flight {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t beginning_bytes = 256;
constexpr std::size_t most_files = 1 << 20;
constexpr std::size_t most_notes = 20;

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

std::string beginning_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(beginning_bytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return text;
}

bool is_dump_file(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return false;
  return is_dump(beginning_of(file));
}

/// Whether a file has the name of a dump, as an empty or damaged dump does.
bool has_name_of_dump(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.find("trace_rank_") != std::string::npos && rank_in_name(file) >= 0;
}

/// Returns the rank that a dump's content implies, or -1.
int rank_in_content(const Dump& dump) {
  std::optional<std::vector<int>> shared;
  for (const GroupConfig& group : dump.groups) {
    if (group.name.empty() || group.ranks.empty()) continue;
    std::vector<int> members = group.ranks;
    std::ranges::sort(members);
    if (shared) {
      std::vector<int> both;
      std::ranges::set_intersection(*shared, members, std::back_inserter(both));
      shared = std::move(both);
    } else {
      shared = std::move(members);
    }
  }
  if (shared && shared->size() == 1) return shared->front();
  for (const Call& call : calls_of(dump).all) {
    const int in_group = call.sends ? call.source : call.is_p2p ? call.destination : -1;
    if (in_group < 0) continue;
    for (const GroupConfig& group : dump.groups)
      if (group.name == call.group && static_cast<std::size_t>(in_group) < group.ranks.size())
        return group.ranks[static_cast<std::size_t>(in_group)];
  }
  return -1;
}

int rank_of(const fs::path& file, const Dump& dump) {
  if (const int rank = rank_in_name(file); rank >= 0) return rank;
  if (const int rank = rank_in_content(dump); rank >= 0) return rank;
  throw DumpError(
      "has no rank: its name does not end with one, as nccl_trace_rank_3 does, and its content "
      "does "
      "not imply one");
}

void add_note(Job& job, std::string note) {
  if (job.notes.size() < most_notes) {
    job.notes.push_back(std::move(note));
  } else if (job.notes.size() == most_notes) {
    job.notes.emplace_back("further files were not read");
  }
}

}  // namespace

int rank_in_name(const fs::path& file) {
  std::string name = file.filename().string();
  while (!name.empty() && !is_digit(name.back())) {
    const auto dot = name.rfind('.');
    if (dot == std::string::npos) break;
    name.resize(dot);
  }
  std::size_t begin = name.size();
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  const int rank = number_from<int>(std::string_view{name}.substr(begin)).value_or(-1);
  return rank < most_ranks ? rank : -1;
}

std::vector<fs::path> dump_files(const std::vector<fs::path>& paths) {
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      if (is_dump_file(path)) files.push_back(path);
      continue;
    }
    for (const auto& entry : fs::directory_iterator{path, error}) {
      if (files.size() >= most_files) break;
      if (is_dump_file(entry.path()) ||
          (entry.is_regular_file(error) && has_name_of_dump(entry.path())))
        files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  files.erase(std::ranges::unique(files).begin(), files.end());
  return files;
}

Job read_job(const std::vector<fs::path>& files) {
  Job job;
  std::map<int, std::string> file_of;
  for (const fs::path& file : files) {
    const std::string shown = excerpt(file.filename().string());
    RankDump read;
    try {
      read.dump = read_dump(content_of(file));
      read.rank = rank_of(file, read.dump);
    } catch (const std::runtime_error& error) {  // DumpError or InputError
      add_note(job, fmt::format("{}: {}", shown, error.what()));
      continue;
    }
    if (const auto [other, is_new] = file_of.emplace(read.rank, shown); !is_new)
      throw UsageError(fmt::format(
          "{} and {} are both of rank {}: the folder holds two runs, or one dump in two forms; "
          "give the files of one run",
          other->second, shown, read.rank));
    job.dumps.push_back(std::move(read));
  }
  if (job.dumps.empty())
    throw UsageError(job.notes.empty() ? "no flight-recorder dumps were given" : job.notes.front());
  std::ranges::sort(job.dumps, {}, &RankDump::rank);
  return job;
}

}  // namespace lockstep::flight
