#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// Runs the program that reads runs (viz/read), with these arguments, and waits for it. It is in
/// the folder of this program, in one of the folders around it, or in a folder `viz` there. If it
/// is in none of them, says so in one line. Call it after MPI is finalized.
void run_reader(const std::vector<std::string>& arguments);

}  // namespace lockstep
