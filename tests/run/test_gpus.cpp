#include "core/run/launch/gpus.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/support/complaints.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// A plan for ranks on these GPUs, "host/address" each; "" means no GPU.
GpuPlan plan_of(const std::vector<std::string>& gpus, bool nccl = true) {
  std::vector<RankPlace> places;
  for (const std::string& gpu : gpus) {
    RankPlace place{.host = "here", .cores = "0-3"};
    if (const auto slash = gpu.find('/'); slash != std::string::npos) {
      place.host = gpu.substr(0, slash);
      place.gpu = 0;  // srun shows each task only its own GPU
      place.gpu_name = "GPU X";
      place.nccl = nccl;
      place.nccl_host = place.host;
      place.gpu_address = gpu.substr(slash + 1);
    }
    places.push_back(place);
  }
  return GpuPlan{places};
}

Options asked(int ranks, const std::string& clock = "auto", const std::string& comm = "auto") {
  Options options;
  options.plan.set_mesh(Mesh::along(Axis::dp, ranks));
  options.platform.device = "cuda";
  options.platform.clock_is_open = clock == "auto";
  if (clock == "modelled") options.plan.modelled = {Cluster{}};
  options.platform.comm_is_open = comm == "auto";
  if (comm == "native") options.plan.collectives = Collectives::native;
  return options;
}

}  // namespace

TEST_CASE("GPUs are identified by host and address, not by their index in a process") {
  CHECK_FALSE(plan_of({}).any);
  CHECK_FALSE(plan_of({"", ""}).any);
  CHECK_FALSE(plan_of({"a/1", ""}).any);
  const GpuPlan own = plan_of({"a/1", "a/2", "b/1"});
  CHECK(own.one_each);
  CHECK_FALSE(own.one_for_all);
  const GpuPlan one = plan_of({"a/1", "a/1"});
  CHECK_FALSE(one.one_each);
  CHECK(one.one_for_all);
  const GpuPlan some = plan_of({"a/1", "a/2", "a/1"});
  CHECK_FALSE(some.one_each);
  CHECK_FALSE(some.one_for_all);
}

TEST_CASE("with a GPU per rank the run uses the wall clock and NCCL's collectives") {
  const GpuPlan plan = plan_of({"a/1", "b/1"});
  Options options = asked(2);
  settle_on_gpus(plan, options);
  CHECK_FALSE(options.plan.modelled);
  CHECK(options.platform.why_this_clock == "each of 2 ranks has its own GPU");
  CHECK(options.plan.collectives == Collectives::native);
  CHECK(by_nccl(plan, options));
  CHECK(plan.summary(options) ==
        "each rank has its own GPU (GPU X); messages and collectives use NCCL");

  Options rings = asked(2, "auto", "ring");
  settle_on_gpus(plan, rings);
  CHECK(rings.plan.collectives == Collectives::built_in);
  CHECK(by_nccl(plan, rings));
}

TEST_CASE("if ranks share GPUs, or time is modelled, messages go through the hosts' transport") {
  const GpuPlan plan = plan_of({"a/1", "a/1", "a/2"});
  Options options = asked(3);
  settle_on_gpus(plan, options);
  CHECK(options.plan.modelled);
  CHECK(options.platform.why_this_clock == "3 ranks share 2 GPUs");
  CHECK(options.plan.collectives == Collectives::built_in);
  CHECK_FALSE(by_nccl(plan, options));
  CHECK(plan.summary(options).find("copies on the device") != std::string::npos);
  options.platform.launch = Launch::mpi;
  CHECK(plan.summary(options).find("pinned memory") != std::string::npos);

  Options modelled = asked(2, "modelled");
  settle_on_gpus(plan_of({"a/1", "a/2"}), modelled);
  CHECK_FALSE(by_nccl(plan_of({"a/1", "a/2"}), modelled));
  CHECK(modelled.plan.collectives == Collectives::built_in);
}

TEST_CASE(
    "processes with an NCCL_HOSTID each use NCCL on the wall clock, though they share a GPU") {
  std::vector<RankPlace> places = plan_of({"a/1", "a/1"}).places;
  places[1].nccl_host = "b";
  const GpuPlan plan{places};
  CHECK(plan.one_for_all);
  Options options = asked(2, "wall");
  settle_on_gpus(plan, options);
  CHECK(by_nccl(plan, options));
  CHECK(options.plan.collectives == Collectives::native);
  CHECK(plan.summary(options) ==
        "2 ranks share 1 GPU (GPU X); messages use NCCL, as each process has its own NCCL_HOSTID");
  Options by_itself = asked(2);
  settle_on_gpus(plan, by_itself);
  CHECK(by_itself.plan.modelled);
  CHECK_FALSE(by_nccl(plan, by_itself));
}

TEST_CASE("a build without NCCL runs without it") {
  const GpuPlan plan = plan_of({"a/1", "a/2"}, /*nccl=*/false);
  Options options = asked(2);
  settle_on_gpus(plan, options);
  CHECK_FALSE(options.plan.modelled);
  CHECK(options.plan.collectives == Collectives::built_in);
  CHECK_FALSE(by_nccl(plan, options));
  CHECK(plan.summary(options).find("no NCCL") != std::string::npos);
}

TEST_CASE("NCCL's own collectives are rejected if ranks share GPUs") {
  Options shared = asked(2, "wall", "native");
  CHECK(complaint_of<UsageError>([&] {
          settle_on_gpus(plan_of({"a/1", "a/1"}), shared);
        }) == "--comm native: 2 ranks share GPUs, but NCCL needs one per rank; leave it out");
  Options alone = asked(1, "wall", "native");
  CHECK_NOTHROW(settle_on_gpus(plan_of({"a/1"}), alone));
  Options on_cpus = asked(2, "wall", "native");
  CHECK_NOTHROW(settle_on_gpus(plan_of({"", ""}), on_cpus));
}

TEST_CASE("a place survives transfer between processes, and fills a row of the table") {
  const RankPlace place{.host = "node1",
                        .cores = "0-7,16",
                        .gpu = 3,
                        .gpu_name = "GPU X 80GB",
                        .gpu_address = "0000:41:00.0",
                        .nccl = true,
                        .nccl_host = "another",
                        .nic = "mlx5_2"};
  const RankPlace again = RankPlace::from_bytes(place.to_bytes());
  CHECK(again.to_bytes() == place.to_bytes());
  CHECK(again.gpu == 3);
  CHECK(again.nccl);
  CHECK(again.nccl_host == "another");
  const RankPlace bare = RankPlace::from_bytes(RankPlace{.host = "h", .cores = "0"}.to_bytes());
  CHECK(bare.gpu == -1);
  CHECK(bare.nic.empty());
  const std::string table = GpuPlan{{place, bare}}.table();
  for (const char* word : {"node1", "3 GPU X 80GB 0000:41:00.0", "mlx5_2", "0-7,16"})
    CHECK(table.find(word) != std::string::npos);
}

TEST_CASE("this process has a place, with cores and no GPU unless one is requested") {
  const RankPlace place = this_place(Options{}, 0);
  CHECK(place.gpu == -1);
  CHECK_FALSE(place.cores.empty());
  CHECK_FALSE(place.host.empty());
}
