#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exercises/command/exercises.h"

namespace lockstep::exercises {

/// The folders and the command with which this program works.
struct Place {
  std::filesystem::path root;   ///< the source tree
  std::filesystem::path build;  ///< the build folder
  std::string command;          ///< ./lockstep as the user calls it

  std::filesystem::path lockstep() const { return root / "lockstep"; }
  std::filesystem::path answers() const { return build / "answers"; }  ///< notes about answers
};

/// Builds the learner's answer with ./lockstep. Prints the first error and returns false if the
/// answer does not compile. Exits if anything else fails.
bool build_answer(const Place& place, const Exercise& exercise, bool on_gpu);

/// Has the built answer judged by exercises/supervise, which prints the verdict, and returns its
/// exit code (report.h).
int judge(const Place& place, const Exercise& exercise, int seconds,
          const std::vector<std::string>& flags);

}  // namespace lockstep::exercises
