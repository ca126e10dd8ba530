#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/run/options/options.h"

namespace lockstep {

/// What the flags say before it is known whether that can be done.
struct Given {
  std::string microbatches;
  std::string clock = "auto";
  std::string comm = "auto";
  std::string launch = "threads";
  std::string time;
  std::string precision = "f32";
  std::string parity = "on";
  std::string freeze;
  std::optional<int> ranks, dp, pp, cp, tp, ep;
  double pace = 0;
  double learning_rate = 1e-3;
  double clip = 0;
};

/// Digits and nothing else, up to a number that can be multiplied by another.
std::optional<int> whole_number(const std::string& text, int least);

/// Numbers of at least `least` with commas between; throws UsageError, which names the flag.
std::vector<int> number_list(const std::string& flag, const std::string& text, int least);

/// Makes Options of what was given, where they depend on one another: ranks and mesh, the clock,
/// the sweep. Throws UsageError, one line, for what can't be done.
void settle(const Given& given, const LessonInfo& info, Options& options);

}  // namespace lockstep
