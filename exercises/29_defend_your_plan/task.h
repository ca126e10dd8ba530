#pragma once

#include <string>

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// How to divide a step of training among the ranks of a cluster, one rank per GPU.
struct TrainingPlan {
  /// The sizes of the mesh: replicas, tensor parallelism (with sequence parallelism), pipeline
  /// stages, context parallelism. Their product is the number of GPUs. Neighbouring ranks differ
  /// along tp, then cp, then dp, then pp: with 8 GPUs per node, tp · cp = 8 fills a node.
  int dp = 1, tp = 1, pp = 1, cp = 1;
  /// 0, or the stage of ZeRO that divides the states among the dp · cp ranks that hold the same
  /// parameters. Stages 2 and 3 require the schedule 1f1b.
  int zero = 0;
  /// The number of sequences in a replica's microbatch. A replica has m = batch / dp / microbatch
  /// microbatches.
  int microbatch = 1;
  /// Along pp: gpipe, 1f1b, breadth-first, interleaved, zb-h1, zb-h2, zb-v or dualpipe-v.
  std::string schedule = "1f1b";
  /// The stages per rank of the pipeline. interleaved and breadth-first need at least 2, zb-v and
  /// dualpipe-v exactly 2.
  int chunks = 1;
  /// What the backward pass recomputes: "none", "selective" (the attention probabilities; nothing
  /// else is as large) or "full" (each block; only its input is kept).
  std::string recompute = "selective";
};

/// Each of these functions returns a plan for one case. All models are trained in bf16 with AdamW.
/// The clusters have nodes of 8 H100, each with 80 GB, NVLink within a node, and a network card of
/// 50 GB/s per GPU between nodes.
///
/// - The plan is possible: everything above holds, dp · microbatch divides the batch, and tp
///   divides the number of query heads and that of key heads. There are at least as many blocks as
///   stages, and at least 4,096 tokens of a sequence per rank of cp.
/// - It fits: no rank's peak memory is above 80 GB.
/// - It is fast: a step takes at most 15 % longer than with the check's reference, a plan that the
///   planner's search can't beat by more than 1 %. (You may beat it: the search tries only the
///   schedules 1f1b, interleaved and zb-h1.)

/// Llama 3 70B on 64 GPUs. A step trains on 512 sequences of 8,192 tokens.
TrainingPlan llama_70b_on_64();

/// Llama 3 70B on 256 GPUs. A step trains on 64 sequences of 8,192 tokens.
TrainingPlan llama_70b_on_256();

/// Llama 3 405B on 16,384 GPUs. A step trains on 2,048 sequences of 8,192 tokens.
TrainingPlan llama_405b_on_16384();

/// Llama 3 70B on 256 GPUs, with sequences that are 8 times as long: 64 sequences of 65,536 tokens.
TrainingPlan llama_70b_long_sequences();

/// A GPT of 22B parameters on 32 GPUs. A step trains on 256 sequences of 2,048 tokens. Between
/// nodes, links and cards have an eighth of the bandwidth: 6.25 GB/s.
TrainingPlan gpt_22b_on_slow_links();

}  // namespace lockstep::exercises
