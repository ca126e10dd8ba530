#include "core/run/options/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/run/options/given.h"

namespace lockstep {

namespace {

/// A name in the DNS has at most 253 characters, and a user's name on Linux 32. Longer ones
/// overflow mpirun's stack.
constexpr std::size_t longest_host = 300;

/// Returns whether `host` can be a host's name or address. Rejects texts that mpirun or ssh would
/// interpret as options.
bool is_host(const std::string& host) {
  const auto may_be_in_it = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == ':' || c == '[' ||
           c == ']' || c == '@' || c == '%';
  };
  return !host.empty() && host.size() <= longest_host && host.front() != '-' &&
         host.find("@-") == std::string::npos && std::ranges::all_of(host, may_be_in_it);
}

void check_slots(const std::string& flag, int slots, int ranks) {
  if (slots >= ranks) return;
  throw UsageError(
      fmt::format("{}: only {} slots for --ranks {}; give the hosts more slots, or use --ranks {}",
                  flag, slots, ranks, slots));
}

void check_file(const std::string& file, int ranks) {
  const std::string flag = "--hostfile " + file;
  std::ifstream in{file};
  const int problem = !in ? errno : std::filesystem::is_directory(file) ? EISDIR : 0;
  if (problem != 0)
    throw UsageError(
        fmt::format("{}: {}; write one with a line per host, such as 'node1 slots=4'", flag,
                    problem == ENOENT ? "no such file"
                                      : fmt::format("can't be read: {}", std::strerror(problem))));
  int slots = 0;
  int hosts = 0;
  bool all_known = true;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.ends_with('\r'))
      throw UsageError(fmt::format(
          "{}: line {}: ends in CR LF, as on Windows, and mpirun takes the CR as part of the line; "
          "convert the file: sed -i 's/\\r$//' {}",
          flag, number, file));
    std::istringstream words{line.substr(0, line.find('#'))};
    std::string word;
    if (!(words >> word)) continue;
    if (const auto colon = word.find(':');  // an IPv6 address has several, and MPICH's form one
        colon != std::string::npos && colon == word.rfind(':') && is_host(word.substr(0, colon)))
      throw UsageError(
          fmt::format("{}: line {}: '{}' is MPICH's form; in OpenMPI's, a line has a host and its "
                      "slots: '{} slots={}'",
                      flag, number, excerpt(word), excerpt(word.substr(0, colon)),
                      whole_number(word.substr(colon + 1), 1).value_or(4)));
    if (!is_host(word))
      throw UsageError(
          fmt::format("{}: line {}: '{}' is not a host; a line has a host and its slots, such as "
                      "'node1 slots=4'",
                      flag, number, excerpt(word)));
    ++hosts;
    bool known = false;
    while (words >> word) {
      if (word.rfind("slots=", 0) != 0 && word.rfind("max_slots=", 0) != 0 &&
          word.rfind("max-slots=", 0) != 0)
        throw UsageError(
            fmt::format("{}: line {}: unexpected '{}'; a line has a host and its slots, such as "
                        "'node1 slots=4'",
                        flag, number, excerpt(word)));
      const auto count = whole_number(word.substr(word.find('=') + 1), 1);
      if (!count)
        throw UsageError(fmt::format("{}: line {}: '{}' needs a number of at least 1", flag, number,
                                     excerpt(word)));
      if (word.front() != 's') continue;
      slots += *count;
      known = true;
    }
    all_known = all_known && known;
  }
  if (hosts == 0)
    throw UsageError(fmt::format(
        "{}: names no host; each line has a host and its slots, such as 'node1 slots=4'", flag));
  if (all_known) check_slots(flag, slots, ranks);
}

void check_list(const std::string& list, int ranks) {
  int slots = 0;
  std::istringstream parts{list + ","};
  for (std::string part; std::getline(parts, part, ',');) {
    const auto colon = part.rfind(':');
    const auto count =
        colon == std::string::npos ? std::optional{1} : whole_number(part.substr(colon + 1), 1);
    if (!count || !is_host(part.substr(0, colon)))
      throw UsageError(fmt::format(
          "--hosts {}: '{}' is not a host; list hosts and their slots, such as node1:4,node2:4",
          excerpt(list), excerpt(part)));
    slots += *count;
  }
  check_slots("--hosts " + excerpt(list), slots, ranks);
}

}  // namespace

void HostChoice::check(int ranks) const {
  if (!hostfile.empty() && !hosts.empty())
    throw UsageError(fmt::format(
        "--hosts {} with --hostfile {}: both name hosts; leave one of them out", hosts, hostfile));
  if (!hostfile.empty()) check_file(hostfile, ranks);
  if (!hosts.empty()) check_list(hosts, ranks);
}

std::vector<std::string> HostChoice::arguments() const {
  if (!hostfile.empty()) return {"--hostfile", hostfile};
  if (!hosts.empty()) return {"--host", hosts};
  return {};
}

}  // namespace lockstep
