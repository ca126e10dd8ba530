#include "lessons/17_choosing/plan/roofline.h"

#include <algorithm>

namespace lockstep {

namespace {

double element_bytes(const TrainingTask& task) {
  return static_cast<double>(size_of(task.model.dtype));
}

double matrix_elements(const TrainingTask& task) {
  const GptConfig& model = task.model;
  const int more = task.moe.experts > 0 ? task.moe.top_k - 1 : 0;
  return model.matrix_elements_per_block() +
         static_cast<double>(model.hidden) * (model.mlp_inner_width() + model.mlp_width()) * more;
}

}  // namespace

double bandwidth_per_gpu(const Cluster& cluster, bool within_node) {
  constexpr std::int64_t large = std::int64_t{1} << 30;
  double bandwidth = (within_node ? cluster.within : cluster.between).at(large).bandwidth;
  if (!cluster.shared) return bandwidth;
  if (within_node) return std::min(bandwidth, cluster.shared->port);
  bandwidth = std::min(bandwidth, cluster.shared->uplink / cluster.ranks_per_node);
  if (const auto& cards = cluster.shared->cards)
    bandwidth = std::min(bandwidth, cards->bandwidth * cards->per_node / cluster.ranks_per_node);
  return bandwidth;
}

double tensor_share(const TrainingTask& task, int t) {
  const double W = bandwidth_per_gpu(task.cluster, t <= task.cluster.ranks_per_node);
  return 8.0 * task.model.hidden * element_bytes(task) * (t - 1) * task.cluster.flops /
         (6 * matrix_elements(task) * W);
}

double data_tokens(const TrainingTask& task, int replicas, int per_node) {
  const double within = bandwidth_per_gpu(task.cluster, true);
  const double W = replicas <= per_node
                       ? within
                       : std::min(within, per_node * bandwidth_per_gpu(task.cluster, false));
  return (replicas - 1.0) / replicas * element_bytes(task) * task.cluster.flops / (2 * W);
}

double pipeline_blocks(const TrainingTask& task, bool within_node) {
  return task.model.hidden * element_bytes(task) * task.cluster.flops /
         (2 * matrix_elements(task) * bandwidth_per_gpu(task.cluster, within_node));
}

double context_tokens(const TrainingTask& task, bool within_node) {
  return element_bytes(task) * task.cluster.flops * task.model.kv_heads() /
         (bandwidth_per_gpu(task.cluster, within_node) * task.model.heads);
}

}  // namespace lockstep
