// The contents of a rank's memory: the parts that Memory accounts for, and the states that it
// writes to the trace.
#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/span.h"
#include "core/device/device.h"
#include "core/trace/format.h"
#include "core/trace/recorder.h"
#include "viz/read/timeline/memory_breakdown.h"
#include "viz/read/timeline/reader.h"

using namespace lockstep;

namespace {

/// Bytes by category, kind and layer, without zeros.
using Parts = std::map<std::tuple<MemoryCategory, std::string, int>, std::int64_t>;

std::int64_t total_of(const Parts& parts) {
  std::int64_t total = 0;
  for (const auto& [part, bytes] : parts) total += bytes;
  return total;
}

Parts parts_of(const MemoryBreakdown& breakdown) {
  Parts parts;
  for (const MemoryBreakdown::Category& category : breakdown.categories) {
    std::int64_t sum = 0;
    for (const MemoryBreakdown::Kind& kind : category.kinds) {
      if (kind.outside > 0) parts[{category.category, kind.name, -1}] = kind.outside;
      for (const auto& [layer, bytes] : kind.layers)
        parts[{category.category, kind.name, layer}] = bytes;
      sum += kind.bytes;
    }
    CHECK(sum == category.bytes);
  }
  CHECK(breakdown.total() == total_of(parts));
  return parts;
}

/// Reads the events that a rank has recorded.
void read(Recorder& trace, Timeline& timeline) {
  std::string text;
  for (const TraceEvent& event : trace.drain()) append_line(text, 0, event);
  TraceReader reader{timeline};
  reader.feed(text);
  reader.finish();
  CHECK(reader.malformed() == 0);
  timeline.settle();
}

struct Fixture {
  Fixture() { memory.parts().turn_on(); }
  Clock clock{Clock::modelled(Cluster{})};
  Recorder trace;
  Memory memory{DeviceKind::meta};
  Stream compute{clock, trace, 0, DeviceKind::meta};
  Device device{memory, compute};
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a peak by hand: what a layer keeps, and a brief tensor on top") {
  Tensor weights{memory, {10}, MemoryCategory::parameters, DType::f32, "qkv"};
  std::vector<Tensor> kept;
  for (const int layer : {0, 1}) {
    const MemoryLayer scope{memory, layer};
    kept.emplace_back(memory, Shape{5}, MemoryCategory::activations, DType::f32, "MLP output");
    kept.back().call("layernorm input");
    kept.emplace_back(memory, Shape{2}, MemoryCategory::activations);
  }
  { const Tensor brief{memory, {100}, MemoryCategory::communication, DType::f32, "scratch"}; }
  kept.clear();
  trace.set_step(3);
  record_memory(device);
  memory.parts().record_peak(trace);

  Timeline timeline;
  read(trace, timeline);
  const RankTimeline& rank = *timeline.find_rank(0);
  const auto peak = peak_of_steps(rank, 0, 9);
  REQUIRE(peak);
  CHECK(peak->step == 3);
  CHECK(parts_of(memory_breakdown(timeline, rank, peak->state)) ==
        Parts{{{MemoryCategory::parameters, "qkv", -1}, 40},
              {{MemoryCategory::activations, "layernorm input", 0}, 20},
              {{MemoryCategory::activations, "layernorm input", 1}, 20},
              {{MemoryCategory::activations, "other", 0}, 8},
              {{MemoryCategory::activations, "other", 1}, 8},
              {{MemoryCategory::communication, "scratch", -1}, 400}});
  CHECK(parts_of(*memory_breakdown_at(timeline, rank, 0)) ==
        Parts{{{MemoryCategory::parameters, "qkv", -1}, 40}});
  CHECK(rank.highest_total == 496);
}

TEST_CASE("random programs: the parts add up at every sample and at every peak") {
  std::mt19937 random{5};
  const auto below = [&](int count) {
    return std::uniform_int_distribution<int>(0, count - 1)(random);
  };
  const std::vector<const char*> kinds{"qkv", "logits", "scratch", "Adam moments", nullptr};
  for (int round = 0; round < 40; ++round) {
    Fixture rank;
    struct Held {
      Tensor tensor;
      MemoryCategory category;
      std::string kind;
      int layer;
    };
    std::vector<Held> held;
    const auto now = [&] {
      Parts parts;
      for (const Held& each : held)
        if (each.tensor.bytes() > 0)
          parts[{each.category, each.kind, each.layer}] +=
              static_cast<std::int64_t>(each.tensor.bytes());
      return parts;
    };
    Parts peak;                                // of the step
    std::vector<Parts> samples, peaks, alike;  // `alike`: as high as the peak
    const auto look = [&] {
      if (Parts parts = now(); total_of(parts) > total_of(peak)) peak = std::move(parts);
    };
    for (int step = 0; step < 5; ++step) {
      rank.trace.set_step(step);
      peak = now();
      for (int i = 0; i < 60; ++i) {
        const auto category = all_memory_categories[static_cast<std::size_t>(below(5))];
        const char* const kind = kinds[static_cast<std::size_t>(below(5))];
        const int layer = below(4) - 1;
        const MemoryLayer scope{rank.memory, layer};
        const auto at = held.empty() ? 0 : static_cast<std::size_t>(below(int(held.size())));
        switch (held.empty() ? 0 : below(5)) {
          case 0:
          case 1:
            held.push_back({Tensor{rank.memory, {below(50)}, category, DType::f32, kind}, category,
                            kind != nullptr ? kind : "other", layer});
            look();
            break;
          case 2:
            held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
            break;
          case 3:
            held[at].tensor.charge_to(category, kind);
            held[at].category = category;
            if (kind != nullptr) held[at].kind = kind, held[at].layer = layer;
            break;
          default:
            held[at].tensor.call("renamed");
            held[at].kind = "renamed", held[at].layer = layer;
        }
        if (below(4) != 0) continue;
        record_memory(rank.device);
        samples.push_back(now());
      }
      peaks.push_back(peak);
      rank.memory.parts().record_peak(rank.trace);
    }

    Timeline timeline;
    read(rank.trace, timeline);
    const RankTimeline& seen = *timeline.find_rank(0);
    REQUIRE(seen.memory.size() == samples.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      std::array<std::int64_t, memory_category_count> bytes{};
      for (const auto& [part, size] : samples[i])
        bytes[static_cast<std::size_t>(std::get<0>(part))] += size;
      CHECK(seen.memory[i].bytes == bytes);
      REQUIRE(seen.memory_states.has(seen.memory[i].state));
      CHECK(parts_of(memory_breakdown(timeline, seen, seen.memory[i].state)) == samples[i]);
    }
    REQUIRE(seen.state_peaks.size() == peaks.size());
    for (std::size_t step = 0; step < peaks.size(); ++step) {
      const auto found = peak_of_steps(seen, static_cast<int>(step), static_cast<int>(step));
      REQUIRE(found);
      // A tensor that is renamed at the peak is listed under its new name.
      CHECK(seen.memory_states.total(found->state) == total_of(peaks[step]));
    }
    const auto highest = peak_of_steps(seen, 0, 4);
    CHECK(seen.memory_states.total(highest->state) == rank.memory.peak_total());
  }
}

TEST_CASE_FIXTURE(Fixture, "steps that repeat add no states, and too many states are left out") {
  const auto states = [&] {
    int count = 0;
    for (const TraceEvent& event : trace.drain())
      count += event.kind == TraceEvent::Kind::metadata &&
               std::string_view{event.span.name} == "memory state";
    return count;
  };
  for (int step = 0; step < 10; ++step) {
    for (const int size : {3, 4, 5}) {
      const Tensor kept{memory, {size}, MemoryCategory::activations, DType::f32, "qkv"};
      record_memory(device);
    }
    memory.parts().record_peak(trace);
  }
  CHECK(states() == 3);
  for (int size = 6; size <= 5000; ++size) {
    const Tensor kept{memory, {size}, MemoryCategory::activations, DType::f32, "qkv"};
    record_memory(device);
  }
  CHECK(states() <= static_cast<int>(most_memory_states / 2));
  CHECK(memory.parts().state(trace) == -1);
  // There is still room for peaks.
  const Tensor high{memory, {6000}, MemoryCategory::activations};
  memory.parts().record_peak(trace);
  CHECK(states() == 1);
}

TEST_CASE("without a trace, memory has no parts but its categories") {
  Fixture rank;
  Memory memory{DeviceKind::meta};
  const MemoryLayer scope{memory, 3};
  const Tensor tensor{memory, {3}, MemoryCategory::gradients, DType::f32, "qkv"};
  CHECK(memory.charge_of(MemoryCategory::gradients, "head").part ==
        MemoryParts::unnamed(MemoryCategory::gradients));
  CHECK(memory.parts().state(rank.trace) == -1);
}
