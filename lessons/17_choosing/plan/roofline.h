#pragma once

#include "core/time/cluster.h"
#include "lessons/17_choosing/plan/configuration.h"

namespace lockstep {

// The sizes from which the communication of an axis hides behind compute, by formula: both at the
// peak, without latencies, and with elements of `task.model.dtype`. E is the number of elements of
// a block's matrices, with top_k experts, h the width of the model, F a GPU's FLOP/s, and W the
// bytes per second that each GPU can send. A pass of T tokens takes 2 E T FLOPs forward and 4 E T
// backward.

/// Returns W for a group of neighbours that is within one node or not: the bandwidth of large
/// messages, and a GPU's share of its node's network cards.
double bandwidth_per_gpu(const Cluster& cluster, bool within_node);

/// Returns the ratio of the time of the exchanges of t tensor-parallel ranks to the time of their
/// products, which the exchanges delay: 8 h (t-1)/t elements per token and block (lesson 7) against
/// 6 E / t FLOPs. That is 8 h e (t-1) F / (6 E W) for elements of e bytes, whatever the batch and
/// the sequence.
double tensor_share(const TrainingTask& task, int t);

/// Returns the tokens of a microbatch on one rank from which the backward pass hides the sum of the
/// gradients over N replicas: (N-1)/N · e F / (2 W), because 2 Ψ (N-1)/N elements are sent while 4
/// Ψ T FLOPs are computed. It is also the least number of tokens per microbatch with which ZeRO-3
/// hides its gathers and scatters: 3 Ψ (N-1)/N elements against 6 Ψ T FLOPs. If a node has
/// `per_node` of the replicas, each sends only its share of the traffic across the network
/// (Algorithm::hierarchical), so W is `per_node` times larger, up to the bandwidth within the node.
double data_tokens(const TrainingTask& task, int replicas, int per_node);

/// Returns the number of blocks per stage from which a stage's forward pass hides its message: h e
/// F / (2 E W). (This assumes sequence parallelism, which divides both among tp.)
double pipeline_blocks(const TrainingTask& task, bool within_node);

/// Returns the tokens per rank from which ring attention hides the next block of keys and values
/// behind the attention to this one: e F g / (W a), for g heads of keys and a of queries. With the
/// zigzag layout, which the planner always uses, each rank attends to half of a block's pairs in
/// every step of the ring; full blocks need half the tokens (Liu 2023: F / W for 2 bytes and g =
/// a).
double context_tokens(const TrainingTask& task, bool within_node);

}  // namespace lockstep
