#pragma once

#include <string>

#include "lessons/17_choosing/plan/search.h"

namespace lockstep {

/// Says why a search has found nothing, and names the nearest plan that works: with another batch,
/// with fewer sizes fixed, or on more GPUs.
std::string why_impossible(const TrainingTask& task, const SearchSpace& space,
                           const SearchResult& found);

}  // namespace lockstep
