// Stands for nccl_communicator.cpp where Lockstep is built without NCCL.

#include "core/base/error.h"
#include "core/comm/nccl/nccl_communicator.h"

namespace lockstep::nccl {

namespace {

constexpr const char* missing =
    "this build has no NCCL; install it (libnccl-dev, or PyPI's nvidia-nccl wheel) and build anew, "
    "or let ranks exchange without it";

}  // namespace

std::vector<std::byte> make_id() {
  throw RunError{missing};
}
std::unique_ptr<GpuCommunicator> join(int, const std::vector<std::byte>&, int, int) {
  throw RunError{missing};
}
std::string version() {
  return "no NCCL";
}

}  // namespace lockstep::nccl
