// ./lockstep goodput: how much of its time does a job keep, if ranks die?

#include "core/base/program.h"
#include "lessons/20_when_ranks_die/goodput/published.h"
#include "lessons/20_when_ranks_die/goodput/tables.h"

using namespace lockstep;

namespace {

int goodput(int argc, char** argv) {
  const auto request = parse_goodput(argc, argv);
  if (!request) return 0;
  if (request->published == "llama3") {
    print_llama3();
  } else if (request->published == "torchpass") {
    print_torchpass(*request);
  } else if (!request->strategy) {
    print_strategies(*request);
  } else if (request->ranks.size() == 1) {
    print_intervals(*request);
  } else {
    print_ranks(*request);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program([&] { return goodput(argc, argv); });
}
