#include "core/comm/environment.h"

#include <cstdlib>

namespace lockstep {

namespace {

int number(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::atoi(value) : otherwise;
}

}  // namespace

bool under_mpi() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
}
int mpi_rank_from_environment() {
  return number("OMPI_COMM_WORLD_RANK", 0);
}
int mpi_size_from_environment() {
  return number("OMPI_COMM_WORLD_SIZE", 1);
}

}  // namespace lockstep
