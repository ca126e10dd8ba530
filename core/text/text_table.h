#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/time/time.h"

namespace lockstep {

using TableRows = std::vector<std::vector<std::string>>;

/// "9999 B", "12.3 kB", "123.4 MB", "12.3 GB".
std::string human_bytes(std::int64_t bytes);
/// "12.345": milliseconds.
std::string ms(Picoseconds time);
/// "12.3 %" for 0.123.
std::string percent(double share);
/// "+12.3 %" for 0.123.
std::string signed_percent(double share);

/// Pads columns to their widest cell; the first is left-aligned, the others right-aligned.
std::string table(const TableRows& rows);

/// The largest number of columns in a table with one column per rank.
constexpr std::size_t most_columns = 16;
/// If there are more than most_columns rows, merges adjacent ones that differ only in their first
/// cell, the rank. The first row is the heading.
void join_equal_rows(TableRows& rows);

}  // namespace lockstep
