#pragma once

#include <string>

#include "core/flight_recorder/pickle.h"

namespace lockstep::flight {

/// Reads a JSON document as the same kind of values as a pickle's. Throws DumpError.
Pickle read_json(std::string content);

}  // namespace lockstep::flight
