// Prints every span of a run's operations as a replay times them, one per line: the rank, a
// description, and the start and end in picoseconds. check.py compares these lines with a trace.
//
// Also prints a line that no trace contains if a step's critical path is not a chain of such spans.
//
//   replay_spans OPERATIONS [TIMED_AS]
//
// TIMED_AS are the operations of another run, whose cluster, fixed times and slow ranks are used.

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/error.h"
#include "core/operations/operations_file.h"
#include "core/replay/critical_path.h"
#include "core/replay/replay.h"

using namespace lockstep;

namespace {

std::set<std::tuple<int, std::string, Picoseconds, Picoseconds>> printed;

void print(int rank, const char* what, Picoseconds start, Picoseconds end) {
  printed.emplace(rank, what, start, end);
  std::printf("%d %s %lld %lld\n", rank, what, static_cast<long long>(start),
              static_cast<long long>(end));
}

/// Whether a rank was in an earlier step at this time.
bool is_earlier(const Replay& replay, int rank, int step, Picoseconds time) {
  const auto& sections = replay.run().ranks[static_cast<std::size_t>(rank)].sections;
  for (std::size_t i = 0; i < sections.size(); ++i)
    if (const Passage section = replay.section(rank, i);
        sections[i].step >= 0 && sections[i].step < step && section.start <= time &&
        time <= section.end)
      return true;
  return false;
}

/// Whether the path runs from a rank's start of the step, or from a message that was sent in an
/// earlier step, to the last rank's end without a gap, and whether its compute and its transfers
/// are spans.
bool is_chain(const std::vector<PathPart>& path, const Replay& replay, int step) {
  bool starts = false;
  Picoseconds end = 0;
  const RunOperations& run = replay.run();
  for (int rank = 0; rank < static_cast<int>(run.ranks.size()); ++rank)
    for (std::size_t i = 0; i < run.ranks[static_cast<std::size_t>(rank)].sections.size(); ++i)
      if (run.ranks[static_cast<std::size_t>(rank)].sections[i].step == step) {
        const Passage section = replay.section(rank, i);
        starts = starts || path.empty() || section.start == path.front().start;
        end = std::max(end, section.end);
      }
  if (!starts && path.front().kind != PathPart::Kind::compute)
    starts = is_earlier(replay, path.front().rank, step, path.front().start);
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto& [kind, rank, to, operation, axis, from, until] = path[i];
    if ((kind == PathPart::Kind::compute) != std::string{axis}.empty()) return false;
    if (i > 0 && from != path[i - 1].end) return false;
    if (kind == PathPart::Kind::latency) continue;
    const bool fixed = operation->kind == RecordedOperation::Kind::end;
    if (kind == PathPart::Kind::compute && !fixed &&
        !printed.contains({rank, "kernel", from, until}))
      return false;
    if (kind == PathPart::Kind::transfer && !printed.contains({rank, "send", from, until}) &&
        !printed.contains({to, "receive", from, until}))
      return false;
  }
  return starts && (path.empty() || path.back().end == end);
}

void print_all(const RunOperations& run, const Scenario& scenario) {
  const Replay replay{run, scenario};
  for (int rank = 0; rank < static_cast<int>(run.ranks.size()); ++rank) {
    std::vector<Picoseconds> begins;
    for (std::size_t i = 0; i < run.ranks[static_cast<std::size_t>(rank)].sections.size(); ++i) {
      replay.visit(rank, i, [&](const Replay::Timed& each) {
        switch (each.operation.kind) {
          case RecordedOperation::Kind::kernel:
            return print(rank, "kernel", each.start, each.end);
          case RecordedOperation::Kind::begin:
            return begins.push_back(each.start);
          case RecordedOperation::Kind::end:
            print(rank, name_of(each.operation.category), begins.back(), each.end);
            return begins.pop_back();
          case RecordedOperation::Kind::send:
            return print(rank, "send", each.start, each.end);
          case RecordedOperation::Kind::receive:
            return print(rank, "receive", each.start, each.end);
          case RecordedOperation::Kind::wait:
          case RecordedOperation::Kind::together:
            return each.end > each.start ? print(rank, "wait", each.start, each.end) : void();
          case RecordedOperation::Kind::collective:
            for (const Replay::Exchange& member : replay.expand(rank, each.issued))
              for (std::size_t k = 0; member.rank == rank && k < member.steps.size(); ++k)
                print(rank, member.steps[k].direction == Direction::send ? "send" : "receive",
                      member.passages[k].start, member.passages[k].end);
        }
      });
      const auto [start, end] = replay.section(rank, i);
      if (run.ranks[static_cast<std::size_t>(rank)].sections[i].step >= 0)
        print(rank, "step", start, end);
    }
  }
  for (int step = 0; step <= replay.last_step(); ++step)
    if (!is_chain(critical_path(replay, step), replay, step)) print(0, "no-chain", step, step);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const RunOperations run = read_operations(argv[1]);
    print_all(run, Scenario{argc > 2 ? read_operations(argv[2]).modelled : run.modelled});
  } catch (const UsageError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
