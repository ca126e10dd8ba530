#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "viz/data/step/straggler.h"

namespace lockstep::viz {

/// Where one rank's time went, over all steps. For a trace of a GPU, the terms are those of
/// HolisticTraceAnalysis (hta/analyzers/breakdown_analysis.py and communication_analysis.py): a
/// kernel computes, communicates or copies; overlapping kernels of a kind count once.
struct RankSummary {
  int rank = 0;
  Picoseconds window = 0;  ///< from the first start to the last end of work on the device
  Picoseconds compute = 0;
  Picoseconds communication = 0;
  Picoseconds hidden = 0;  ///< communication while the rank computes
  Picoseconds copy = 0;    ///< copies and memsets, while nothing else runs
  Picoseconds idle = 0;    ///< nothing runs
  Picoseconds bubble = 0;  ///< of the windows of the steps' pipeline actions: no action runs
  std::map<int, Picoseconds> waits;  ///< exposed waits, by the rank that was waited for
  std::string actions;               ///< the first step's pipeline actions in order: "0F0,0F1,0B0"

  Picoseconds exposed() const { return communication - hidden; }
};

/// All kernels with one name; without a GPU, operators that no other operator called.
struct KernelSummary {
  std::string name;
  std::int64_t count = 0;
  Picoseconds total = 0;
};

/// All collectives of one kind in one process group, or all messages.
struct CollectiveSummary {
  std::string group;
  std::string name;
  int group_size = -1;
  std::int64_t count = 0;  ///< over all ranks
  std::int64_t bytes = 0;  ///< that the ranks contribute; -1: unknown
  Picoseconds total = 0;
  Picoseconds late = 0;  ///< of `total`: before the last member started
  /// Bytes per second and rank from the last member's start to the end; none if unknown.
  std::optional<double> bandwidth() const;
};

/// What `./lockstep view --summary` prints.
struct Summary {
  RunInfo run;
  std::vector<int> steps;
  std::vector<RankSummary> ranks;
  std::vector<KernelSummary> kernels;          ///< the longest total first
  std::vector<CollectiveSummary> collectives;  ///< the longest total first
  std::optional<double> bubble;                ///< the mean of the steps' bubbles
  std::optional<Awaited> awaited;              ///< over all steps
  std::optional<Straggler> straggler;          ///< of the last step
  std::map<int, Picoseconds> moved;            ///< by rank: how far its clock was moved
  std::map<int, double> drift;                 ///< by rank: of its clock, in seconds per second
};

Summary summarise(const Timeline& timeline);
/// The summary as tables for a terminal.
std::string summary_text(const Summary& summary);
/// The summary as JSON; times in seconds.
std::string summary_json(const Summary& summary);

}  // namespace lockstep::viz
