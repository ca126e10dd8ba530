#include "core/run/launch/gpus.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/base/error.h"
#include "core/run/files/rank_message.h"
#include "core/run/launch/launch.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

/// The cores that this process may use, such as "0-3,8".
std::string own_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return "?";
  std::string text;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &set)) continue;
    const int first = core;
    while (core + 1 < CPU_SETSIZE && CPU_ISSET(core + 1, &set)) ++core;
    text += fmt::format("{}{}", text.empty() ? "" : ",", first);
    if (core > first) text += fmt::format("-{}", core);
  }
  return text;
}

/// The network device nearest to the GPU: the one that shares the longest prefix of its path in the
/// PCI tree.
std::string nearest_nic(std::string address) {
  std::ranges::transform(address, address.begin(), [](unsigned char c) { return std::tolower(c); });
  std::error_code error;
  const fs::path gpu = fs::canonical("/sys/bus/pci/devices/" + address, error);
  if (error) return {};
  std::string nearest;
  std::ptrdiff_t most = 0;
  for (const auto& entry : fs::directory_iterator{"/sys/class/infiniband", error}) {
    const fs::path nic = fs::canonical(entry.path() / "device", error);
    if (error) continue;
    const auto common = std::ranges::mismatch(gpu, nic).in1;
    if (const auto steps = std::distance(gpu.begin(), common); steps > most) {
      most = steps;
      nearest = entry.path().filename();
    }
  }
  return nearest;
}

std::string plural(std::size_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// Identifies a GPU among those of all hosts.
std::string gpu_of(const RankPlace& place) {
  return place.host + "/" + place.gpu_address;
}

}  // namespace

std::string RankPlace::to_bytes() const {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n", host, cores, gpu, gpu_name, gpu_address,
                     nccl ? "nccl" : "", nccl_host, nic);
}

RankPlace RankPlace::from_bytes(const std::string& bytes) {
  std::istringstream lines{bytes};
  RankPlace place;
  std::string gpu, nccl;
  for (std::string* each : {&place.host, &place.cores, &gpu, &place.gpu_name, &place.gpu_address,
                            &nccl, &place.nccl_host, &place.nic})
    std::getline(lines, *each);
  place.gpu = std::stoi(gpu);
  place.nccl = !nccl.empty();
  return place;
}

RankPlace this_place(const Options& options, int local) {
  RankPlace place{.host = host_name(), .cores = own_cores()};
  if (!options.platform.on_gpus()) return place;
  if (options.plan.mesh.ranks() > 1) load_kernels_at_start();
  const auto& gpus = gpu_library().gpus();
  place.gpu = local % static_cast<int>(gpus.size());
  const GpuInfo& info = gpus[static_cast<std::size_t>(place.gpu)];
  place.gpu_name = info.name;
  place.gpu_address = info.address;
  place.nccl = gpu_library().has_nccl();
  const char* nccl_host = std::getenv("NCCL_HOSTID");
  place.nccl_host = nccl_host != nullptr ? nccl_host : place.host;
  place.nic = nearest_nic(info.address);
  return place;
}

GpuPlan::GpuPlan(std::vector<RankPlace> places_) : places(std::move(places_)) {
  any = !places.empty() &&
        std::ranges::all_of(places, [](const RankPlace& each) { return each.gpu >= 0; });
  std::set<std::string> gpus, gpus_by_nccl;
  for (const RankPlace& each : places) {
    gpus.insert(gpu_of(each));
    gpus_by_nccl.insert(each.nccl_host + "/" + each.gpu_address);
  }
  one_each = any && gpus.size() == places.size();
  one_for_all = any && gpus.size() == 1;
  has_nccl = std::ranges::all_of(places, &RankPlace::nccl);
  nccl = any && has_nccl && gpus_by_nccl.size() == places.size();
}

std::string GpuPlan::summary(const Options& options) const {
  if (!any) return {};
  std::set<std::string> names, gpus;
  for (const RankPlace& each : places) {
    names.insert(each.gpu_name);
    gpus.insert(gpu_of(each));
  }
  const std::string name = names.size() == 1 ? *names.begin() : "different GPUs";
  if (places.size() == 1) return "on one " + name;
  if (one_each)
    return fmt::format("each rank has its own GPU ({}); {}", name,
                       !has_nccl ? "messages go through the hosts: this build has no NCCL"
                       : !by_nccl(*this, options)
                           ? "messages go through the hosts, as the modelled clock requires"
                       : options.plan.collectives == Collectives::native
                           ? "messages and collectives use NCCL"
                           : "messages use NCCL, collectives our rings");
  return fmt::format(
      "{} share {} ({}); {}", plural(places.size(), "rank"), plural(gpus.size(), "GPU"), name,
      by_nccl(*this, options) ? "messages use NCCL, as each process has its own NCCL_HOSTID"
      : options.platform.launch == Launch::threads
          ? "messages are copies on the device"
          : "messages go through the host's pinned memory");
}

std::string GpuPlan::table() const {
  std::string text =
      fmt::format("{:>4}  {:<16} {:<32} {:<10} {}\n", "rank", "host", "GPU", "NIC", "cores");
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const RankPlace& each = places[rank];
    const std::string gpu =
        each.gpu < 0 ? "-" : fmt::format("{} {} {}", each.gpu, each.gpu_name, each.gpu_address);
    text += fmt::format("{:>4}  {:<16} {:<32} {:<10} {}\n", rank, each.host, gpu,
                        each.nic.empty() ? "-" : each.nic, each.cores);
  }
  return text;
}

bool by_nccl(const GpuPlan& plan, const Options& options) {
  return plan.nccl && plan.places.size() > 1 && !options.plan.modelled;
}

void settle_launch(Options& options) {
#ifdef LOCKSTEP_HAS_MPI
  const int ranks = options.plan.mesh.ranks();
  if (!options.platform.launch_is_open || ranks == 1 ||
      (options.plan.modelled && !options.platform.clock_is_open))
    return;
  try {
    find_mpirun();
    load_kernels_at_start();
    if (!gpu_library().has_nccl() || std::ssize(gpu_library().gpus()) < ranks) return;
  } catch (const UsageError&) {
    return;  // what is missing is said where it is needed
  }
  options.platform.launch = Launch::mpi;
  options.plan.receives_combine = false;
#else
  static_cast<void>(options);
#endif
}

void settle_on_gpus(const GpuPlan& plan, Options& options) {
  if (!plan.any) return;
  const std::size_t ranks = plan.places.size();
  if (options.platform.clock_is_open) {
    std::set<std::string> gpus;
    for (const RankPlace& each : plan.places) gpus.insert(gpu_of(each));
    options.plan.modelled.reset();
    if (!plan.one_each)
      options.plan.modelled = {cluster_for(options.platform.cluster, options.plan.mesh.ranks())};
    check_shared_links(options);
    options.platform.why_this_clock =
        plan.one_each
            ? fmt::format("each of {} has its own GPU", plural(ranks, "rank"))
            : fmt::format("{} share {}", plural(ranks, "rank"), plural(gpus.size(), "GPU"));
  }
  if (by_nccl(plan, options)) {
    if (options.platform.comm_is_open) options.plan.collectives = Collectives::native;
  } else if (options.plan.collectives == Collectives::native && ranks > 1) {
    throw UsageError(fmt::format(
        "--comm native: {}; leave it out",
        !plan.has_nccl ? "this build has no NCCL"
        : plan.one_each
            ? "the modelled clock can time only our own algorithms"
            : fmt::format("{} share GPUs, but NCCL needs one per rank", plural(ranks, "rank"))));
  }
}

}  // namespace lockstep
