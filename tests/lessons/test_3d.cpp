#include <doctest/doctest.h>

#include "tests/support/mesh_checks.h"
#include "tests/support/meta_checks.h"

// Data, pipeline and tensor parallelism on one mesh, with ranks as threads. tests/mpi runs the same
// checks with ranks as processes.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Checks a run against one device, and against a second run, which must have the same bits.
void check_twice(const Options& options) {
  Outcome outcomes[2];
  for (Outcome& outcome : outcomes)
    CHECK(on_all(options, [&](Rank& rank) {
            return check_mesh(rank, options, rank.id == 0 ? &outcome : nullptr);
          }) == "");
  CHECK(compare(outcomes[0].losses, outcomes[0].parameters,
                {outcomes[1].losses, outcomes[1].parameters})
            .bitwise);
}

constexpr MeshShape shapes[] = {{2, 2, 2}, {1, 2, 4}, {4, 1, 2}, {2, 4, 1}};

}  // namespace

TEST_CASE("dp x pp x tp: near one device, bytes and memory as derived, repeatable") {
  for (const MeshShape& shape : shapes) check_twice(small_mesh(shape));
}

// The momentum after one step shows the clipped gradients, and so the norm: it must count each
// element once, although tp ranks have replicas of some parameters, dp ranks of all, and both ends
// of the pipeline have the tied table.
TEST_CASE("dp x pp x tp with the norm of the whole model, and with tied weights") {
  for (const MeshShape& shape : shapes) {
    check_twice(small_mesh(shape, /*tied=*/false, /*clip=*/0.5F));
    check_twice(small_mesh(shape, /*tied=*/true, /*clip=*/0.5F));
  }
  check_twice(small_mesh({1, 3, 3}, /*tied=*/true));
}

TEST_CASE("dp x pp x tp in any order of the axes, and in bf16") {
  Options options = small_mesh({2, 2, 2}, /*tied=*/true, /*clip=*/0.5F);
  options.run.order = "pp,dp,tp,cp";
  check_twice(options);
  options.run.model.dtype = DType::bf16;
  check_twice(options);
}

TEST_CASE("meta: dp x pp x tp matches the CPU's times, bytes, memory and trace") {
  for (const bool tied : {false, true}) {
    Options options = small_mesh({2, 2, 2}, tied, tied ? 0.5F : 0);
    Cluster cluster = Cluster::load("classroom");
    cluster.ranks_per_node = 2;
    options.platform.clock = Clock::modelled(cluster);
    CHECK(cpu_against_meta(options, [&](Rank& rank, const Note& note) {
            const Corpus corpus = copies_corpus(options.run.model);
            OnMesh mine{rank, options};
            for (int step = 0; step < 2; ++step) {
              rank.trace.set_step(step);
              mine.train(corpus, step);
              note();
            }
          }) == "");
  }
}
