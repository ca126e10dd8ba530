// Prints the names of all claims, which tests/explain/campaign proves.

#include <fmt/format.h>

#include "viz/read/explain/sentence.h"

int main() {
  for (int i = 0; i < lockstep::claim_count; ++i)
    fmt::print("{}\n", name_of(static_cast<lockstep::Claim>(i)));
}
