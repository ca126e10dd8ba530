#pragma once

#include <string>

#include "viz/read/report/report.h"

namespace lockstep {

/// Report::text, by Detail.
std::string brief_text(const Report& report, const Console& console);
std::string summary_text(const Report& report, const Console& console);
std::string full_text(const Report& report, const Console& console);

/// A line or two on how far the run is from the one that it is compared with, and how far it may
/// be.
std::string parity_text(const RunResults& results);

}  // namespace lockstep
