#pragma once

#include <fmt/format.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <limits>
#include <string>

#include "core/base/error.h"

namespace lockstep {

/// Throws RunError, naming the call, MPI's error and the rank, unless `status` is MPI_SUCCESS.
inline void check_mpi(int status, const char* call, int rank) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw RunError(fmt::format("rank {}: {}: {}", rank, call,
                             std::string(text, static_cast<std::size_t>(length))));
}

/// Converts a number of bytes or elements to the int that MPI takes; throws RunError if it does not
/// fit.
inline int mpi_count(std::size_t size) {
  if (size > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw RunError(
        fmt::format("a message of {} bytes or elements: MPI takes at most 2147483647", size));
  return static_cast<int>(size);
}

}  // namespace lockstep
