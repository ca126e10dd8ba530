#include <algorithm>
#include <utility>

#include "core/time/cluster.h"
#include "core/time/cluster_file.h"

namespace lockstep {

namespace {

/// Returns the textbook presets, whose kernels run at the peak.
///
/// `classroom` is a DGX A100 cluster (per rank 312 TFLOP/s dense bf16 and 2.0 TB/s; NVLink 300 GB/s
/// each way, 3 µs; between nodes 25 GB/s, 10 µs; 5 µs per launch), scaled so that a toy model has
/// the same ratios of compute to communication as a large model on the real machine.
///
/// Width. A stage's compute grows as b s h², and its memory and network traffic as b s h, so the
/// ratio of compute to traffic grows as h. GPT-3 has h = 12288 and the lessons' toy model has h =
/// 64, so FLOP/s are divided by 192 and bandwidths are kept. (The head needs no further scaling:
/// its 2 V h is about a third of a block's 24 h² in both models, 2 · 50257 / (24 · 12288) and 2 ·
/// 256 / (24 · 64).)
///
/// Span. A stage of GPT-3 (6 of 96 blocks) takes 24 · 2048 · 12288² · 6 / 312e12 s = 143 ms to run
/// forward on 2,048 tokens; a toy stage of 2 blocks takes 24 · 128 · 64² · 2 / 1.6e12 s = 15.5 µs
/// for 128 tokens. Latencies and launch times are divided by the ratio of these two times, 9,200.
std::vector<Cluster> textbook() {
  const double width = 12288.0 / 64;
  const double span = 9200;
  Cluster free;
  Cluster classroom{.name = "classroom",
                    .nodes = 16,
                    .ranks_per_node = 8,
                    .flops = 3.12e14 / width,
                    .memory_bandwidth = 2.0e12,
                    .launch_seconds = 5e-6 / span,
                    .within = {3e-6 / span, 3.0e11},
                    .between = {1e-5 / span, 2.5e10}};
  // Like `classroom`, but with one rank per node, and 100 Gb/s between nodes.
  Cluster ethernet = classroom;
  ethernet.name = "ethernet";
  ethernet.nodes = 128;
  ethernet.ranks_per_node = 1;
  ethernet.between.bandwidth = 1.25e10;
  // Two generations of machines, in nodes of four that alternate: H100s (989 TFLOP/s in bf16,
  // 3.35 TB/s) and A100s, scaled like `classroom`, with its links.
  Cluster mixed = classroom;
  mixed.name = "mixed";
  mixed.ranks_per_node = 4;
  RankGroup h100{.name = "h100",
                 .ranks = {},
                 .flops = 9.89e14 / width,
                 .memory_bandwidth = 3.35e12,
                 .launch_seconds = classroom.launch_seconds};
  RankGroup a100{.name = "a100",
                 .ranks = {},
                 .flops = classroom.flops,
                 .memory_bandwidth = classroom.memory_bandwidth,
                 .launch_seconds = classroom.launch_seconds};
  for (int rank = 0; rank < mixed.nodes * mixed.ranks_per_node; ++rank)
    (rank / mixed.ranks_per_node % 2 == 0 ? h100 : a100).ranks.push_back(rank);
  mixed.groups = {h100, a100};
  return {free, classroom, ethernet, mixed};
}

/// Returns the rates of bf16 products, of which the best reaches `ceiling` FLOP/s. Arithmetic and
/// memory traffic take their times one after the other, so that with B bytes/s of memory bandwidth
/// and 2-byte elements
///
///     2mnk / ceiling + 2(mk + kn + mn) / B = 2mnk / ceiling · (1 + ceiling/B · (1/m + 1/n + 1/k))
///
/// and a product with a size of ceiling/B (136 on an A100) reaches half the ceiling. The largest
/// size of the table counts as infinite.
RateTable products(double ceiling, double memory_bandwidth) {
  const std::vector<std::int64_t> sizes{1, 4, 16, 64, 256, 1024, 4096, 16384};
  const auto thinness = [&](std::int64_t size) {
    return 1.0 / static_cast<double>(size) - 1.0 / static_cast<double>(sizes.back());
  };
  RateTable table{.m = sizes, .n = sizes, .k = sizes, .flops = {}};
  for (const std::int64_t m : sizes)
    for (const std::int64_t n : sizes)
      for (const std::int64_t k : sizes)
        table.flops.push_back(
            ceiling / (1 + ceiling / memory_bandwidth * (thinness(m) + thinness(n) + thinness(k))));
  return table;
}

/// Returns the rates of flash attention with heads of size 128, of which the longest sequence
/// reaches `ceiling` FLOP/s. For shorter sequences, they fall off as those of FlashAttention-3 do
/// on an H100: 430, 517, 566, 590, 614 and 621 TFLOP/s at 512, 1024, ... 16384 tokens (forward pass
/// without a mask, 16,384 tokens in all; pytorch/benchmark, pull request 2391). Below 512, the
/// rates are proportional to the number of queries or of keys, whichever is smaller (as given,
/// unverified).
RateTable flash_attention(double ceiling) {
  const std::vector<std::int64_t> sizes{1, 512, 1024, 2048, 4096, 8192, 16384};
  const std::vector<double> share{
      430.0 / 512 / 621, 430.0 / 621, 517.0 / 621, 566.0 / 621, 590.0 / 621, 614.0 / 621, 1};
  RateTable table{.m = sizes, .n = sizes, .k = {128}, .flops = {}};
  for (std::size_t queries = 0; queries < sizes.size(); ++queries)
    for (std::size_t keys = 0; keys < sizes.size(); ++keys)
      table.flops.push_back(ceiling * share[std::min(queries, keys)]);
  return table;
}

/// Returns the presets that describe real machines: with measured rates, links that ranks share,
/// and the collectives of a library. tests/accuracy/README.md compares them with published times.
///
/// Peaks, memory and NVLink (300, 450 and 900 GB/s each way) are those of NVIDIA's data sheets, for
/// dense bf16 and the SXM cards. The best measured products are those of stas00/ml-engineering
/// (compute/accelerator, "Maximum Achievable Matmul FLOPS"; H100 and H200 have the same). The
/// memory share of 0.8 and, unless a comment says more, latencies (3 and 10 µs) and launches (5 µs)
/// are as given, unverified. The number of nodes is unverified, too; it only limits the size of a
/// run.
///
/// The memory of an 80 GB card (A100, H100) is 80 GiB, 85.9e9 bytes. The presets use 80e9, which
/// leaves about 5 GB for CUDA, NCCL and the fragmentation of the allocator. The H200's 141e9 and
/// the B200's 180e9 bytes are the decimal figures of the data sheets (of a DGX with 8 B200: 1,440
/// GB), without such a margin.
std::vector<Cluster> measured() {
  // Constants "fitted" are those with which the modelled steps of a 3.6B GPT under
  // Megatron-DeepSpeed come closest to the measured ones (tests/accuracy/fit_steps.py; least
  // squares of the logarithm of measured / modelled, over 18 rows). Its attention stores the
  // probabilities, so most of its time is memory traffic: 17.4 TFLOP/s, fitted. A launch of 32 µs,
  // fitted, stands for the many small kernels of its layers; Lockstep launches fewer.
  //
  // `within` has 290 GB/s, fitted (data sheet: 300). A node has 800 Gb/s, as vTrain reports for the
  // measured cluster; four cards of 200 Gb/s, each shared by two ranks, are unverified.
  const Cluster a100{
      .name = "a100",
      .nodes = 512,
      .ranks_per_node = 8,
      .flops = 3.12e14,
      .memory_bandwidth = 2.0e12,
      .memory = 80'000'000'000,
      .launch_seconds = 3.2e-5,
      .within = {3e-6, 2.9e11},
      .between = {1e-5, 2.5e10},
      .rates = Rates{.products = products(2.712e14, 2.0e12),
                     .attention = {{2048}, {2048}, {128}, {1.74e13}},
                     .memory_share = 0.8},
      .shared = SharedLinks{.port = 3e11,
                            .cards = SharedLinks::Cards{4, 2.5e10, {0, 0, 1, 1, 2, 2, 3, 3}}},
      .library_collectives = true};

  // Links within a node, and sums in its switch (NVLS): tests/accuracy/clusters/h200_nvlink.json,
  // fitted to all-reduces measured on 8 H200; an H100 has the same NVLink and switch. Eight cards
  // of 400 Gb/s per DGX. Collectives take 20 of 132 processors from kernels, as DeepSeek-V3
  // reserves for them (its technical report, section 3.2): a factor of 132 / 112.
  const SharedLinks eight_cards{.port = 4.5e11,
                                .cards = SharedLinks::Cards{8, 5.0e10, {0, 1, 2, 3, 4, 5, 6, 7}},
                                .kernels_beside_collectives = 1.18};
  const Cluster h100{.name = "h100",
                     .nodes = 2048,
                     .ranks_per_node = 8,
                     .flops = 9.89e14,
                     .memory_bandwidth = 3.35e12,
                     .memory = 80'000'000'000,
                     .launch_seconds = 5e-6,
                     .within = {.protocols = {{"low latency", 2.83e-6, 2.898e11, 131072},
                                              {"simple", 5.63e-6, 3.676e11}}},
                     .between = {1e-5, 5.0e10},
                     .rates = Rates{.products = products(7.945e14, 3.35e12),
                                    .attention = flash_attention(6.21e14),
                                    .memory_share = 0.8},
                     .in_switch = Link{.protocols = {{"small", 3.904e-5, 1.516e11},
                                                     {"medium", 5.489e-5, 2.124e11},
                                                     {"large", 1.046e-4, 2.76e11}}},
                     .shared = eight_cards,
                     .library_collectives = true};
  // The H100's chip with more and faster memory. Attention runs as fast as on an H100, because it
  // reads little memory.
  Cluster h200 = h100;
  h200.name = "h200";
  h200.memory_bandwidth = 4.8e12;
  h200.memory = 141'000'000'000;
  h200.rates->products = products(7.945e14, 4.8e12);
  // Attention: FlashAttention-4 reaches up to 1,613 TFLOP/s (its abstract); fall-off as on an H100,
  // unverified. Links: tests/accuracy/clusters/b200_nvlink.json and b200_four_nodes.json, fitted to
  // all-reduces on AWS P6 instances, which have 8 cards of 400 Gb/s. The α between nodes is that of
  // a step of these all-reduces, five times an H100's: other messages may well be faster.
  Cluster b200 = h100;
  b200.name = "b200";
  b200.flops = 2.25e15;
  b200.memory_bandwidth = 8.0e12;
  b200.memory = 180'000'000'000;
  b200.rates->products = products(1.745e15, 8.0e12);
  b200.rates->attention = flash_attention(1.613e15);
  b200.within = {
      .protocols = {{"low latency", 3.406e-6, 5.714e11, 131072}, {"simple", 6.206e-6, 8.457e11}}};
  b200.between = {.protocols = {{"low latency", 5.048e-5, 2.855e10},
                                {"128 bytes", 6.5e-5, 4.719e10},
                                {"simple", 7.5e-5, 5.0e10}}};
  b200.in_switch = Link{.protocols = {{"small", 4.158e-5, 1.126e11},
                                      {"medium", 9.469e-5, 3.927e11},
                                      {"large", 1.743e-4, 4.856e11}}};
  b200.shared->port = 9.0e11;
  return {a100, h100, h200, b200};
}

const std::vector<Cluster>& all_presets() {
  static const std::vector<Cluster> presets = [] {
    std::vector<Cluster> all = textbook();
    for (Cluster& each : measured()) all.push_back(std::move(each));
    return all;
  }();
  return presets;
}

}  // namespace

std::vector<std::string> Cluster::presets() {
  std::vector<std::string> names;
  for (const Cluster& preset : all_presets()) names.push_back(preset.name);
  return names;
}

std::optional<Cluster> cluster_preset(const std::string& name) {
  for (const Cluster& preset : all_presets())
    if (preset.name == name) return preset;
  return {};
}

}  // namespace lockstep
