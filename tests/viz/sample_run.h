#pragma once

#include <string>
#include <vector>

#include "core/pipeline/simulator.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep {

/// A fictitious run: traces as ranks would write them, generated from a simulated schedule.
struct SampleRun {
  Schedule schedule;
  PipelineTimes times;
  int steps = 6;
  int chunks = 1;  ///< of each rank; they share its activations equally
  Picoseconds optimizer = 2'000'000'000;
  std::string run = "20260101-120000-09";
  std::string lesson = "09 1F1B";
  std::string name = "1f1b";  ///< of the schedule
  std::string clock = "modelled";
  std::string cluster = "classroom";
  std::int64_t clock_offset_ns = 0;
};

/// Simulates 1F1B on `stages` ranks, with 1 ms per forward and 2 ms per backward.
SampleRun sample_1f1b(int stages = 4, int microbatches = 8, int steps = 6);

/// The same run in GPipe's order: all forwards before all backwards.
SampleRun sample_gpipe(int stages = 4, int microbatches = 8, int steps = 6);

/// The same run with interleaved 1F1B: the same work in `chunks` chunks per rank.
SampleRun sample_interleaved(int ranks = 4, int chunks = 2, int microbatches = 8, int steps = 6);

/// Returns the line of the first event in a rank's trace. Pass `token` for a trace sent to a
/// viewer.
std::string sample_hello(const SampleRun& run, int rank, const std::string& token = "");

/// Returns the text of each rank's file. Steps are consecutive, and each rank's `end` event counts
/// its spans.
std::vector<std::string> sample_traces(const SampleRun& run);

/// Reads each rank's trace into `timeline`, as from files.
void read_sample(const std::vector<std::string>& traces, Timeline& timeline);

constexpr Picoseconds ms = 1'000'000'000;
constexpr Picoseconds us = 1'000'000;

}  // namespace lockstep
