#include <doctest/doctest.h>

#include <limits>

#include "viz/read/kineto/labels.h"

using namespace lockstep;
using namespace lockstep::kineto;

TEST_CASE("an annotation by torch.distributed.pipelining labels actions and messages") {
  using Kind = PipelineLabel::Kind;
  CHECK(pipeline_labels("PP:1F0") ==
        std::vector{PipelineLabel{Kind::action, Category::forward, 1, 0}});
  CHECK(pipeline_labels("PP:12I34") ==
        std::vector{PipelineLabel{Kind::action, Category::backward_input, 12, 34}});
  CHECK(pipeline_labels("PP:3W7") ==
        std::vector{PipelineLabel{Kind::action, Category::backward_weight, 3, 7}});
  CHECK(pipeline_labels("PP:0BW2") ==
        std::vector{PipelineLabel{Kind::action, Category::backward, 0, 2}});
  CHECK(pipeline_labels("PP:2RECV_B5") ==
        std::vector{PipelineLabel{Kind::receive, Category::backward, 2, 5}});
  CHECK(pipeline_labels("PP:2WAIT_SEND_F5") ==
        std::vector{PipelineLabel{Kind::wait_for_send, Category::forward, 2, 5}});
  CHECK(pipeline_labels("PP:2UNSHARD") ==
        std::vector{PipelineLabel{Kind::stage, Category::communication, 2, -1}});
  CHECK(pipeline_labels("PP:(0F4;7B1)OVERLAP_F_B") ==
        std::vector{PipelineLabel{Kind::action, Category::forward, 0, 4},
                    PipelineLabel{Kind::action, Category::backward, 7, 1}});
}

TEST_CASE("annotations of any other form are not labels") {
  for (const char* name :
       {"", "PP:", "PP:F0", "PP:1F", "PP:1X2", "PP:1F0x", "PP:2UNSHARD3", "1F0", "PP:-1F0",
        "PP:99999999999F0", "PP:(0F4;7B1)", "PP:(0F4)OVERLAP_F_B", "PP:;)(", "PP:(;)OVERLAP_F_B"})
    CHECK_MESSAGE(pipeline_labels(name).empty(), name);
}

TEST_CASE("a numbered annotation is a prefix and a number") {
  CHECK(numbered("Forward 3", "Forward ") == 3);
  CHECK(numbered("Backward 12", "Backward ") == 12);
  CHECK(profiler_step("ProfilerStep#7") == 7);
  for (const char* name : {"", "ProfilerStep#", "ProfilerStep#7b", "ProfilerStep#-7",
                           "ProfilerStep#99999999999", "ProfilerStep# 7", "step 7"})
    CHECK_MESSAGE(!profiler_step(name), name);
}

TEST_CASE("a result goes to the next stage in the forward pass, and to the previous in backward") {
  CHECK(stage_after(2, true) == 3);
  CHECK(stage_after(2, false) == 1);
  CHECK(stage_after(0, false) == -1);
  CHECK(stage_after(std::numeric_limits<int>::max(), true) == -1);
}

TEST_CASE("an operation is recognized by each of its names") {
  const auto is = [](CallKind kind, std::initializer_list<const char*> names) {
    for (const char* name : names) CHECK_MESSAGE(call_kind_of(name) == kind, name);
  };
  is(CallKind::all_reduce, {"allreduce", "gloo:all_reduce", "c10d::allreduce_",
                            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)",
                            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"});
  is(CallKind::reduce_scatter, {"_reduce_scatter_base", "reduce_scatter_tensor_coalesced",
                                "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL()"});
  is(CallKind::all_gather, {"_allgather_base", "all_gather_into_tensor", "gloo:all_gather"});
  is(CallKind::all_to_all, {"all_to_allv", "alltoall_base", "deep_ep::internode::dispatch<8>"});
  is(CallKind::send, {"send", "c10d::send", "gloo:send"});
  is(CallKind::receive, {"recv", "c10d::recv_", "gloo:recv"});
  is(CallKind::send_receive, {"ncclDevKernel_SendRecv(ncclDevKernelArgs)"});
  is(CallKind::reduce, {"reduce", "nccl:reduce"});
  is(CallKind::other, {"", "gemm"});
}
