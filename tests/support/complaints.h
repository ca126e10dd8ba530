#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"

namespace lockstep::testing {

/// Returns the message of the Error that `work` throws, or "(nothing thrown)".
template <class Error, class Work>
std::string complaint_of(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "(nothing thrown)";
}

/// Checks that a message is one line containing all of these words. Returns a description of any
/// error, or "".
inline std::string unlike(const std::string& complaint, const std::vector<std::string>& words) {
  if (complaint == "(nothing thrown)" || complaint.empty()) return "no complaint";
  if (complaint.find('\n') != std::string::npos) return "not one line: " + complaint;
  for (const std::string& word : words)
    if (complaint.find(word) == std::string::npos) return "no '" + word + "' in: " + complaint;
  return "";
}

}  // namespace lockstep::testing
