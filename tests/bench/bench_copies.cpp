// Lessons 02 and 05 on the wall clock, two ranks that are threads: what data parallelism loses
// against copies that do not talk to one another, and ZeRO-3 against data parallelism.

#include "tests/bench/copies.h"
#include "tests/support/ranks.h"

namespace {

[[maybe_unused]] const bool registered = [] {
  lockstep::bench::add_copies("threads", 81, lockstep::testing::on_threads);
  return true;
}();

}  // namespace
