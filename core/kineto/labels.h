#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/category.h"

namespace lockstep::kineto {

/// What an annotation of torch.distributed.pipelining says: "PP:1F0", "PP:1RECV_F0",
/// "PP:(0F1;7B0)OVERLAP_F_B". The text after PP: is an action in the grammar of PyTorch's CSV files
/// (core/pipeline/csv.h).
struct PipelineLabel {
  enum class Kind : std::uint8_t { action, send, receive, wait_for_send, stage };
  Kind kind = Kind::action;
  Category category = Category::forward;  ///< of an action; of a message: forward or backward
  int stage = -1;
  int microbatch = -1;  ///< -1 for actions on whole stages (UNSHARD, RESHARD, REDUCE_GRAD)
  bool operator==(const PipelineLabel&) const = default;
};

/// Returns the labels of an annotation: one, or the two actions that OVERLAP_F_B joins; none if the
/// annotation is not of this form.
std::vector<PipelineLabel> pipeline_labels(std::string_view annotation);

/// Returns N of "ProfilerStep#N".
std::optional<int> profiler_step(std::string_view annotation);

/// The operations of collectives and messages, however a backend spells them.
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
/// Returns whether all members of the group leave the operation together, after the last of them
/// has entered it.
bool synchronizes(CallKind operation);
/// Returns whether a kernel on a GPU communicates: NCCL's, RCCL's, NVSHMEM's or DeepEP's.
bool is_communication_kernel(std::string_view name);

/// Returns the bytes of an element, by PyTorch's name of the dtype or C++'s; 0 if it is unknown.
std::int64_t element_size(std::string_view type);

}  // namespace lockstep::kineto
