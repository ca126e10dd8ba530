#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/model/data.h"
#include "tests/support/bytes.h"
#include "tests/support/ranks.h"

/// Runs the same program on the CPU and on the meta device, both on the modelled clock. Times,
/// bytes, memory peaks and traces must be equal.
namespace lockstep::testing {

inline Options on_meta(Options options) {
  options.platform.device = "meta";
  return options;
}

/// One rank's observations in a run.
struct Seen {
  std::vector<Picoseconds> times;  ///< as recorded by the program
  BytesSent bytes_sent;
  MemoryUse peak, left;
  std::int64_t peak_total = 0;
  std::map<std::string, std::vector<std::string>> events;  ///< by lane, in order
};

/// Formats an event without its lane number, which depends on the order in which lanes were opened.
inline std::string in_words(const TraceEvent& event) {
  const Span& span = event.span;
  const auto text = [](const char* word) { return word != nullptr ? word : "-"; };
  switch (event.kind) {
    case TraceEvent::Kind::span:
      return fmt::format(
          "{} ({}) {}..{} step {} stage {} microbatch {} layer {} peer {} bytes {} sequence {} "
          "group {}/{} {}, message {} {} {}",
          text(span.name), name_of(span.category), event.start, event.end, event.step, span.stage,
          span.microbatch, span.layer, span.peer, span.bytes, span.sequence, text(span.group),
          span.group_size, text(span.algorithm), static_cast<int>(span.role), span.message,
          static_cast<int>(span.payload));
    case TraceEvent::Kind::memory:
      return fmt::format("memory {} at {}", fmt::join(event.bytes, ","), event.start);
    default:
      return fmt::format("kind {} {} at {}", static_cast<int>(event.kind),
                         event.kind == TraceEvent::Kind::metadata ? *event.text : "", event.start);
  }
}

/// Records the current time of the calling rank's program.
using Note = std::function<void()>;

/// Runs `body` on every rank and returns each rank's observations; `failure` receives the run's
/// error.
inline std::vector<Seen> seen_by_all(const Options& options,
                                     const std::function<void(Rank&, const Note&)>& body,
                                     std::string& failure) {
  ThreadRun run{options};
  std::vector<Seen> all(run.ranks.size());
  failure = run([&](Rank& rank) {
    Seen& seen = all[static_cast<std::size_t>(rank.id)];
    body(rank, [&] { seen.times.push_back(rank.compute.now()); });
    seen.times.push_back(rank.compute.now());
    seen.bytes_sent = rank.transport->bytes_sent();
    seen.peak = rank.memory.peak();
    seen.left = rank.memory.current();
    seen.peak_total = rank.memory.peak_total();
  });
  for (const auto& rank : run.ranks) {
    const auto lanes = rank->trace.lanes();
    for (const TraceEvent& event : rank->trace.drain())
      all[static_cast<std::size_t>(rank->id)]
          .events[lanes[static_cast<std::size_t>(event.lane)]]
          .push_back(in_words(event));
  }
  return all;
}

/// Returns the first difference between one rank's observations in two runs, or "".
inline std::string difference(const Seen& cpu, const Seen& meta) {
  if (cpu.times != meta.times)
    return fmt::format("times {} and {}", fmt::join(cpu.times, " "), fmt::join(meta.times, " "));
  if (cpu.bytes_sent != meta.bytes_sent)
    return fmt::format("bytes {} and {}", text_of(cpu.bytes_sent), text_of(meta.bytes_sent));
  if (cpu.peak.bytes != meta.peak.bytes || cpu.peak_total != meta.peak_total)
    return fmt::format("peaks {} and {}", fmt::join(cpu.peak.bytes, " "),
                       fmt::join(meta.peak.bytes, " "));
  if (cpu.left.bytes != meta.left.bytes) return "memory is left";
  for (const auto* each : {&cpu, &meta})
    for (const auto& [lane, events] : each->events) {
      const auto mine = cpu.events.find(lane);
      const auto theirs = meta.events.find(lane);
      if (mine == cpu.events.end() || theirs == meta.events.end())
        return "only one of them has a lane " + lane;
      for (std::size_t i = 0; i < std::max(mine->second.size(), theirs->second.size()); ++i) {
        const std::string a = i < mine->second.size() ? mine->second[i] : "nothing";
        const std::string b = i < theirs->second.size() ? theirs->second[i] : "nothing";
        if (a != b) return fmt::format("event {} on {}:\n  {}\n  {}", i, lane, a, b);
      }
    }
  return "";
}

/// Returns the difference between a run on the meta device and the same run on the CPU, or "".
inline std::string cpu_against_meta(const Options& options,
                                    const std::function<void(Rank&, const Note&)>& body) {
  std::string on_cpu, on_device;
  const std::vector<Seen> cpu = seen_by_all(options, body, on_cpu);
  const std::vector<Seen> meta = seen_by_all(on_meta(options), body, on_device);
  if (on_cpu != "" || on_device != "") return on_cpu + on_device;
  for (std::size_t rank = 0; rank < cpu.size(); ++rank)
    if (const std::string what = difference(cpu[rank], meta[rank]); what != "")
      return fmt::format("rank {}: {}", rank, what);
  return "";
}

/// Does the same for the steps of a `Training{rank, options, chosen...}`, which has a
/// backward(corpus, step) and an update().
template <class Training, class... Chosen>
std::string training_against_meta(const Options& options, const Corpus& corpus,
                                  const Chosen&... chosen) {
  return cpu_against_meta(options, [&](Rank& rank, const Note& note) {
    Training training{rank, options, chosen...};
    for (int step = 0; step < options.run.steps; ++step) {
      rank.trace.set_step(step);
      training.backward(corpus, step);
      note();
      training.update();
      note();
    }
  });
}

}  // namespace lockstep::testing
