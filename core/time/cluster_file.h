#pragma once

#include <optional>
#include <string>

#include "core/time/cluster.h"

namespace lockstep {

/// Returns the preset with this name, or nothing. Opens no file, unlike Cluster::load().
std::optional<Cluster> cluster_preset(const std::string& name);

/// Parses the text of a cluster file. Throws UsageError if it is invalid; the message begins with
/// `where`.
Cluster parse_cluster(const std::string& text, const std::string& where);

}  // namespace lockstep
