#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "core/pipeline/csv.h"
#include "core/pipeline/validate.h"
#include "lessons/schedules/registry.h"

// Compares the lessons' schedules with those of PyTorch's public classes, which
// tests/golden/make_schedules.py writes.

using namespace lockstep;

namespace {

const std::filesystem::path folder = LOCKSTEP_SOURCE_DIR "/tests/golden/schedules";

struct Golden {
  std::string torch_class;
  PipelineSize size;
  Schedule schedule;
};

/// Reads the files CLASS_p{ranks}_v{chunks}_m{microbatches}.csv.
std::vector<Golden> golden_schedules() {
  std::vector<Golden> all;
  for (const auto& entry : std::filesystem::directory_iterator{folder}) {
    if (!entry.is_regular_file()) continue;
    const std::string stem = entry.path().stem().string();
    std::ifstream file{entry.path()};
    std::stringstream text;
    text << file.rdbuf();
    Golden& golden = all.emplace_back();
    const auto sizes = stem.find("_p");
    golden.torch_class = stem.substr(0, sizes);
    auto& [p, v, m] = golden.size;
    REQUIRE(std::sscanf(stem.c_str() + sizes, "_p%d_v%d_m%d", &p, &v, &m) == 3);
    golden.schedule = schedule_from_csv(text.str(), stem);
  }
  return all;
}

/// Reverses each stage's backward passes, which PyTorch's breadth-first schedule runs in descending
/// order.
Schedule with_ascending_backwards(Schedule schedule) {
  for (auto& row : schedule.actions)
    for (Action& action : row)
      if (action.op == Op::backward)
        action.microbatch = schedule.microbatches - 1 - action.microbatch;
  return schedule;
}

}  // namespace

TEST_CASE("the schedules equal PyTorch's, action for action") {
  const std::map<std::string, std::string_view> ours{{"ScheduleLoopedBFS", "breadth-first"},
                                                     {"ScheduleInterleaved1F1B", "interleaved"},
                                                     {"ScheduleInterleavedZeroBubble", "zb-h1"},
                                                     {"ScheduleZBVZeroBubble", "zb-v"},
                                                     {"ScheduleDualPipeV", "dualpipe-v"}};
  std::map<std::string, int> compared;
  for (const auto& [torch_class, size, theirs] : golden_schedules()) {
    if (!ours.contains(torch_class)) continue;
    CAPTURE(theirs.name);
    REQUIRE_NOTHROW(validate(theirs));
    const KnownSchedule& known = *find_schedule(ours.at(torch_class));
    REQUIRE(refusal(known, size) == "");
    const Schedule mine = known.generate(size);
    CHECK(mine.rank_of_stage == theirs.rank_of_stage);
    const bool descending = torch_class == "ScheduleLoopedBFS";
    CHECK(mine.actions == (descending ? with_ascending_backwards(theirs) : theirs).actions);
    ++compared[torch_class];
  }
  for (const auto& [torch_class, word] : ours) CHECK(compared[torch_class] > 3);
}
