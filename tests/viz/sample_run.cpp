#include "tests/viz/sample_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lessons/08_gpipe/gpipe.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/10_interleaved/interleaved.h"
#include "viz/read/timeline/reader.h"

namespace lockstep {
namespace {

std::string microseconds(Picoseconds time) {
  return fmt::format("{}.{:06}", time / 1'000'000, time % 1'000'000);
}

/// A rank's file under construction, with lines in the order in which their contents become known.
struct File {
  int rank = 0;
  int spans = 0;
  std::vector<std::pair<Picoseconds, std::string>> lines;

  void span(int tid, const std::string& name, const char* cat, Picoseconds start, Picoseconds end,
            const std::string& args) {
    lines.emplace_back(
        end,
        fmt::format("{{\"ph\":\"X\",\"name\":\"{}\",\"cat\":\"{}\",\"pid\":{},\"tid\":{},"
                    "\"ts\":{},\"dur\":{},\"args\":{{{}}}}},\n",
                    name, cat, rank, tid, microseconds(start), microseconds(end - start), args));
    ++spans;
  }
  void flow(char phase, int tid, std::size_t id, Picoseconds at) {
    lines.emplace_back(
        at,
        fmt::format("{{\"ph\":\"{}\",{}\"name\":\"message\",\"cat\":\"communication\",\"id\":{},"
                    "\"pid\":{},\"tid\":{},\"ts\":{}}},\n",
                    phase, phase == 'f' ? "\"bp\":\"e\"," : "", id, rank, tid, microseconds(at)));
  }
  void memory(Picoseconds at, std::int64_t parameters, std::int64_t activations) {
    lines.emplace_back(
        at, fmt::format("{{\"ph\":\"C\",\"name\":\"memory\",\"pid\":{},\"ts\":{},\"args\":{{"
                        "\"parameters\":{},\"gradients\":{},\"optimizer\":{},\"activations\":{},"
                        "\"communication\":{}}}}},\n",
                        rank, microseconds(at), parameters, parameters, 2 * parameters, activations,
                        activations / 24));
  }
};

/// Lane 0 is compute; lanes 1 and 2 send and receive activations, lanes 3 and 4 gradients.
int send_lane(bool forward) {
  return forward ? 1 : 3;
}

}  // namespace

SampleRun sample_1f1b(int stages, int microbatches, int steps) {
  SampleRun run;
  run.schedule = one_f_one_b(stages, microbatches);
  run.times.stages.assign(static_cast<std::size_t>(stages),
                          {1'000'000'000, 2'000'000'000, 1'000'000'000, 1'000'000'000});
  run.times.boundary_bytes = 16384;
  run.times.cluster.within = {5e-5, 2e8};
  run.steps = steps;
  return run;
}

SampleRun sample_gpipe(int stages, int microbatches, int steps) {
  SampleRun run = sample_1f1b(stages, microbatches, steps);
  run.schedule = gpipe(stages, microbatches);
  run.run = "20260101-120000-08";
  run.lesson = "08 GPipe";
  run.name = "GPipe";
  return run;
}

SampleRun sample_interleaved(int ranks, int chunks, int microbatches, int steps) {
  SampleRun run = sample_1f1b(ranks, microbatches, steps);
  run.schedule = interleaved_1f1b(ranks, chunks, microbatches);
  const Picoseconds part = 1'000'000'000 / chunks;
  run.times.stages.assign(static_cast<std::size_t>(ranks * chunks), {part, 2 * part, part, part});
  run.chunks = chunks;
  run.run = "20260101-120000-10";
  run.lesson = "10 interleaved";
  run.name = "interleaved 1F1B";
  return run;
}

std::string sample_hello(const SampleRun& run, int rank, const std::string& token) {
  const int p = run.schedule.stages, m = run.schedule.microbatches;
  return fmt::format(
      "{{\"ph\":\"M\",\"name\":\"lockstep\",\"pid\":{0},\"tid\":0,\"args\":{{\"format\":1,\"run\":"
      "\"{1}\",\"lesson\":\"{2}\",\"rank\":{0},\"ranks\":{3},\"mesh\":{{\"pp\":{3}}},\"device\":"
      "\"cpu\",\"launch\":\"threads\",\"clock\":\"{4}\",\"cluster\":\"{5}\",\"clock_offset_ns\":{6}"
      ","
      "\"clock_uncertainty_ns\":0,\"predicted\":{{\"bubble\":{7:.6f},\"formula\":\"(p-1)/(m+p-1)\","
      "\"schedule\":\"{11}\",\"stages\":{8},\"microbatches\":{9}}}{10}}}}},\n",
      rank, run.run, run.lesson, run.schedule.ranks, run.clock, run.cluster, run.clock_offset_ns,
      static_cast<double>(p - 1) / (m + p - 1), p, m,
      token.empty() ? "" : fmt::format(",\"token\":\"{}\"", token), run.name);
}

std::vector<std::string> sample_traces(const SampleRun& run) {
  const Simulation simulation = simulate(run.schedule, run.times, true);
  const int ranks = run.schedule.ranks;
  std::vector<File> files(static_cast<std::size_t>(ranks));
  Picoseconds begin = 0;
  std::vector<Picoseconds> step_begins(files.size(), 0);  // a rank's step follows its previous one
  std::size_t flow = 0;
  for (int step = 0; step < run.steps; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      File& file = files[r];
      file.rank = rank;
      const std::int64_t parameters = 400'000 - 20'000 * rank;
      std::int64_t live = 0;
      Picoseconds free = step_begins[r];
      for (std::size_t i = 0; i < run.schedule.actions[r].size(); ++i) {
        const Action& action = run.schedule.actions[r][i];
        const Picoseconds start = begin + simulation.actions[r][i].start;
        const Picoseconds end = begin + simulation.actions[r][i].end;
        const bool forward = action.op == Op::forward;
        const std::string args = fmt::format("\"step\":{},\"stage\":{},\"microbatch\":{}", step,
                                             action.stage, action.microbatch);
        if (start > free) {
          file.span(0, "recv", "wait", free, start,
                    args + fmt::format(",\"peer\":{}", forward ? rank - 1 : rank + 1));
        }
        file.memory(start, parameters, live + (forward ? 260'000 : 30'000));
        file.span(0, "PP:" + to_string(action), name_of(category(action.op)), start, end, args);
        live += (forward ? 250'000 : -250'000) / run.chunks;
        file.memory(end, parameters, live);
        free = end;
      }
      const std::string args = fmt::format("\"step\":{}", step);
      file.span(0, "AdamW", "optimizer", free, free + run.optimizer, args);
      file.span(0, "step", "step", step_begins[r], free + run.optimizer, args);
      step_begins[r] = free + run.optimizer;
    }
    for (const TimedMessage& message : simulation.messages) {
      File& from = files[static_cast<std::size_t>(message.from_rank)];
      File& to = files[static_cast<std::size_t>(message.to_rank)];
      const int lane = send_lane(message.forward);
      const auto args = [&](int stage, int peer) {
        return fmt::format("\"step\":{},\"stage\":{},\"microbatch\":{},\"bytes\":{},\"peer\":{}",
                           step, stage, message.microbatch, run.times.boundary_bytes, peer);
      };
      from.span(lane, "send", "communication", begin + message.start, begin + message.sent,
                args(message.stage, message.to_rank));
      to.span(lane + 1, "recv", "communication",
              begin + message.arrived - (message.sent - message.start), begin + message.arrived,
              args(message.stage + (message.forward ? 1 : -1), message.from_rank));
      from.flow('s', lane, ++flow, begin + message.start);
      to.flow('f', lane + 1, flow, begin + message.arrived);
    }
    const Picoseconds end = begin + simulation.makespan;
    files.back().lines.emplace_back(
        end,
        fmt::format("{{\"ph\":\"C\",\"name\":\"loss\",\"pid\":{},\"ts\":{},\"args\":{{\"loss\":"
                    "{:.4f}}}}},\n",
                    ranks - 1, microseconds(end),
                    5.545 * std::exp(-0.02 * step) + 0.03 * std::sin(3.0 * step)));
    begin = end + run.optimizer;
  }

  std::vector<std::string> traces;
  for (File& file : files) {
    std::stable_sort(file.lines.begin(), file.lines.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::string text = "[\n" + sample_hello(run, file.rank);
    text += fmt::format(
        "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{0},\"args\":{{\"name\":\"rank "
        "{0}\"}}}},\n",
        file.rank);
    const auto name_lane = [&](int tid, const std::string& name) {
      text += fmt::format(
          "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{}"
          "\"}}"
          "}},\n",
          file.rank, tid, name);
    };
    name_lane(0, "compute");
    if (file.rank + 1 < ranks) {
      name_lane(1, fmt::format("send activations → {}", file.rank + 1));
      name_lane(4, fmt::format("receive gradients ← {}", file.rank + 1));
    }
    if (file.rank > 0) {
      name_lane(2, fmt::format("receive activations ← {}", file.rank - 1));
      name_lane(3, fmt::format("send gradients → {}", file.rank - 1));
    }
    for (const auto& line : file.lines) text += line.second;
    text += fmt::format(
        "{{\"ph\":\"i\",\"name\":\"end\",\"s\":\"p\",\"pid\":{},\"ts\":{},\"args\":{{\"spans\":{}}}"
        "}},\n",
        file.rank, microseconds(begin), file.spans);
    traces.push_back(std::move(text));
  }
  return traces;
}

void read_sample(const std::vector<std::string>& traces, Timeline& timeline) {
  for (const std::string& text : traces) {
    TraceReader reader{timeline};
    reader.feed(text);
    reader.finish();
  }
  timeline.settle();
}

}  // namespace lockstep
