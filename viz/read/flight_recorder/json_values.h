#pragma once

#include <string>

#include "viz/read/flight_recorder/values.h"

namespace lockstep::flight {

/// Reads a JSON document into the same kinds of values as read_pickle(). Throws DumpError.
Document read_json(std::string_view content);

}  // namespace lockstep::flight
