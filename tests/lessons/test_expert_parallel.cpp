#include <doctest/doctest.h>

#include <cstdlib>

#include "lessons/12_expert_parallel/expert_lesson.h"
#include "tests/model/fixture.h"
#include "tests/support/expert_checks.h"
#include "tests/support/meta_checks.h"
#include "tests/support/portion.h"

// Expert parallelism with ranks as threads. tests/mpi runs the same checks with ranks as processes;
// test_expert_routing.cpp tests the routing.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Checks a run against one device, and against a second run, which must be bitwise identical.
void check_twice(int dp, int ep, const MixtureOfExperts& moe,
                 const std::function<void(Options&)>& change = {}, int tp = 1) {
  CAPTURE(dp);
  CAPTURE(ep);
  CAPTURE(tp);
  CAPTURE(moe.experts);
  CAPTURE(moe.top_k);
  CAPTURE(moe.capacity_factor);
  Outcome outcomes[2];
  ExpertDeviation deviation;
  for (Outcome& outcome : outcomes) {
    ExpertRun run{dp, ep, moe, tp};
    if (change) {
      change(run.options);
      run.settle();
    }
    CHECK(on_all(run.options, [&](Rank& rank) {
            return check_experts(rank, run, rank.id == 0 ? &outcome : nullptr,
                                 rank.id == 0 ? &deviation : nullptr);
          }) == "");
  }
  CHECK(compare(outcomes[0].losses, outcomes[0].parameters,
                {outcomes[1].losses, outcomes[1].parameters})
            .bitwise);
  if (std::getenv("LOCKSTEP_SHOW_PARITY") != nullptr)
    fmt::print(
        "dp {} ep {} tp {} E {} k {} capacity {}: losses {:.1e}, parameters {:.1e}, first "
        "gradients {:.1e}, flips {}\n",
        dp, ep, tp, moe.experts, moe.top_k, moe.capacity_factor, deviation.loss,
        deviation.parameter, deviation.gradient, deviation.flips);
}

}  // namespace

TEST_CASE("expert parallelism: near one device, rows, bytes and memory as derived") {
  // By bit: ep is 2 or 4, there are 4 or 8 experts, k is 1 or 2, and there is a capacity or none.
  // Among the first four cases, each value occurs twice.
  const std::vector<int> cases{15, 0, 9, 6, 1, 2, 3, 4, 5, 7, 8, 10, 11, 12, 13, 14};
  for (const int bits : portion(cases, 4)) {
    const int ep = (bits & 1) != 0 ? 4 : 2;
    check_twice(ep, ep,
                {.experts = (bits & 2) != 0 ? 8 : 4,
                 .top_k = (bits & 4) != 0 ? 2 : 1,
                 .capacity_factor = (bits & 8) != 0 ? 1.0 : 0.0});
  }
}

TEST_CASE("expert parallelism with replicas of experts, microbatches, and on one rank") {
  const MixtureOfExperts moe{.experts = 4, .top_k = 2, .capacity_factor = 1.25};
  check_twice(4, 2, moe);
  check_twice(4, 1, moe);
  check_twice(1, 1, moe);
  check_twice(2, 2, moe, [](Options& options) {
    options.plan.batch.microbatches = 2;
    set_model(options.plan, &GptConfig::tied, true);
    set_model(options.plan, &GptConfig::layers, 3);
  });
}

TEST_CASE("experts over the tensor-parallel group: near one device, bytes and memory as derived") {
  using Case = std::pair<int, double>;
  for (const auto& [tp, capacity] : portion<Case>({{4, 1.0}, {2, 0.0}, {2, 1.0}, {4, 0.0}}, 2))
    check_twice(1, 1, {.experts = 8, .top_k = 2, .capacity_factor = capacity}, {}, tp);
  check_twice(2, 1, {.experts = 4, .top_k = 1}, {}, 2);
}

TEST_CASE("the batch's load-balance loss: near one device that takes the batch in one microbatch") {
  const MixtureOfExperts moe{.experts = 4, .top_k = 2, .balance = 0.5, .balance_over_batch = true};
  const auto in = [](int microbatches) {
    return [=](Options& options) { options.plan.batch.microbatches = microbatches; };
  };
  check_twice(4, 4, moe);
  check_twice(1, 1, moe, in(4));
  check_twice(4, 2, moe, in(2));
  check_twice(2, 1, moe, in(2), /*tp=*/2);
}

TEST_CASE("expert parallelism in bf16") {
  for (const double capacity : {0.0, 1.0})
    check_twice(2, 2, {.experts = 4, .top_k = 2, .capacity_factor = capacity},
                [](Options& options) { set_model(options.plan, &GptConfig::dtype, DType::bf16); });
}

TEST_CASE("one expert without a choice is the dense MLP, to the last bit") {
  ExpertRun run{1, 1, {.experts = 1, .top_k = 1}};
  const Plan sparse = run.options.plan.on_one_device();
  Options plain = run.options;
  set_builder(plain.plan, nullptr);
  const Plan dense = plain.plan.on_one_device();
  SoloDevice device;
  Gpt with{sparse, sparse.place(0), device}, without{dense, dense.place(0), device};
  const auto twin = [&](const Parameter& parameter) -> Parameter& {  // of the dense model
    if (!is_expert(parameter.order)) return without.parameter(parameter.order);
    return without.parameter(parameter.order + static_cast<int>(BlockSlot::fc_weight) -
                             static_cast<int>(ExpertSlot::fc_weight));
  };
  const auto is_router = [](const Parameter& parameter) {
    return parameter.order % orders_of_a_unit == static_cast<int>(ExpertSlot::router);
  };
  for (Parameter* parameter : with.parameters())
    if (!is_router(*parameter))
      std::copy_n(twin(*parameter).value.f32(), parameter->value.elements(),
                  parameter->value.f32());
  const Batch batch =
      copies_corpus(run.options.plan.model()).batch(1, 0, {.microbatches = 1, .size = 4});
  CHECK(accumulate_gradients(with, batch) == accumulate_gradients(without, batch));
  for (Parameter* parameter : with.parameters()) {
    CAPTURE(parameter->name);
    if (is_router(*parameter)) continue;
    CHECK(std::memcmp(parameter->gradient.f32(), twin(*parameter).gradient.f32(),
                      parameter->gradient.bytes()) == 0);
  }
}

TEST_CASE("the load-balance loss balances the load") {
  const auto imbalance = [](double coefficient) {
    ExpertRun run{2, 2, {.experts = 8, .top_k = 1, .balance = coefficient}};
    run.options.run.steps = 40;
    CHECK(on_all(run.options, [&](Rank& rank) {
            std::string wrong;
            train_experts(rank, run, wrong);
            return wrong;
          }) == "");
    double worst = 0;
    for (int layer = 0; layer < 2; ++layer)
      worst = std::max(
          worst, load_of(run.options.plan, run.moe, *run.log, layer, Part::last_fifth).imbalance());
    return worst;
  };
  const double without = imbalance(0), with = imbalance(0.1);
  CAPTURE(without);
  CAPTURE(with);
  CHECK(with < 0.8 * without);
}

TEST_CASE("parameters grow with E; FLOPs per token grow with k, and with E only in the router") {
  struct Measured {
    std::int64_t parameters = 0, flops = 0;
  };
  const auto measured = [](int experts, int k) {
    ExpertRun run{1, 1, {.experts = experts, .top_k = k}};
    run.options = on_meta(run.options);
    // On this cluster, a matrix product takes one picosecond per FLOP, and nothing else takes time.
    run.options.plan.modelled = {Cluster{.flops = 1e12}};
    Measured result;
    CHECK(on_all(run.options, [&](Rank& rank) {
            ExpertRank mine{rank, run};
            mine.backward(copies_corpus(run.options.plan.model()), 0);
            result.flops = rank.compute.now();
            for (const Parameter* parameter : mine.model().parameters())
              result.parameters += parameter->value.elements();
            return std::string{};
          }) == "");
    return result;
  };
  const GptConfig config = ExpertRun{1, 1, {}}.options.plan.model();
  const Measured few = measured(2, 2);
  // 64 experts divide the choices of the 192 tokens evenly.
  for (const auto& [experts, k] : {std::pair{64, 2}, {64, 1}, {8, 2}}) {
    const Measured other = measured(experts, k);
    CHECK(other.parameters - few.parameters ==
          config.layers * (expert_parameters(config, experts) - expert_parameters(config, 2)));
    // The backward pass needs twice the FLOPs of the forward pass.
    CHECK(other.flops - few.flops ==
          3 * config.layers * 8 * config.sequence *
              (expert_flops(config, experts, k) - expert_flops(config, 2, 2)));
  }
}

TEST_CASE("meta: bytes and memory as derived; the popular expert's incast costs time") {
  const auto step = [](SyntheticRouting routing, double capacity) {
    ExpertRun run{
        4,
        4,
        {.experts = 8, .top_k = 2, .capacity_factor = capacity, .synthetic = routing, .seed = 3}};
    run.options = on_meta(run.options);
    run.options.output.trace = "none";
    Picoseconds longest = 0;
    std::mutex mutex;
    CHECK(on_all(run.options, [&](Rank& rank) {
            std::string wrong;
            ExpertRank mine{rank, run};
            const auto before = rank.transport->bytes_sent();
            rank.memory.reset_peak();
            Predicted predicted = run.predict(rank, expert_buckets);
            mine.backward(copies_corpus(run.options.plan.model()), 0);
            predicted.at_end(predicted);
            compare_with_prediction(rank, before, predicted,
                                    [&](const std::string& what) { wrong += what + "\n"; });
            const std::lock_guard lock{mutex};
            longest = std::max(longest, rank.compute.now());
            return wrong;
          }) == "");
    CHECK(check_conservation(run.options.plan, run.moe, *run.log) == "");
    return longest;
  };
  const Picoseconds balanced = step(SyntheticRouting::balanced, 0);
  const Picoseconds zipf = step(SyntheticRouting::zipf, 0);
  const Picoseconds capped = step(SyntheticRouting::zipf, 1);
  CHECK(zipf > balanced);
  CHECK(capped < zipf);
}

TEST_CASE("impossible settings: the message names the flags and the nearest values that work") {
  const auto complaint = [](std::vector<const char*> words) {
    words.insert(words.begin(), "lesson");
    return lockstep::test::usage_error([&] {
      LessonInfo info = expert_lesson();
      info.training = &model_training;
      FlagParser parser{info};
      int experts = 8, top_k = 2, follow = -1;
      double capacity = 0, balance = 0.01;
      std::string routing = "learned", over = "dp", balance_over = "microbatch";
      parser.add("--experts", experts, "");
      parser.add("--top-k", top_k, "");
      parser.add("--capacity", capacity, "");
      parser.add("--balance", balance, "");
      parser.add("--routing", routing, "");
      parser.add("--experts-over", over, "");
      parser.add("--balance-over", balance_over, "");
      const auto options = parser.parse(static_cast<int>(words.size()), words.data());
      check_expert_lesson(
          *options,
          ExpertFlags{{experts, top_k, capacity, balance, routing}, over, balance_over, follow});
    });
  };
  CHECK(complaint({"--experts", "6"}) ==
        "--experts 6 with --ep 4: 6 experts do not divide into 4 equal groups; use --experts 4 or "
        "--experts 8");
  CHECK(complaint({"--experts", "2"}) ==
        "--experts 2 with --ep 4: 2 experts do not divide into 4 equal groups; use --experts 4");
  CHECK(complaint({"--experts", "0"}) ==
        "--experts 0: a layer needs at least one expert; use --experts 1");
  CHECK(complaint({"--top-k", "9"}) ==
        "--top-k 9 with --experts 8: a token goes to at least 1 and at most 8 experts; use "
        "--top-k 8");
  CHECK(complaint({"--capacity", "-1"}).starts_with("--capacity -1: the factor must be from 0"));
  CHECK(complaint({"--balance", "-1"}).starts_with("--balance -1: a coefficient is at least 0"));
  CHECK(
      complaint({"--balance-over", "batch", "--capacity", "1.25"})
          .starts_with("--capacity 1.25 with --balance-over batch: a capacity counts the tokens of "
                       "one microbatch on one rank"));
  CHECK(complaint({"--routing", "zipf"}) ==
        "--routing zipf: only the meta device needs it; use --device meta, or --routing learned");
  CHECK(complaint({"--ep", "3"}) ==
        "--ep 3: 4 ranks of dp and cp do not divide into equal groups of 3; use --ep 2 or --ep 4");
  CHECK(complaint({"--experts-over", "tp"}) ==
        "--experts-over tp: there is no tensor-parallel group; use --tp 2, or --experts-over dp");
  CHECK(complaint({"--tp", "2"}).starts_with("--tp 2 with --experts-over dp: "));
  CHECK(complaint({"--tp", "2", "--ep", "2", "--experts-over", "tp"}) ==
        "--ep 2 with --experts-over tp: the ranks of --tp divide the experts; use --ep 1");
  CHECK(complaint({"--tp", "4", "--experts-over", "tp", "--experts", "6"}) ==
        "--experts 6 with --tp 4: 6 experts do not divide into 4 equal groups; use --experts 4 or "
        "--experts 8");
}
