#pragma once

#include <string>
#include <vector>

#include "core/device/gpu.h"
#include "core/run/options/options.h"

namespace lockstep {

/// Where one rank runs.
struct RankPlace {
  std::string host;
  std::string cores;  ///< "0-7": those it may use
  int gpu = -1;       ///< as its process counts them; -1: none
  std::string gpu_name, gpu_address;
  bool nccl = false;  ///< whether it is a build with NCCL
  std::string nic;  ///< the InfiniBand device nearest to its GPU, as "mlx5_0"; empty: none is known

  std::string to_bytes() const;
  static RankPlace from_bytes(const std::string& bytes);
};

/// This process's rank, the `local`-th of those on its host; with a GPU where `cuda`: the ranks of
/// a host take its GPUs in turn. Throws UsageError where there are none.
RankPlace this_place(bool cuda, int local);

/// How ranks and GPUs go together.
struct GpuPlan {
  /// Of all ranks; without any, nobody has a GPU.
  explicit GpuPlan(std::vector<RankPlace> places = {});

  std::vector<RankPlace> places;  ///< by rank
  bool any = false;               ///< ranks have GPUs
  bool one_each = false;          ///< no two have the same
  bool one_for_all = false;       ///< all have the same
  bool nccl = false;              ///< all can talk by NCCL

  /// "4 ranks share one NVIDIA H200: ..." for the first lines of a run.
  std::string told(const Options& options) const;
  /// A table: rank, host, GPU, NIC, cores.
  std::string table() const;
};

/// What a plan decides of what was left open: which clock (wall, where each rank has a GPU to
/// itself), and whose collectives (NCCL's there). Throws UsageError for what can't be.
void settle_on_gpus(const GpuPlan& plan, Options& options);

/// Whether ranks talk by NCCL: it is there, each has a GPU, and the clock is the wall's. On the
/// modelled clock messages carry their times, and go through the hosts' transport.
bool by_nccl(const GpuPlan& plan, const Options& options);

}  // namespace lockstep
