#pragma once

#include <string>
#include <vector>

#include "viz/read/flight_recorder/stall.h"

namespace lockstep::flight {

/// Explains a stall in paragraphs. The first sentence names the ranks that all others wait for, or
/// says why there are none. The rest gives the evidence for each, calls that differ, and missing
/// dumps.
std::vector<std::string> stall_sentences(const Stall& stall);

/// Returns the rows of a table, the first one its header, of the groups in which a collective is
/// pending, or a send or receive waits for its other side; empty if there are none.
std::vector<std::vector<std::string>> group_table(const Stall& stall);

/// Returns a rank's last call, and whether it has completed.
std::string last_words(const StalledRank& rank);
/// Returns the ranks that a rank waits for directly; "-" if there are none.
std::string waits_words(const Stall& stall, int rank);

/// Returns the sentences, the table of groups, the table of ranks and the notes, for a terminal.
std::string stall_summary(const Stall& stall);

}  // namespace lockstep::flight
