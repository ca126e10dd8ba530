#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/base/error.h"
#include "viz/read/kineto/import.h"
#include "viz/read/kineto/reader.h"
#include "viz/read/timeline/step_account.h"
#include "viz/read/timeline/visit_band.h"

using namespace lockstep;
using namespace lockstep::kineto;

namespace {

/// Writes the trace of a GPU. Times are in whole microseconds.
class Writer {
 public:
  Writer(int rank, int ranks) {
    text_ = fmt::format(
        R"({{"schemaVersion":1,"distributedInfo":{{"backend":"nccl","rank":{},"world_size":{}}},
"host_name":"host{}","traceEvents":[
{{"ph":"X","cat":"Trace","name":"PyTorch Profiler","pid":"Spans","tid":"PyTorch Profiler","ts":0,"dur":9}})",
        rank, ranks, rank);
  }
  Writer& host(const std::string& cat, const std::string& name, int ts, int dur,
               int correlation = 0) {
    return event(cat, name, 9, 9, ts, dur, fmt::format(R"("correlation":{})", correlation));
  }
  Writer& gpu(const std::string& cat, const std::string& name, int stream, int ts, int dur,
              int correlation, const std::string& args = "") {
    return event(
        cat, name, 0, stream, ts, dur,
        fmt::format(R"("correlation":{}{}{})", correlation, args.empty() ? "" : ",", args));
  }
  /// Adds a kernel and its launch.
  Writer& kernel(const std::string& name, int stream, int launch, int ts, int dur,
                 const std::string& args = "") {
    ++correlation_;
    host("cuda_runtime", "cudaLaunchKernel", launch, 1, correlation_);
    return gpu("kernel", name, stream, ts, dur, correlation_, args);
  }
  std::string text() const { return text_ + "]}"; }
  Trace trace(const std::string& file = "trace.json") const { return read_trace(text(), file); }

 private:
  Writer& event(const std::string& cat, const std::string& name, int pid, int tid, int ts, int dur,
                const std::string& args) {
    text_ += fmt::format(
        R"(,
{{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
        cat, name, pid, tid, ts, dur, args);
    return *this;
  }
  std::string text_;
  int correlation_ = 100;
};

std::string reduce_of(int sequence) {
  return fmt::format(
      R"("Collective name":"allreduce","In msg nelems":1000,"dtype":"Float","Group size":2,)"
      R"("Process Group Name":"0","Process Group Description":"default_pg",)"
      R"("Process Group Ranks":"[0, 1]","Seq":{})",
      sequence);
}

constexpr Picoseconds us = 1'000'000;

/// Two ranks. The second computes longer, so the first waits in the all-reduce.
std::vector<Trace> two_ranks() {
  Writer a{0, 2}, b{1, 2};
  a.host("user_annotation", "ProfilerStep#4", 0, 100)
      .kernel("gemm", 7, 1, 10, 20)
      .kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL()", 20, 2, 30, 50, reduce_of(1))
      .kernel("gemm", 7, 3, 80, 5);
  b.host("user_annotation", "ProfilerStep#4", 0, 100)
      .kernel("gemm", 7, 1, 10, 60)
      .kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL()", 20, 2, 70, 10, reduce_of(1))
      .kernel("gemm", 7, 3, 80, 5);
  return {a.trace("a"), b.trace("b")};
}

}  // namespace

TEST_CASE("a rank waits in a collective for the member that starts last") {
  Timeline timeline;
  fill(analyse(two_ranks()), timeline);
  REQUIRE(timeline.ranks().size() == 2);
  CHECK(timeline.run().tool == "PyTorch");
  REQUIRE(timeline.steps().size() == 1);
  CHECK(timeline.steps().front().step == 4);
  const StepAccount account = step_account(timeline, 4);
  REQUIRE(account.ranks.size() == 2);
  REQUIRE(account.axes == std::vector<std::string>{"default_pg"});
  // Rank 0 computes for 25 us, waits 40 us for rank 1, and then 10 us for the transfer.
  const StepSums& first = account.ranks[0].sums;
  CHECK(first.compute == 25 * us);
  CHECK(first.axes[0].late_peer == 40 * us);
  CHECK(first.axes[0].transfer == 10 * us);
  const StepSums& second = account.ranks[1].sums;
  CHECK(second.compute == 65 * us);
  CHECK(second.axes[0].late_peer == 0);
  CHECK(second.axes[0].transfer == 10 * us);
  // The wait names its peer.
  int peer = -1;
  visit_band(*timeline.ranks()[0]->compute(), Band::action, {timeline.start(), timeline.end()},
             [&](const TimelineSpan& span) {
               if (span.category == Category::wait && span.duration() == 40 * us) peer = span.peer;
             });
  CHECK(peer == 1);
}

TEST_CASE("kernels belong to the step and the action in which they were launched") {
  Writer writer{0, 1};
  writer.host("user_annotation", "ProfilerStep#0", 0, 50)
      .host("user_annotation", "PP:0F0", 1, 10)
      .kernel("gemm", 7, 2, 20, 30)
      .kernel("gemm", 7, 3, 55, 10)  // runs after the step's end on the host
      .host("user_annotation", "PP:0B0", 12, 10)
      .kernel("dgrad", 7, 13, 70, 10)
      .kernel("ncclDevKernel_SendRecv()", 20, 14, 90, 10)
      .host("user_annotation", "ProfilerStep#1", 50, 50)
      .kernel("gemm", 7, 60, 120, 10);
  Timeline timeline;
  const Import import = analyse({writer.trace()});
  REQUIRE(import.actions[0].actions.size() == 2);
  CHECK(import.actions[0].actions[0].time == Interval{20 * us, 65 * us});
  CHECK(import.actions[0].actions[1].time == Interval{70 * us, 80 * us});
  fill(import, timeline);
  REQUIRE(timeline.steps().size() == 2);
  std::map<int, Interval> steps;
  visit_band(*timeline.ranks()[0]->compute(), Band::step, {timeline.start(), timeline.end()},
             [&](const TimelineSpan& span) {
               steps[span.step] = {span.start, span.end};
             });
  CHECK(steps[0] == Interval{20 * us, 100 * us});
  CHECK(steps[1] == Interval{120 * us, 130 * us});
}

TEST_CASE("a trace without profiler steps becomes one step") {
  Writer writer{0, 1};
  writer.kernel("gemm", 7, 2, 20, 30);
  Timeline timeline;
  fill(analyse({writer.trace()}), timeline);
  REQUIRE(timeline.steps().size() == 1);
  CHECK(timeline.steps().front().step == 0);
}

TEST_CASE("traces are ordered by the rank in distributedInfo, and must be of different ranks") {
  std::vector<Trace> traces;
  for (const int rank : {3, 1}) {
    Writer writer{rank, 4};
    writer.kernel("gemm", 7, 2, 20, 30);
    traces.push_back(writer.trace(fmt::format("file{}", rank)));
  }
  const Import import = analyse(traces);
  CHECK(import.numbers == std::vector<int>{1, 3});
  CHECK(import.notes.front().starts_with("Only 2 of the run's 4 ranks are given"));
  traces.push_back(traces.front());
  CHECK_THROWS_WITH_AS(
      analyse(traces),
      "file3 and file3 are both traces of rank 3, from two runs or from two profiles of "
      "one run; give the traces of one profile",
      UsageError);
}

TEST_CASE("an argument of the wrong type counts as absent, and its event is kept") {
  const std::string good =
      Writer{0, 2}
          .host("user_annotation", "ProfilerStep#0", 0, 90)
          .host("cpu_op", "aten::mm", 3, 4)
          .kernel("ncclDevKernel_AllReduce_Sum_f32()", 20, 5, 30, 10, reduce_of(1))
          .kernel("gemm", 7, 6, 50, 10)
          .text();
  REQUIRE(read_trace(good, "good").events.size() == 6);
  for (const std::string field :
       {R"("correlation":101)", R"("In msg nelems":1000)", R"("dtype":"Float")", R"("Seq":1)",
        R"("Group size":2)", R"("Process Group Ranks":"[0, 1]")", R"("rank":0)"}) {
    for (const std::string wrong : {"null", "true", "{}", "[[]]", "-1e300", R"("text")"}) {
      CAPTURE(field);
      CAPTURE(wrong);
      std::string text = good;
      const std::size_t colon = field.find(':') + 1;
      text.replace(text.find(field) + colon, field.size() - colon, wrong);
      const Trace trace = read_trace(text, "bad");
      CHECK(trace.skipped == 0);
      CHECK(trace.events.size() == 6);
    }
  }
}

TEST_CASE("a file that is not a PyTorch trace is rejected in one line") {
  for (const char* text : {"", "[]", "{}", R"({"traceEvents":3})",
                           R"({"traceEvents":[{"ph":"X","name":"a","ts":1,"du)"}) {
    try {
      read_trace(text, "file");
      FAIL_CHECK("no error for " << text);
    } catch (const UsageError& error) {
      const std::string_view line = error.what();
      CHECK(line.starts_with("file: "));
      CHECK(line.find('\n') == std::string_view::npos);
    }
  }
  CHECK(is_kineto(R"( {"schemaVersion": 1, "traceEvents": []})"));
  CHECK_FALSE(is_kineto(R"([{"ph":"M","name":"lockstep"}])"));
}

TEST_CASE("malformed events are skipped and counted") {
  const Trace trace = read_trace(
      R"({"traceEvents":[3,{"ph":"X","name":1,"cat":2,"pid":[],"tid":{},"ts":"x","dur":null,"args":7},
      {"ph":"X","name":"a","ts":1e30,"dur":1},{"ph":"X","name":"a","ts":1,"dur":-1},
      {"ph":"X","name":"a","ts":"5","dur":"1","args":{"Input Dims":[[[[[[[[[[[[1]]]]]]]]]]]],
      "Concrete Inputs":{},"Seq":"x","Group size":-4,"Process Group Ranks":{},"correlation":[]}}]})",
      "f");
  CHECK(trace.skipped == 4);
  CHECK(trace.first_skipped == "event 1: not an object");
  REQUIRE(trace.events.size() == 1);
  Timeline timeline;
  fill(analyse({trace}), timeline);
  CHECK(timeline.span_count() > 0);
}

TEST_CASE("if a pipeline has replicas, its messages are matched within each replica") {
  // Ranks 0 and 1 are one replica, ranks 2 and 3 the other. Both have the same labels.
  std::vector<Trace> traces;
  for (int rank = 0; rank < 4; ++rank) {
    const bool first = rank % 2 == 0;
    const int late = rank < 2 ? 0 : 50;
    Writer writer{rank, 4};
    writer.host("user_annotation", "ProfilerStep#0", 0, 900)
        .host("user_annotation", first ? "PP:0SEND_F0" : "PP:1RECV_F0", 10, 5)
        .kernel("ncclDevKernel_SendRecv()", 20, 11, 20 + late, 40);
    Trace trace = writer.trace(fmt::format("file{}", rank));
    trace.groups = {
        {"0", "default_pg", 4, {0, 1, 2, 3}},
        rank < 2 ? ProcessGroup{"1", "pp", 2, {0, 1}} : ProcessGroup{"1", "pp", 2, {2, 3}}};
    traces.push_back(std::move(trace));
  }
  const Import import = analyse(traces);
  REQUIRE(import.matches.size() == 2);
  for (const Match& match : import.matches) {
    CHECK(match.by == MatchedBy::label);
    CHECK(match.members[0].rank % 2 == 0);
    CHECK(match.members[1].rank == match.members[0].rank + 1);
  }
}

TEST_CASE("the stages of a pipeline without labels are inferred from its messages") {
  // Each rank has two microbatches, which only autograd's flows and the messages show.
  const auto trace_of = [](int rank) {
    std::string events;
    int flow = 0;
    const auto add = [&](const std::string& name, int ts, int dur, const std::string& args = "") {
      events += fmt::format(R"(,
{{"ph":"X","cat":"cpu_op","name":"{}","pid":1,"tid":1,"ts":{},"dur":{},"args":{{{}}}}})",
                            name, ts, dur, args);
    };
    const auto link = [&](int forward, int backward) {
      ++flow;
      for (const auto& [phase, ts] : {std::pair{"s", forward}, std::pair{"f", backward}})
        events += fmt::format(R"(,
{{"ph":"{}","cat":"fwdbwd","name":"fwdbwd","id":{},"pid":1,"tid":1,"ts":{}}})",
                              phase, flow, ts);
    };
    const std::string peer = fmt::format(R"("Concrete Inputs":["","","{}","0"])", 1 - rank);
    if (rank == 0) {
      add("aten::linear", 10, 10), add("c10d::send", 21, 1, peer);
      add("aten::linear", 30, 10), add("c10d::send", 41, 1, peer);
      add("c10d::recv_", 60, 20, peer), add("autograd::engine", 90, 20);
      add("c10d::recv_", 120, 5, peer), add("autograd::engine", 130, 20);
      link(12, 95), link(15, 96), link(33, 135);
    } else {
      add("c10d::recv_", 2, 20, peer), add("aten::linear", 25, 10);
      add("autograd::engine", 50, 20), add("c10d::send", 72, 1, peer);
      add("c10d::recv_", 74, 1, peer), add("aten::linear", 76, 10);
      add("autograd::engine", 90, 20), add("c10d::send", 112, 1, peer);
      link(27, 55), link(78, 95);
    }
    return read_trace(
        fmt::format(
            R"({{"schemaVersion":1,"distributedInfo":{{"rank":{},"world_size":2,"pg_config":)"
            R"([{{"pg_name":"0","ranks":[0,1]}}]}},"host_name":"h","traceEvents":[)"
            R"({{"ph":"M","name":"x","pid":1,"tid":1}}{}]}})",
            rank, events),
        fmt::format("file{}", rank));
  };
  const Import import = analyse({trace_of(0), trace_of(1)});
  for (int rank = 0; rank < 2; ++rank) {
    const auto& actions = import.actions[static_cast<std::size_t>(rank)].actions;
    REQUIRE(actions.size() == 4);
    std::string order;
    for (const kineto::Action& action : actions)
      order += fmt::format("{}{}{} ", action.stage, letter_of(action.category), action.microbatch);
    CHECK(order == (rank == 0 ? "0F0 0F1 0B0 0B1 " : "1F0 1B0 1F1 1B1 "));
  }
  CHECK(import.matches.size() == 4);
  for (const Match& match : import.matches) CHECK(match.by == MatchedBy::label);
}
