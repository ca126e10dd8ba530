#pragma once

#include <string>
#include <vector>

#include "core/device/gpu.h"
#include "core/run/options/options.h"

namespace lockstep {

/// A rank's host, cores and GPU.
struct RankPlace {
  std::string host;
  std::string cores;  ///< the cores that it may use, "0-7"
  int gpu = -1;       ///< its index in this process; -1: none
  std::string gpu_name, gpu_address;
  bool nccl = false;      ///< whether its build has NCCL
  std::string nccl_host;  ///< $NCCL_HOSTID of its process, or else `host`; see GpuPlan::nccl
  std::string nic;        ///< the InfiniBand device nearest to its GPU, such as "mlx5_0"; empty if
                          ///< unknown

  std::string to_bytes() const;
  static RankPlace from_bytes(const std::string& bytes);
};

/// The place of this process's rank, which is the `local`-th rank on its host. If the run uses
/// GPUs, a host's ranks are assigned its GPUs round-robin; throws UsageError if the host has none.
RankPlace this_place(const Options& options, int local);

/// How the ranks share the GPUs.
struct GpuPlan {
  /// `places` has one entry per rank; if it is empty, no rank has a GPU.
  explicit GpuPlan(std::vector<RankPlace> places = {});

  std::vector<RankPlace> places;  ///< by rank
  bool any = false;               ///< ranks have GPUs
  bool one_each = false;          ///< no two ranks share a GPU
  bool one_for_all = false;       ///< all ranks share one GPU
  bool has_nccl = false;          ///< all ranks' builds have NCCL
  /// All ranks can communicate over NCCL: no two of them share a GPU. NCCL itself compares hosts by
  /// $NCCL_HOSTID. Processes with different values, on one GPU or several, therefore count as
  /// apart, so that NCCL can be tried on a machine with one GPU.
  bool nccl = false;

  /// "4 ranks share one NVIDIA H200: ...", for the first lines of a run.
  std::string summary(const Options& options) const;
  /// A table: rank, host, GPU, NIC, cores.
  std::string table() const;
};

/// Resolves --launch auto on GPUs, before ranks exist: ranks are processes, as under torchrun, if
/// each of them can have a GPU of this host, NCCL and the wall clock; otherwise threads. Threads
/// share one CUDA context, in which a rank that maps memory may wait for another rank's NCCL
/// kernel, which waits for that rank.
void settle_launch(Options& options);
/// Resolves the choices that the flags left open: the clock (wall if each rank has its own GPU) and
/// the collectives (NCCL's if by_nccl()). Throws UsageError for combinations that are not
/// supported.
void settle_on_gpus(const GpuPlan& plan, Options& options);

/// Whether ranks communicate over NCCL: there are several ranks, NCCL can connect them
/// (GpuPlan::nccl), and the wall clock is in use. On the modelled clock, messages carry their
/// modelled times, and use the transport between hosts instead.
bool by_nccl(const GpuPlan& plan, const Options& options);

}  // namespace lockstep
