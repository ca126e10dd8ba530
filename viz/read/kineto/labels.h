#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/category.h"

namespace lockstep::kineto {

/// The meaning of an annotation by torch.distributed.pipelining, such as "PP:1F0", "PP:1RECV_F0" or
/// either half of "PP:(0F1;7B0)OVERLAP_F_B". PyTorch's CSV files (core/pipeline/csv.h) use the same
/// grammar after "PP:".
struct PipelineLabel {
  enum class Kind : std::uint8_t { action, send, receive, wait_for_send, stage };
  Kind kind = Kind::action;
  Category category = Category::forward;  ///< for messages: forward or backward
  int stage = -1;
  int microbatch = -1;  ///< -1 for actions on whole stages (UNSHARD, RESHARD, REDUCE_GRAD)
  bool operator==(const PipelineLabel&) const = default;
};

/// Returns the labels of an annotation: usually one, but two for OVERLAP_F_B, which joins two
/// actions, and none for annotations of any other form.
std::vector<PipelineLabel> pipeline_labels(std::string_view annotation);

/// Returns the stage that uses the result of `stage`: the next one in the forward pass, the
/// previous one in the backward pass; -1 if there is none.
int stage_after(int stage, bool forward);

/// Returns the number in "Forward 3" if the annotation consists of `prefix` and a number that is
/// not negative.
std::optional<int> numbered(std::string_view annotation, std::string_view prefix);

/// Returns N for "ProfilerStep#N".
std::optional<int> profiler_step(std::string_view annotation);

/// Returns whether an operator issues a collective or a message: "c10d::allreduce_".
bool is_c10d(std::string_view name);

/// The operations of collectives and messages, independent of a backend's spelling.
enum class CallKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  reduce,
  gather,
  scatter,
  barrier,
  send,
  receive,
  send_receive,
  other,
};
/// Returns "all_reduce", "send", ...; "communication" for CallKind::other.
const char* name_of(CallKind operation);
/// Returns the operation that a kernel, an annotation or an argument names: "allreduce",
/// "_allgather_base", "gloo:all_reduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)".
CallKind call_kind_of(std::string_view name);
/// Returns whether the operation is one end of a message: a send or a receive.
bool is_message(CallKind operation);
/// Returns whether all members of the group leave the operation together, after the last of them
/// has entered it.
bool synchronizes(CallKind operation);
/// Returns whether a kernel belongs to a communication library: NCCL, RCCL, NVSHMEM or DeepEP.
bool is_communication_kernel(std::string_view name);

/// Returns the size of an element in bytes, given PyTorch's or C++'s name of its dtype; 0 if the
/// name is unknown.
std::int64_t element_size(std::string_view type);

}  // namespace lockstep::kineto
