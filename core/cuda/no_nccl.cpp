// Replaces nccl_communicator.cpp in builds without NCCL.

#include <stdexcept>

#include "core/cuda/nccl_communicator.h"

namespace lockstep::nccl {

namespace {

constexpr const char* missing =
    "this build has no NCCL; install it (libnccl-dev, or PyPI's nvidia-nccl wheel) and rebuild";

}  // namespace

const bool is_here = false;

std::vector<std::byte> make_id() {
  throw std::runtime_error{missing};
}
std::unique_ptr<GpuCommunicator> join(int, const std::vector<std::byte>&, int, int, WaitCheck) {
  throw std::runtime_error{missing};
}
std::string version() {
  return "no NCCL";
}

}  // namespace lockstep::nccl
