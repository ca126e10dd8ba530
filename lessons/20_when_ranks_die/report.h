#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "core/run/lesson.h"
#include "lessons/20_when_ranks_die/lighthouse.h"

namespace lockstep {

/// Prints what the ranks have survived, in order, and adds it to the report as results.survived.
inline void report_survival(Lesson& lesson, const Rank& rank,
                            const std::vector<Lighthouse::Event>& events) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [step, text] : events) list.push_back({{"step", step}, {"what", text}});
  lesson.add_to_report(rank, "survived", list.dump());
  if (events.empty() || lesson.options().output.quiet) return;
  fmt::print("what the ranks survived\n");
  for (const auto& [step, text] : events) fmt::print("  step {:>3}: {}\n", step, text);
}

}  // namespace lockstep
