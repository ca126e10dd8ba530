#include "core/base/available_memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>

namespace lockstep {

namespace {

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

std::optional<std::int64_t> number_in(const std::string& file) {
  std::int64_t number = 0;
  if (std::ifstream in{file}; in >> number) return number;
  return {};  // there is no such file, or it says "max"
}

/// Returns the number after `key` in a file of lines such as "inactive_file 123".
std::int64_t value_of(const std::string& file, const std::string& key) {
  std::ifstream in{file};
  for (std::string line; std::getline(in, line);)
    if (std::int64_t number = 0; line.starts_with(key + " ") || line.starts_with(key + "\t"))
      if (std::istringstream{line.substr(key.size())} >> number) return number;
  return 0;
}

/// Returns the bytes that this process can still use within the limits of its control group and the
/// group's ancestors. `limit_name` and `use_name` are the files with a group's limit and use;
/// `pages_name` is the line of memory.stat that counts the group's file pages.
std::int64_t left_in_group(const std::string& root, std::string group, const char* limit_name,
                           const char* use_name, const char* pages_name) {
  std::int64_t least = unlimited;
  while (true) {
    const std::string folder = root + group + "/";
    const auto limit = number_in(folder + limit_name);
    const auto use = number_in(folder + use_name);
    if (limit && use && *limit < unlimited / 2)  // in version 1, a huge number means unlimited
      least = std::min(least, std::max<std::int64_t>(0, *limit - *use) +
                                  value_of(folder + "memory.stat", pages_name));
    if (group.empty()) return least;
    group.resize(group.rfind('/'));
  }
}

}  // namespace

std::int64_t available_memory(const std::string& proc, const std::string& groups) {
  std::int64_t least = unlimited;
  if (const std::int64_t kilobytes = value_of(proc + "/meminfo", "MemAvailable:"); kilobytes > 0)
    least = 1024 * kilobytes;

  // A line looks like "4:memory:/group" (cgroup version 1) or "0::/group" (version 2).
  std::ifstream memberships{proc + "/self/cgroup"};
  for (std::string line; std::getline(memberships, line);) {
    std::istringstream parts{line};
    std::string id, controllers, group;
    std::getline(parts, id, ':');
    std::getline(parts, controllers, ':');
    std::getline(parts, group);
    while (group.ends_with('/')) group.pop_back();
    if (!group.empty() && !group.starts_with('/')) continue;
    if (controllers.empty())
      least = std::min(
          least, left_in_group(groups, group, "memory.max", "memory.current", "inactive_file"));
    else if (("," + controllers + ",").find(",memory,") != std::string::npos)
      least = std::min(least, left_in_group(groups + "/memory", group, "memory.limit_in_bytes",
                                            "memory.usage_in_bytes", "total_inactive_file"));
  }

  rlimit addresses{};
  if (::getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY) {
    const auto used = number_in(proc + "/self/statm").value_or(0) * ::sysconf(_SC_PAGESIZE);
    least = std::min(
        least, std::max<std::int64_t>(0, static_cast<std::int64_t>(addresses.rlim_cur) - used));
  }
  return least;
}

std::string address_space_limit() {
  rlimit addresses{};
  if (::getrlimit(RLIMIT_AS, &addresses) != 0 || addresses.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format("; this process may use {} of address space (ulimit -v)",
                     text_of_bytes(static_cast<double>(addresses.rlim_cur)));
}

std::string text_of_bytes(double bytes) {
  const char* unit = "B";
  for (const char* larger : {"kB", "MB", "GB", "TB", "PB", "EB"}) {
    if (bytes < 1000) break;
    bytes /= 1000;
    unit = larger;
  }
  return fmt::format("{:.{}f} {}", bytes, bytes < 10 && *unit != 'B' ? 1 : 0, unit);
}

}  // namespace lockstep
