// Emulates NCCL between the threads of one process. An operation proceeds when, on every member, it
// is at the head of its stream and all earlier operations on its communicator are done. Operations
// therefore hang if ranks issue them in different orders or with different sizes, or if two ranks,
// outside a group, both send to each other before they receive (real NCCL's buffers may prevent
// this last hang). With $LOCKSTEP_EMULATOR_DEBUG=1, the emulator prints the waiting operations
// after 3 s without progress.
//
// Communicators are blocking or not, according to their configuration or $NCCL_COMM_BLOCKING (0 or
// 1). On a non-blocking communicator, a call's work is not on the stream before
// ncclCommGetAsyncError has reported that the call is done, and no other call may begin until then.
// NCCL does the work in the background, but may take equally long. A send or receive outside a
// group is refused there: before NCCL 2.24, its call may be reported as done although its work is
// not on the stream yet.
//
// With $LOCKSTEP_EMULATED_NCCL_ERROR=N, communicators created while the variable is set fail
// silently after N operations, and ncclCommGetAsyncError returns ncclRemoteError. The value RANK:N
// affects only that rank.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

#include "tests/gpu/emulator/clique.h"

struct ncclComm {
  std::shared_ptr<emulator::Member> member;
};

namespace emulator {

namespace {

/// One text for the whole process, as in NCCL: another rank's failure may overwrite it.
char last_error[256] = "";

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

bool is_blocking(const ncclConfig_t* config) {
  const char* setting = std::getenv("NCCL_COMM_BLOCKING");
  if (setting != nullptr) return setting != std::string{"0"};
  return config == nullptr || config->blocking != 0;
}

ncclComm_t enter(std::shared_ptr<Clique> clique, int rank, int device, bool blocking) {
  auto member = std::make_shared<Member>();
  member->blocking = blocking;
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

void remove(ncclComm_t communicator) {
  table().live.erase(communicator);
  delete communicator;
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

ncclResult_t refused(ncclResult_t result, const std::string& why) {
  std::snprintf(last_error, sizeof last_error, "%s", why.c_str());
  return result;
}

std::shared_ptr<Member> member_of(ncclComm_t communicator) {
  if (table().live.count(communicator) == 0)
    give_up("use of a communicator that was destroyed or aborted");
  return communicator->member;
}

std::shared_ptr<Member> ready_member_of(ncclComm_t communicator) {
  auto member = member_of(communicator);
  if (!member->in_progress) return member;
  refused(ncclInvalidArgument,
          "Attempt to use communicator before the previous operation returned ncclSuccess");
  return nullptr;
}

ncclResult_t make_call(Machine::Lock& lock, const std::shared_ptr<Member>& member,
                       std::function<bool()> ready,
                       std::function<ncclResult_t(Machine::Lock&)> finish) {
  if (member->blocking) {
    Machine::get().drive(lock, [&] { return member->aborted || ready(); });
    return member->aborted ? refused(ncclInternalError, "aborted") : finish(lock);
  }
  member->queries = member->calls++ % 3;
  if (member->queries == 0 && ready()) return finish(lock);
  member->in_progress = [=](Machine::Lock& held) {
    Machine::get().drive_a_little(held);
    return member->queries-- > 0 || !ready() ? ncclInProgress : finish(held);
  };
  return ncclInProgress;
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
                                    ncclConfig_t* config) {
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
  *communicator = emulator::enter(clique, rank, device, emulator::is_blocking(config));
  const ncclResult_t result = emulator::make_call(
      lock, (*communicator)->member, [=] { return clique->gpus.size() == size; },
      [=](Machine::Lock&) {
        const std::string twice = emulator::shared_gpu(*clique);
        if (twice.empty()) return ncclSuccess;
        refused(ncclInvalidUsage, twice);
        // Since NCCL 2.28, a later and less specific text replaces this one.
        return refused(ncclInvalidUsage, "the communicator could not be initialized");
      });
  if (result != ncclSuccess && result != ncclInProgress)
    emulator::remove(std::exchange(*communicator, nullptr));
  return result;
}

/// Done when all issued operations are.
ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  Machine::Lock lock = Machine::get().lock();
  const auto member = emulator::ready_member_of(communicator);
  if (!member) return ncclInvalidArgument;
  return emulator::make_call(
      lock, member, [=] { return member->order.empty(); },
      [](Machine::Lock&) { return ncclSuccess; });
}

/// Waits until all issued operations are done.
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  const auto member = emulator::ready_member_of(communicator);
  if (!member) return ncclInvalidArgument;
  machine.drive(lock, [&] { return member->order.empty(); });
  emulator::remove(communicator);
  return ncclSuccess;
}

/// Removes the issued operations from this rank's streams, which then proceed. The other ranks'
/// operations wait until those ranks abort too.
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  Machine& machine = Machine::get();
  const Machine::Lock lock = machine.lock();
  const auto member = emulator::member_of(communicator);
  member->aborted = true;
  member->in_progress = nullptr;
  member->clique->forget(member->rank);
  emulator::remove(communicator);
  machine.changed();
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  Machine::Lock lock = Machine::get().lock();
  const auto member = emulator::member_of(communicator);
  if (auto call = member->in_progress) {
    const ncclResult_t result = call(lock);
    if (result != ncclInProgress) member->in_progress = nullptr;
    member->result = result;
  }
  *error = member->result;
  if (*error != ncclSuccess) return ncclSuccess;
  const bool failed = member->fails_after >= 0 && member->operations >= member->fails_after;
  *error = failed ? ncclRemoteError : ncclSuccess;
  if (failed) refused(ncclRemoteError, "a network that fell silent, as the emulator was told");
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t communicator, int* count) {
  const Machine::Lock lock = Machine::get().lock();
  const auto member = emulator::ready_member_of(communicator);
  if (!member) return ncclInvalidArgument;
  *count = member->clique->size;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t communicator, int* rank) {
  const Machine::Lock lock = Machine::get().lock();
  const auto member = emulator::ready_member_of(communicator);
  if (!member) return ncclInvalidArgument;
  *rank = member->rank;
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
  return emulator::last_error;
}
