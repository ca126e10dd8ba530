#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/model/data.h"
#include "core/run/reference/solo_device.h"
#include "lessons/18_low_communication/diloco.h"
#include "lessons/18_low_communication/inner_optimizer.h"
#include "lessons/18_low_communication/pipedream.h"
#include "lessons/18_low_communication/prediction.h"
#include "lessons/18_low_communication/streaming.h"
#include "tests/support/portion.h"
#include "tests/support/ranks.h"

// Lesson 18. At the end of each run, the lesson itself compares the run with one device that takes
// each rank's role (tests/command/test_low_communication.py). The cases here share no code with
// that reference.
using namespace lockstep;
using namespace lockstep::testing;

namespace low_communication_test {

namespace {

using Values = std::vector<std::vector<float>>;  // by parameter

Values values_here(const Gpt& model) {
  Values values;
  for (const Parameter* parameter : model.parameters())
    values.push_back(parameter->f32_values(model.device()));
  return values;
}

bool same_values(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].size() != b[i].size() ||
        std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0)
      return false;
  return true;
}

/// The parity norm: the largest ‖a - b‖₂ / max(‖b‖₂, √n · 0.02) of any tensor.
double distance_of(const Values& a, const Values& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double difference = 0, norm = 0;
    for (std::size_t k = 0; k < a[i].size(); ++k) {
      difference += std::pow(static_cast<double>(a[i][k]) - static_cast<double>(b[i][k]), 2);
      norm += std::pow(static_cast<double>(b[i][k]), 2);
    }
    const double least = 0.02 * std::sqrt(static_cast<double>(a[i].size()));
    largest = std::max(largest, std::sqrt(difference) / std::max(std::sqrt(norm), least));
  }
  return largest;
}

Options options_of(Axis axis, int ranks, int microbatches, int size) {
  Options options;
  options.plan.set_mesh(Mesh::along(axis, ranks));
  set_model(options.plan, GptConfig{.layers = std::max(2, axis == Axis::pp ? ranks : 2),
                                    .hidden = 8,
                                    .heads = 2,
                                    .sequence = 8,
                                    .vocabulary = 256});
  options.plan.batch.microbatches = microbatches;
  options.plan.batch.sequences = microbatches * size * (axis == Axis::dp ? ranks : 1);
  options.plan.optimizer.clip = 0;
  options.plan.modelled = {Cluster::load("free"), {}};
  return options;
}

Corpus text_for(const Options& options) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += static_cast<char>('a' + i * i % 23);
  return {text, options.plan.model()};
}

enum class Way { data_parallel, diloco, streaming };

/// Trains workers for `steps` steps. Returns the values of rank 0's model, and the all-reduced
/// bytes that it has sent.
struct Trained {
  Values values;
  std::int64_t sent = 0;
};
Trained train(const Options& options, Way way, const OuterOptions& outer,
              const StreamingOptions& streaming, bool sgd, int steps) {
  const Corpus corpus = text_for(options);
  Trained trained;
  const std::string failure = on_threads(options, [&](Rank& rank) {
    Group& workers = rank.group(Axis::dp);
    Gpt model{rank.plan, rank.place, rank.device};
    InnerOptimizer inner{model, options.plan.optimizer, sgd};
    std::optional<DataParallel> replicas;
    std::optional<DiLoCo> diloco;
    std::optional<StreamingDiLoCo> streams;
    if (way == Way::data_parallel)
      replicas.emplace(model, workers, one_bucket).set(GradientSync::bucket);
    if (way == Way::diloco) diloco.emplace(model, workers, outer, one_bucket);
    if (way == Way::streaming) streams.emplace(model, workers, outer, streaming, steps);
    for (int step = 0; step < steps; ++step) {
      model.zero_gradients();
      const Batch mine = corpus.batch(1, step, rank.plan.samples(rank.place));
      (void)static_cast<double>(accumulate_gradients(model, mine));
      if (replicas) replicas->sum_gradients();
      inner.step(replicas ? 1 : static_cast<float>(workers.size()));
      if (diloco) diloco->after_step();
      if (streams) streams->after_step();
    }
    if (rank.id != 0) return;
    trained = {values_here(model), rank.transport->bytes_sent()[Operation::all_reduce]};
  });
  REQUIRE(failure == "");
  return trained;
}

}  // namespace

TEST_CASE("the outer optimizer takes PyTorch's steps of Nesterov momentum") {
  // torch.optim.SGD([1, -2], lr=0.7, momentum=0.9, nesterov=True) with these gradients
  const std::vector<std::vector<float>> gradients{{0.5F, 0.25F}, {-0.25F, 0.125F}, {0.125F, -0.5F}};
  const std::vector<std::vector<double>> expected{
      {0.335, -2.3325}, {0.384, -2.6405}, {0.10435, -2.17395}};
  SoloDevice one;
  const Device device = one;
  Parameter parameter{{.name = "p", .shape = {2}}, {}, device, 1};
  const auto set = [&](const std::vector<float>& values, View view) {
    device.compute.write(values.data(), view);
  };
  set({1, -2}, parameter.value);
  OuterOptimizer outer{device, {&parameter}, {.every = 1, .rate = 0.7F, .momentum = 0.9F}};
  for (std::size_t step = 0; step < gradients.size(); ++step) {
    // Two workers whose pseudo-gradients add up to twice the gradient.
    Tensor sum{device.memory, {2}, MemoryCategory::gradients};
    set({2 * gradients[step][0], 2 * gradients[step][1]}, sum);
    outer.step({sum}, 2);
    const std::vector<float> values = parameter.f32_values(device);
    for (std::size_t i = 0; i < 2; ++i)
      CHECK(values[i] == doctest::Approx(expected[step][i]).epsilon(1e-6));
  }
  // The worker moves on by itself; a mix of 1/4 then keeps a quarter of that.
  const std::vector<float> theta = parameter.f32_values(device);
  set({theta[0] + 4, theta[1] - 8}, parameter.value);
  Tensor nothing{device.memory, {2}, MemoryCategory::gradients};
  set({0, 0}, nothing);
  Parameter still{{.name = "q", .shape = {2}}, {}, device, 1};
  set(theta, still.value);
  OuterOptimizer resting{device, {&still}, {.every = 1, .rate = 1, .momentum = 0}};
  set({theta[0] + 4, theta[1] - 8}, still.value);
  resting.step({nothing}, 2, 0.25F);
  CHECK(still.f32_values(device)[0] == doctest::Approx(theta[0] + 1));
  CHECK(still.f32_values(device)[1] == doctest::Approx(theta[1] - 2));
}

TEST_CASE("with H = 1 and exact values, DiLoCo with SGD is data parallelism, bit for bit") {
  // Values are multiples of 2^-10 below 4, gradients multiples of 2^-8 below 1/4, and the learning
  // rate is 1/4: with 2, 4 or 8 workers, every sum and product is exact in f32.
  for (const int workers : {2, 4, 8}) {
    Options options = options_of(Axis::dp, workers, 1, 1);
    options.plan.optimizer.learning_rate = 0.25F;
    const auto run = [&](bool diloco) {
      std::map<int, Values> by_rank;
      std::mutex mutex;
      const std::string failure = on_threads(options, [&](Rank& rank) {
        Group& group = rank.group(Axis::dp);
        Gpt model{rank.plan, rank.place, rank.device};
        std::minstd_rand same{7}, own{static_cast<unsigned>(rank.id + 1)};
        const auto fill = [&](View view, std::minstd_rand& random, int range, float unit) {
          std::vector<float> values(static_cast<std::size_t>(view.elements()));
          for (float& value : values)
            value = static_cast<float>(static_cast<int>(random() % (2 * range)) - range) * unit;
          rank.compute.write(values.data(), view);
        };
        for (const Parameter* parameter : model.parameters())
          fill(parameter->value, same, 4096, 1.0F / 1024);
        InnerOptimizer inner{model, options.plan.optimizer, /*sgd=*/true};
        std::optional<DataParallel> replicas;
        std::optional<DiLoCo> outer;
        const OuterOptions plain{.every = 1, .rate = 1, .momentum = 0};
        if (diloco)
          outer.emplace(model, group, plain, one_bucket);
        else
          replicas.emplace(model, group, one_bucket).set(GradientSync::bucket);
        for (int step = 0; step < 20; ++step) {
          for (const Parameter* parameter : model.parameters())
            fill(parameter->gradient, own, 64, 1.0F / 256 / static_cast<float>(group.size()));
          if (replicas) replicas->sum_gradients();
          inner.step(replicas ? 1 : static_cast<float>(group.size()));
          if (outer) outer->after_step();
        }
        std::lock_guard lock{mutex};
        by_rank[rank.id] = values_here(model);
      });
      REQUIRE(failure == "");
      for (const auto& [rank, values] : by_rank) CHECK(same_values(values, by_rank.at(0)));
      return by_rank.at(0);
    };
    CHECK(same_values(run(true), run(false)));
  }
}

TEST_CASE(
    "with H = 1, DiLoCo with SGD trains a GPT as data parallelism does, with the same bytes") {
  for (const int workers : {2, 3, 4}) {
    Options options = options_of(Axis::dp, workers, 1, 2);
    options.plan.optimizer.learning_rate = 0.125F;
    const OuterOptions plain{.every = 1, .rate = 1, .momentum = 0};
    const Trained reference = train(options, Way::data_parallel, {}, {}, true, 20);
    const Trained diloco = train(options, Way::diloco, plain, {}, true, 20);
    CHECK(distance_of(diloco.values, reference.values) <= 1e-6);
    CHECK(diloco.sent == reference.sent);
    // The comparison notices a small change.
    const Trained other =
        train(options, Way::diloco, {.every = 1, .rate = 0.999F, .momentum = 0}, {}, true, 20);
    CHECK(distance_of(other.values, reference.values) > 1e-5);
  }
}

TEST_CASE("H inner steps of DiLoCo send the bytes of one step of data parallelism") {
  const Options options = options_of(Axis::dp, 4, 1, 1);
  const std::int64_t step = train(options, Way::data_parallel, {}, {}, false, 1).sent;
  CHECK(step > 0);
  for (const int every : {1, 2, 3, 6, 12}) {
    CHECK(train(options, Way::diloco, {.every = every}, {}, false, 12).sent == step * 12 / every);
    for (int fragments = 1; fragments <= 4; ++fragments)
      if (every % fragments == 0 && every > 1)
        CHECK(train(options, Way::streaming, {.every = every},
                    {.fragments = fragments, .delay = every / 2}, false, 12)
                  .sent == step * 12 / every);
  }
}

TEST_CASE("one fragment without delay or mixing is DiLoCo, bit for bit") {
  for (const int workers : {2, 3, 4}) {
    const Options options = options_of(Axis::dp, workers, 2, 1);
    const OuterOptions outer{.every = 3, .rate = 0.7F, .momentum = 0.9F};
    const Values diloco = train(options, Way::diloco, outer, {}, false, 9).values;
    const auto streaming = [&](const StreamingOptions& settings) {
      return train(options, Way::streaming, outer, settings, false, 9).values;
    };
    CHECK(same_values(diloco, streaming({.fragments = 1, .delay = 0, .mix = 0})));
    CHECK_FALSE(same_values(diloco, streaming({.fragments = 1, .delay = 1, .mix = 0})));
    CHECK_FALSE(same_values(diloco, streaming({.fragments = 3, .delay = 0, .mix = 0})));
  }
}

TEST_CASE("streaming sends and uses fragments at their times, by hand") {
  // H = 6 and two fragments: embedding and block 0 are sent after steps 3 and 9, block 1 and the
  // head after steps 6 and 12. Every inner step of worker w adds (w + 1) / 16 to all values, so a
  // fragment is one number.
  const std::vector<std::vector<int>> sent{{3, 9}, {6, 12}};
  const int steps = 12;
  for (const int workers : {2, 3})
    for (const int delay : {0, 1, 2, 5})
      for (const float mix : {0.0F, 0.25F}) {
        CAPTURE(workers);
        CAPTURE(delay);
        CAPTURE(mix);
        const double rate = 0.5, momentum = 0.75;
        // What is added to each fragment's initial value, by worker, after every step.
        std::vector<std::vector<std::vector<double>>> expected(2);
        for (std::size_t f = 0; f < 2; ++f) {
          double theta = 0, u = 0, mean = 0;
          std::vector<double> values(static_cast<std::size_t>(workers));
          for (int step = 1; step <= steps; ++step) {
            for (int w = 0; w < workers; ++w) values[static_cast<std::size_t>(w)] += (w + 1) / 16.0;
            const auto use = [&] {
              u = momentum * u + mean;
              theta -= rate * (mean + momentum * u);
              for (double& value : values) value = mix * value + (1 - mix) * theta;
            };
            for (const int at : sent[f])
              if (delay > 0 && at + delay == step) use();
            if (std::ranges::count(sent[f], step) > 0) {
              mean = 0;
              for (const double value : values) mean += (theta - value) / workers;
              if (delay == 0) use();
            }
            if (step == steps) {
              for (const int at : sent[f])
                if (delay > 0 && at + delay > steps) use();
              std::ranges::fill(values, theta);
            }
            expected[f].push_back(values);
          }
        }
        const std::string wrong = on_all(options_of(Axis::dp, workers, 1, 1), [&](Rank& rank) {
          Gpt model{rank.plan, rank.place, rank.device};
          const Values before = values_here(model);
          StreamingDiLoCo streaming{model,
                                    rank.group(Axis::dp),
                                    {.every = 6,
                                     .rate = static_cast<float>(rate),
                                     .momentum = static_cast<float>(momentum)},
                                    {.fragments = 2, .delay = delay, .mix = mix},
                                    steps};
          for (int step = 1; step <= steps; ++step) {
            for (const Parameter* parameter : model.parameters()) {
              std::vector<float> values = parameter->f32_values(rank.device);
              for (float& value : values) value += static_cast<float>(rank.id + 1) / 16;
              rank.compute.write(values.data(), parameter->value);
            }
            streaming.after_step();
            const Values after = values_here(model);
            for (std::size_t i = 0; i < after.size(); ++i) {
              const std::size_t f = model.parameters()[i]->unit() < 2 ? 0 : 1;
              const double added = expected[f][static_cast<std::size_t>(step - 1)]
                                           [static_cast<std::size_t>(rank.id)];
              for (std::size_t k = 0; k < after[i].size(); ++k)
                if (const double seen =
                        static_cast<double>(after[i][k]) - static_cast<double>(before[i][k]);
                    std::abs(seen - added) > 1e-5)
                  return fmt::format("step {}, rank {}, fragment {}: {} added instead of {}\n",
                                     step, rank.id, f, seen, added);
            }
          }
          return std::string{};
        });
        CHECK(wrong == "");
      }
}

TEST_CASE("one worker without an outer optimizer trains alone, whatever H is") {
  const Options options = options_of(Axis::dp, 1, 2, 1);
  const Values alone = train(options, Way::data_parallel, {}, {}, false, 12).values;
  for (const int every : {1, 3, 12})
    CHECK(distance_of(
              train(options, Way::diloco, {.every = every, .rate = 1, .momentum = 0}, {}, false, 12)
                  .values,
              alone) <= 1e-5);
}

namespace {

/// PipeDream by its definition: stage q of p runs forward and backward for microbatch i with the
/// weights that it had after max(0, i - (p - 1 - q)) updates. Each stage is a model of its own.
std::vector<Values> pipedream_by_definition(const Options& options, const Corpus& corpus,
                                            int batches) {
  const Plan& plan = options.plan;
  const int p = plan.stages(), m = plan.batch.microbatches;
  SoloDevice one;
  const Device device = one;
  struct Stage {
    std::unique_ptr<Gpt> model;
    std::unique_ptr<AdamW> optimizer;
    std::vector<Values> after;  // by number of updates
  };
  std::vector<Stage> stages;
  for (int q = 0; q < p; ++q) {
    Stage& stage = stages.emplace_back();
    stage.model = std::make_unique<Gpt>(plan, plan.place(plan.rank_holding(q)), device);
    stage.optimizer = std::make_unique<AdamW>(stage.model->parameters(), device, plan.optimizer);
    stage.after.push_back(values_here(*stage.model));
  }
  const auto set = [&](Gpt& model, const Values& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      device.compute.write(values[i].data(), model.parameters()[i]->value);
  };
  for (int k = 0; k < batches; ++k) {
    const Batch batch = corpus.batch(1, k, plan.samples(plan.place(0)));
    for (int i = 0; i < m; ++i) {
      const int number = k * m + i;
      Microbatch microbatch = batch.microbatches[static_cast<std::size_t>(i)];
      microbatch.last = true;
      std::vector<Stash> stashes(static_cast<std::size_t>(p));
      Tensor x;
      for (int q = 0; q < p; ++q) {
        Stage& stage = stages[static_cast<std::size_t>(q)];
        set(*stage.model, stage.after[static_cast<std::size_t>(std::max(0, number - (p - 1 - q)))]);
        stage.model->zero_gradients();
        x = stage.model->forward(microbatch, std::move(x), stashes[static_cast<std::size_t>(q)]);
      }
      Tensor dy;
      for (int q = p - 1; q >= 0; --q) {
        Stage& stage = stages[static_cast<std::size_t>(q)];
        dy = stage.model->backward(std::move(dy), stashes[static_cast<std::size_t>(q)]);
        set(*stage.model, stage.after.back());
        stage.optimizer->step(static_cast<float>(m));
        stage.after.push_back(values_here(*stage.model));
      }
    }
  }
  std::vector<Values> last;
  for (const Stage& stage : stages) last.push_back(stage.after.back());
  return last;
}

}  // namespace

TEST_CASE("PipeDream trains with stashed weights, bit for bit, and keeps p - q versions of them") {
  struct Size {
    int stages, microbatches, batches;
  };
  for (const auto& [p, m, batches] : {Size{1, 2, 2}, Size{2, 1, 5}, Size{2, 3, 2}, Size{3, 2, 4},
                                      Size{4, 1, 7}, Size{4, 4, 2}, Size{4, 1, 2}, Size{5, 2, 4}}) {
    CAPTURE(p);
    CAPTURE(m);
    CAPTURE(batches);
    const Options options = options_of(Axis::pp, p, m, 1);
    const Corpus corpus = text_for(options);
    const std::vector<Values> expected = pipedream_by_definition(options, corpus, batches);
    std::mutex mutex;
    const std::string failure = on_threads(options, [&](Rank& rank) {
      Group& stages = rank.group(Axis::pp);
      Gpt stage{rank.plan, rank.place, rank.device};
      AdamW optimizer{stage.parameters(), rank.device, options.plan.optimizer};
      std::int64_t bytes = 0;
      for (const Parameter* parameter : stage.parameters())
        bytes += static_cast<std::int64_t>(parameter->value.bytes());
      rank.memory.reset_peak();
      Values values;
      {
        PipeDream pipeline{rank.endpoint,         stages, stage,  optimizer,
                           rank.plan.boundary(m), m,      batches};
        for (int k = 0; k < batches; ++k) {
          const auto loss = pipeline.step(corpus.batch(1, k, rank.plan.samples(rank.place)));
          if (loss) (void)static_cast<double>(*loss);
        }
        values = values_here(stage);
      }
      const auto peak = rank.memory.peak().of(MemoryCategory::parameters);
      std::lock_guard lock{mutex};
      CHECK(same_values(values, expected[static_cast<std::size_t>(rank.id)]));
      // When the object is gone, the stage owns the latest version alone.
      CHECK(same_values(values, values_here(stage)));
      CHECK(rank.memory.current().of(MemoryCategory::parameters) == bytes);
      if (m * batches >= 2 * p) CHECK(peak == (p - rank.id) * bytes);
      int predicted = 0;
      for (int updates = 0; updates <= m * batches; ++updates)
        predicted = std::max(predicted, versions_held(p - 1 - rank.id, updates, m * batches));
      CHECK(peak == predicted * bytes);
    });
    REQUIRE(failure == "");
  }
}

TEST_CASE("the versions that PipeDream holds, by hand") {
  // Stage 0 of 3, six microbatches: F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5. Microbatches 0 to 2 use
  // version 0, 3 uses 1, 4 uses 2, 5 uses 3. After B0: {0, 1}; after B1, 2 and 3 are in flight: {0,
  // 1, 2}; after B2: {1, 2, 3}; after B3, 4 and 5: {2, 3, 4}; after B4: {3, 5}; after B5: {6}.
  const std::vector<int> expected{1, 2, 3, 3, 3, 2, 1};
  for (int updates = 0; updates <= 6; ++updates)
    CHECK(versions_held(2, updates, 6) == expected[static_cast<std::size_t>(updates)]);
  for (int updates = 0; updates <= 6; ++updates) CHECK(versions_held(0, updates, 6) == 1);
}

}  // namespace low_communication_test
