// Emulates NCCL between the threads of one process. An operation proceeds when, on every member, it
// is at the head of its stream and all earlier operations on its communicator are done. Operations
// therefore hang if ranks issue them in different orders or with different sizes, or if two ranks,
// outside a group, both send to each other before they receive (real NCCL's buffers may prevent
// this last hang). With $LOCKSTEP_EMULATOR_DEBUG=1, the emulator prints the waiting operations
// after 3 s without progress.
//
// With $LOCKSTEP_EMULATED_NCCL_ERROR=N, communicators created while the variable is set fail
// silently after N operations, and ncclCommGetAsyncError returns ncclRemoteError. The value RANK:N
// affects only that rank.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "tests/gpu/emulator/clique.h"

struct ncclComm {
  std::shared_ptr<emulator::Member> member;
};

namespace emulator {

namespace {

thread_local std::string last_error;

struct Table {
  std::map<std::string, std::shared_ptr<Clique>> joining;
  std::set<ncclComm_t> live;
  int ids = 0;
};
/// May be used only under the machine's lock.
Table& table() {
  static Table& all = *new Table;
  return all;
}

ncclComm_t enter(std::shared_ptr<Clique> clique, int rank, int device) {
  auto member = std::make_shared<Member>();
  member->clique = std::move(clique);
  member->rank = rank;
  member->device = device;
  if (const char* setting = std::getenv("LOCKSTEP_EMULATED_NCCL_ERROR")) {
    const std::string text = setting;
    const auto colon = text.find(':');
    if (colon == std::string::npos || std::stoi(text.substr(0, colon)) == rank)
      member->fails_after = std::stoll(text.substr(colon == std::string::npos ? 0 : colon + 1));
  }
  auto* communicator = new ncclComm{std::move(member)};
  table().live.insert(communicator);
  return communicator;
}

/// Returns a description of two ranks that share a GPU, or "" if none do.
std::string shared_gpu(const Clique& clique) {
  std::map<int, int> users;
  for (const auto& [rank, gpu] : clique.gpus) {
    const auto [other, alone] = users.emplace(gpu, rank);
    if (!alone)
      return fmt::format("Duplicate GPU detected : rank {} and rank {} both on CUDA device {}",
                         other->second, rank, gpu);
  }
  return "";
}

}  // namespace

ncclResult_t refused(ncclResult_t result, std::string why) {
  last_error = std::move(why);
  return result;
}

std::shared_ptr<Member> member_of(ncclComm_t communicator) {
  if (table().live.count(communicator) == 0)
    give_up("use of a communicator that was destroyed or aborted");
  return communicator->member;
}

}  // namespace emulator

using emulator::Clique;
using emulator::Machine;
using emulator::refused;
using emulator::table;

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const Machine::Lock lock = Machine::get().lock();
  *id = {};
  fmt::format_to_n(id->internal, sizeof id->internal - 1, "process {}, communicator {}", getpid(),
                   table().ids++);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  const std::string name{id.internal};
  if (!name.starts_with(fmt::format("process {},", getpid())))
    return refused(ncclSystemError, "the emulator's communicators join threads of one process");
  if (rank < 0 || rank >= ranks) return refused(ncclInvalidArgument, "no such rank");

  auto& joining = table().joining[name];
  if (!joining) joining = std::make_shared<Clique>(ranks);
  const std::shared_ptr<Clique> clique = joining;
  const int device = emulator::current_device();
  if (!clique->gpus.emplace(rank, device).second)
    return refused(ncclInvalidUsage, fmt::format("rank {} joins twice", rank));
  const auto size = static_cast<std::size_t>(ranks);
  if (clique->gpus.size() == size) table().joining.erase(name);
  machine.changed();
  machine.drive(lock, [&] { return clique->gpus.size() == size; });
  if (const std::string twice = emulator::shared_gpu(*clique); !twice.empty())
    return refused(ncclInvalidUsage, twice);
  *communicator = emulator::enter(clique, rank, device);
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t communicator, int color, int key, ncclComm_t* part,
                           ncclConfig_t*) {
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  const auto member = emulator::member_of(communicator);
  const std::shared_ptr<Clique> clique = member->clique;
  const int round = member->splits++;
  const auto size = static_cast<std::size_t>(clique->size);
  Clique::Split& split = clique->splits[round];
  split.wanted[member->rank] = {color, key};
  machine.changed();
  machine.drive(lock, [&] { return split.wanted.size() == size || member->aborted; });
  if (member->aborted) return refused(ncclInternalError, "aborted");

  // Ordered by key, then by rank.
  std::vector<std::pair<int, int>> chosen;
  for (const auto& [rank, wanted] : split.wanted)
    if (wanted.first == color) chosen.emplace_back(wanted.second, rank);
  std::sort(chosen.begin(), chosen.end());
  *part = nullptr;
  if (color != NCCL_SPLIT_NOCOLOR) {
    auto& made = split.by_color[color];
    if (!made) made = std::make_shared<Clique>(static_cast<int>(chosen.size()));
    const auto mine = std::find(chosen.begin(), chosen.end(), std::pair{key, member->rank});
    *part = emulator::enter(made, static_cast<int>(mine - chosen.begin()), member->device);
  }
  if (++split.took == clique->size) clique->splits.erase(round);
  return ncclSuccess;
}

/// Waits until all issued operations are done.
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  const auto member = emulator::member_of(communicator);
  table().live.erase(communicator);
  machine.drive(lock, [&] { return member->order.empty(); });
  delete communicator;
  return ncclSuccess;
}

/// Removes the issued operations from this rank's streams, which then proceed. The other ranks'
/// operations wait until those ranks abort too.
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  Machine& machine = Machine::get();
  const Machine::Lock lock = machine.lock();
  const auto member = emulator::member_of(communicator);
  member->aborted = true;
  member->clique->forget(member->rank);
  table().live.erase(communicator);
  delete communicator;
  machine.changed();
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  const Machine::Lock lock = Machine::get().lock();
  const auto member = emulator::member_of(communicator);
  const bool failed = member->fails_after >= 0 && member->operations >= member->fails_after;
  *error = failed ? ncclRemoteError : ncclSuccess;
  if (failed) emulator::last_error = "a network that fell silent, as the emulator was told";
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t communicator, int* count) {
  *count = communicator->member->clique->size;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t communicator, int* rank) {
  *rank = communicator->member->rank;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* texts[] = {"no error",
                                   "unhandled cuda error",
                                   "unhandled system error",
                                   "internal error",
                                   "invalid argument",
                                   "invalid usage",
                                   "remote process exited or there was a network error",
                                   "NCCL operation in progress"};
  return texts[result];
}
const char* ncclGetLastError(ncclComm_t) {
  return emulator::last_error.c_str();
}
