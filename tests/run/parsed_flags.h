#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/run/lesson.h"
#include "core/run/options/flag_parser.h"
#include "tests/support/complaints.h"

namespace lockstep::testing {

/// The description as Lesson completes it.
inline LessonInfo that_trains(LessonInfo info) {
  info.training = &model_training;
  return info;
}

inline const LessonInfo pipeline_lesson = that_trains({.name = "09 1F1B", .question = "?"});
inline const LessonInfo tensor_lesson =
    that_trains({.name = "06 tensor parallel", .question = "?", .axes = {Axis::tp}});

inline std::unique_ptr<Options> parse(const std::vector<std::string>& flags,
                                      const LessonInfo& info = pipeline_lesson) {
  FlagParser parser{that_trains(info)};
  std::vector<const char*> words{"lesson"};
  for (const std::string& flag : flags) words.push_back(flag.c_str());
  return parser.parse(static_cast<int>(words.size()), words.data());
}

/// Returns the line with which a lesson refuses these flags.
inline std::string refusal(const std::vector<std::string>& flags,
                           const LessonInfo& info = pipeline_lesson) {
  return complaint_of<UsageError>([&] { parse(flags, info); });
}

struct Wrong {
  std::vector<std::string> flags;
  std::vector<std::string> words;  ///< the flag, its value, and a valid alternative
};

}  // namespace lockstep::testing
