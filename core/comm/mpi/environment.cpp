#include "core/comm/mpi/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/printable.h"

namespace lockstep {

namespace {

bool is_set(const char* name) {
  return std::getenv(name) != nullptr;
}

/// Parses a number of at least `least` from the beginning of `text`, and removes it there.
std::optional<int> take_number(std::string_view& text, int least) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < least) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

[[noreturn]] void refuse(const char* name, const std::string& expected) {
  throw UsageError(fmt::format("{}={}: the launcher sets this to {}; unset it, or correct it", name,
                               excerpt(std::getenv(name)), expected));
}

/// Returns the value of the first of these variables that is set, as a number of at least `least`.
int number(std::initializer_list<const char*> names, int least, int otherwise) {
  for (const char* name : names)
    if (const char* value = std::getenv(name)) {
      std::string_view text = value;
      const auto parsed = take_number(text, least);
      if (!parsed || !text.empty())
        refuse(name, fmt::format("a whole number of at least {}", least));
      return *parsed;
    }
  return otherwise;
}

/// Returns the number of ranks on `node` according to a list such as "2(x3),1", which means 2, 2, 2
/// and 1 ranks on nodes 0 to 3. Returns nothing if the list is malformed or ends before the node.
std::optional<int> ranks_on_node(std::string_view list, int node) {
  while (true) {
    const auto ranks = take_number(list, 1);
    std::optional<int> nodes = 1;
    if (ranks && list.starts_with("(x")) {
      list.remove_prefix(2);
      nodes = take_number(list, 1);
      if (!list.starts_with(')')) return {};
      list.remove_prefix(1);
    }
    if (!ranks || !nodes) return {};
    if (node < *nodes) return ranks;
    node -= *nodes;
    if (!list.starts_with(',')) return {};
    list.remove_prefix(1);
  }
}

// Slurm also sets its step variables in a batch script, which is a single process and not a rank.
// Slurm sets PMIx's variables only for ranks.
bool in_slurm_step() {
  return is_set("PMIX_RANK") && is_set("SLURM_PROCID") &&
         (is_set("SLURM_STEP_NUM_TASKS") || is_set("SLURM_NTASKS"));
}

}  // namespace

void forget_ended_launcher() {
  const char* folder = std::getenv("PMIX_SERVER_TMPDIR");
  const bool ended = folder != nullptr && ::access(folder, F_OK) != 0 && errno == ENOENT;
  if (!ended && (is_set("PMIX_RANK") || !is_set("OMPI_COMM_WORLD_SIZE"))) return;
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    for (const char* prefix : {"OMPI_COMM_WORLD_", "PMIX_", "OMPI_MCA_ess", "OMPI_MCA_orte_"})
      if (text.starts_with(prefix)) names.push_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

bool under_mpirun() {
  return is_set("OMPI_COMM_WORLD_SIZE");
}
bool under_mpi() {
  return under_mpirun() || in_slurm_step();
}
int mpi_rank_from_environment() {
  if (!under_mpi()) return 0;
  return number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"}, 0, 0);
}
int mpi_size_from_environment() {
  if (!under_mpi()) return 1;
  return number({"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, 1, 1);
}
int mpi_local_size_from_environment() {
  if (!under_mpi()) return 1;
  constexpr const char* per_node = "SLURM_STEP_TASKS_PER_NODE";
  if (is_set("OMPI_COMM_WORLD_LOCAL_SIZE") || !is_set(per_node))
    return number({"OMPI_COMM_WORLD_LOCAL_SIZE"}, 1, mpi_size_from_environment());
  const int node = number({"SLURM_NODEID"}, 0, 0);
  const auto ranks = ranks_on_node(std::getenv(per_node), node);
  if (!ranks)
    refuse(per_node,
           fmt::format("the ranks of each node up to this one, node {}, such as 2(x3),1", node));
  return *ranks;
}
int mpi_local_rank_from_environment() {
  return number({"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}, 0, 0);
}
bool mpi_first_on_host() {
  return mpi_local_rank_from_environment() == 0;
}

}  // namespace lockstep
