#pragma once

#include <string>

#include "viz/data/window/model.h"

namespace lockstep::viz {

/// Returns the name of the selected span, the chosen name of the selected range or, without a
/// selection, the name of the span under the cursor; "" if there is none.
std::string copied_name(const Model& model);

/// Returns the values of the selection as text: for a span, the lines of its card; for a range, its
/// statistics by name as a tab-separated table. "" if nothing is selected.
std::string copied_values(const Model& model);

}  // namespace lockstep::viz
