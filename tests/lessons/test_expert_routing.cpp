#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <random>

#include "lessons/12_expert_parallel/experiment/one_token.h"
#include "tests/model/fixture.h"
#include "tests/support/expert_checks.h"
#include "tests/support/ranks.h"

// The routing of experts: slots, capacity and drops, the rows and bytes that follow from them, and
// ties. test_expert_parallel.cpp compares whole runs with one device.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Counts by the definition, one choice at a time, without slots.
struct Oracle {
  Oracle(const std::vector<std::int32_t>& choices, const MixtureOfExperts& moe)
      : chosen(static_cast<std::size_t>(moe.experts)), kept(chosen.size()) {
    const double share = moe.capacity_factor * static_cast<double>(choices.size()) / moe.experts;
    for (const std::int32_t choice : choices) {
      const auto e = static_cast<std::size_t>(choice);
      ++chosen[e];
      // The expert takes one more choice if it then has at most ⌈share⌉, that is if `kept` < share.
      const bool takes =
          moe.capacity_factor == 0 || static_cast<double>(kept[e]) < share - 1e-9 * share;
      accepted.push_back(takes);
      if (takes) ++kept[e];
    }
  }
  std::vector<std::int64_t> chosen, kept;
  std::vector<bool> accepted;
};

/// A router's probabilities and choices, and its load-balance loss over all tokens, from the
/// formulas alone.
struct BalanceOracle {
  std::vector<double> probabilities(const std::vector<float>& weight, std::size_t token) const {
    std::vector<double> p(experts);
    double sum = 0;
    for (std::size_t e = 0; e < experts; ++e) {
      double logit = 0;
      for (std::size_t i = 0; i < hidden; ++i)
        logit += static_cast<double>(x[token * hidden + i]) * weight[i * experts + e];
      sum += p[e] = std::exp(logit);
    }
    for (double& each : p) each /= sum;
    return p;
  }
  /// The share of the choices that fall on each expert.
  std::vector<double> shares(const std::vector<float>& weight) const {
    std::vector<double> f(experts);
    for (std::size_t token = 0; token < tokens(); ++token) {
      const std::vector<double> p = probabilities(weight, token);
      for (std::size_t e = 0; e < experts; ++e)
        if (std::ranges::count_if(p, [&](double other) { return other > p[e]; }) <
            static_cast<std::ptrdiff_t>(k))
          f[e] += 1.0 / static_cast<double>(tokens() * k);
    }
    return f;
  }
  double loss(const std::vector<float>& weight, const std::vector<double>& f) const {
    double sum = 0;
    for (std::size_t token = 0; token < tokens(); ++token) {
      const std::vector<double> p = probabilities(weight, token);
      for (std::size_t e = 0; e < experts; ++e) sum += f[e] * p[e];
    }
    return coefficient * static_cast<double>(experts) * sum / static_cast<double>(tokens());
  }
  std::size_t tokens() const { return x.size() / hidden; }

  std::size_t experts, k, hidden;
  double coefficient;
  std::vector<float> x;  ///< (tokens, hidden)
};

/// Sets the parameters so that every token chooses the experts in the order e, e + 1, ...
void send_all_to(Gpt& model, int e) {
  for (Parameter* parameter : model.parameters()) {
    const int slot = parameter->order % orders_of_a_unit;
    if (parameter->unit() < 1 || parameter->unit() > model.config().layers) continue;
    float* const value = parameter->value.f32();
    const std::int64_t n = parameter->value.elements();
    if (slot == static_cast<int>(BlockSlot::ln_2_weight)) std::fill_n(value, n, 0.0F);
    if (slot == static_cast<int>(BlockSlot::ln_2_bias)) std::fill_n(value, n, 1.0F);
    if (slot == static_cast<int>(ExpertSlot::router)) {
      const std::int64_t experts = parameter->shape[1];
      for (std::int64_t i = 0; i < n; ++i)
        value[i] = -0.1F * static_cast<float>((i % experts - e + experts) % experts);
    }
  }
}

}  // namespace

TEST_CASE("slots, capacity and drops agree with a serial count, for any routing") {
  std::mt19937 random{12};
  const auto up_to = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int trial = 0; trial < 400; ++trial) {
    MixtureOfExperts moe{.experts = 1 + up_to(9)};
    moe.top_k = 1 + up_to(moe.experts);
    constexpr double factors[] = {0, 0.01, 0.5, 1, 1.25, 2, 7};
    moe.capacity_factor = std::min<double>(factors[up_to(7)], moe.experts);
    const int tokens = 1 + up_to(40);
    const int kind = trial % 4;  // random, all to the first, the last one empty, round robin
    std::vector<std::int32_t> choices;
    for (int token = 0; token < tokens; ++token) {
      std::vector<std::int32_t> experts(static_cast<std::size_t>(moe.experts));
      std::iota(experts.begin(), experts.end(), 0);
      if (kind == 0) std::shuffle(experts.begin(), experts.end(), random);
      if (kind == 2 && moe.top_k < moe.experts)
        std::shuffle(experts.begin(), experts.end() - 1, random);
      if (kind == 3)
        std::rotate(experts.begin(), experts.begin() + token % moe.experts, experts.end());
      choices.insert(choices.end(), experts.begin(), experts.begin() + moe.top_k);
    }
    const Routing routing = route(choices, moe);
    const Oracle oracle{choices, moe};
    CAPTURE(trial);
    CHECK(routing.chosen == oracle.chosen);
    CHECK(routing.kept == oracle.kept);
    // Each slot is taken once, by an accepted choice; slots ascend by expert and token.
    std::vector<int> taken(routing.tokens.size());
    std::vector<std::pair<std::int32_t, std::int32_t>> order(routing.tokens.size());
    for (std::size_t i = 0; i < choices.size(); ++i) {
      CHECK((routing.slots[i] >= 0) == oracle.accepted[i]);
      if (routing.slots[i] < 0) continue;
      const auto slot = static_cast<std::size_t>(routing.slots[i]);
      REQUIRE(slot < taken.size());
      ++taken[slot];
      const auto token = static_cast<std::int32_t>(i / static_cast<std::size_t>(moe.top_k));
      CHECK(routing.tokens[slot] == token);
      order[slot] = {choices[i], token};
    }
    CHECK(std::ranges::all_of(taken, [](int times) { return times == 1; }));
    CHECK(std::ranges::is_sorted(order));
  }
  CHECK(MixtureOfExperts{.experts = 8, .top_k = 2, .capacity_factor = 1.25}.capacity(96) == 30);
  CHECK(MixtureOfExperts{.experts = 8, .top_k = 1, .capacity_factor = 1.0}.capacity(4) == 1);
}

TEST_CASE("all tokens to one expert, and none to others: nothing is lost, the rest is dropped") {
  for (const int k : {1, 2})
    for (const double capacity : {0.0, 1.25})
      for (const int hot : {0, 3}) {
        CAPTURE(k);
        CAPTURE(capacity);
        CAPTURE(hot);
        ExpertRun run{2, 2, {.experts = 4, .top_k = k, .capacity_factor = capacity}};
        CHECK(on_all(run.options, [&](Rank& rank) {
                std::string wrong;
                ExpertRank mine{rank, run};
                send_all_to(mine.model(), hot);
                const auto before = rank.transport->bytes_sent();
                rank.memory.reset_peak();
                Predicted predicted = run.predict(rank, expert_buckets);
                mine.backward(copies_corpus(run.options.plan.model()), 0);
                predicted.at_end(predicted);
                compare_with_prediction(rank, before, predicted,
                                        [&](const std::string& what) { wrong += what + "\n"; });
                return wrong;
              }) == "");
        const Plan plan = run.options.plan;
        CHECK(check_conservation(plan, run.moe, *run.log) == "");
        const std::int64_t tokens = 4 * 24;
        for (int rank = 0; rank < 2; ++rank) {
          const RoutedMicrobatch& routed = run.log->calls(rank, 0).front();
          for (int e = 0; e < 4; ++e)
            CHECK(routed.chosen[static_cast<std::size_t>(e)] ==
                  ((e - hot + 4) % 4 < k ? tokens : 0));
          CHECK(routed.kept[static_cast<std::size_t>(hot)] == run.moe.capacity(tokens));
        }
      }
}

TEST_CASE("every pair of ranks: the bytes of all-to-alls are those of the routing that happened") {
  ExpertRun run{4, 4, {.experts = 8, .top_k = 2, .capacity_factor = 1.25}};
  constexpr int steps = 2;
  ThreadRun ranks{run.options};
  CHECK(ranks([&](Rank& rank) {
          ExpertRank mine{rank, run};
          for (int step = 0; step < steps; ++step) {
            mine.backward(copies_corpus(run.options.plan.model()), step);
            mine.update();
          }
        }) == "");
  const std::int64_t row = 4 * run.options.plan.model().hidden;
  for (const auto& rank : ranks.ranks) {
    std::vector<std::int64_t> sent(4), derived(4);
    const std::vector<std::string> lanes = rank->trace.lanes();
    for (const TraceEvent& event : rank->trace.drain())
      if (event.kind == TraceEvent::Kind::span && event.span.peer >= 0 &&
          std::string{event.span.name} == "all_to_all" &&
          lanes[static_cast<std::size_t>(event.lane)].find("send") != std::string::npos)
        sent[static_cast<std::size_t>(event.span.peer)] += event.span.bytes;
    for (int layer = 0; layer < 2; ++layer)
      for (const RoutedMicrobatch& routed : run.log->calls(rank->id, layer))
        for (std::size_t to = 0; to < 4; ++to)
          if (static_cast<int>(to) != rank->id) derived[to] += bytes_to(to, routed, run.moe, row);
    CAPTURE(rank->id);
    CHECK(sent == derived);
    CHECK(run.log->calls(rank->id, 0).size() == steps);
  }
}

TEST_CASE("a followed token arrives in the row of the expert's matrix that its way names") {
  for (const double capacity : {0.0, 0.75}) {
    CAPTURE(capacity);
    ExpertRun run{4, 4, {.experts = 8, .top_k = 2, .capacity_factor = capacity}};
    constexpr std::int64_t tokens = 40;
    std::mt19937 random{7};
    std::vector<RoutedMicrobatch> routed(4);
    std::vector<const RoutedMicrobatch*> members;
    for (RoutedMicrobatch& each : routed) {
      for (std::int64_t token = 0; token < tokens; ++token) {
        const auto first = static_cast<std::int32_t>(random() % 8);
        each.choices.insert(each.choices.end(),
                            {first, static_cast<std::int32_t>((first + 1 + random() % 7) % 8)});
      }
      each.kept = route(each.choices, run.moe).kept;
      members.push_back(&each);
    }
    CHECK(on_all(run.options, [&](Rank& rank) -> std::string {
            const auto me = static_cast<std::size_t>(rank.id);
            const LayerSite site{
                .config = rank.plan.model(), .device = rank.device, .groups = &rank.groups};
            const TokenExchange exchange{site, &rank.group(Axis::ep), run.moe.experts};
            const Routing routing = route(routed[me].choices, run.moe);
            const TokenExchange::Rows rows = exchange.announce(routing);
            const auto width = static_cast<std::size_t>(site.config.hidden);
            std::vector<float> out;  // each row names its rank and its token
            for (const std::int32_t token : routing.tokens)
              out.insert(out.end(), width, static_cast<float>(100 * rank.id + token));
            Tensor mine = exchange.outgoing(routing.rows());
            rank.device.compute.write(out.data(), mine);
            const Tensor theirs = exchange.dispatch(std::move(mine), rows);
            std::vector<float> in(static_cast<std::size_t>(theirs.elements()));
            rank.device.compute.read(theirs, in.data());

            std::int64_t arrived = 0;
            for (std::size_t sender = 0; sender < members.size(); ++sender)
              for (std::int64_t token = 0; token < tokens; ++token)
                for (const TokenHop& hop : hops_of(members, sender, token, run.moe)) {
                  if (hop.member != me || hop.slot < 0) continue;
                  ++arrived;
                  const bool second = hop.expert % 2 == 1;  // of this rank's two experts
                  if (hop.rows != rows.of_expert[second ? 1 : 0]) return "another number of rows";
                  const std::int64_t row = hop.row + (second ? rows.of_expert[0] : 0);
                  if (in.at(static_cast<std::size_t>(row) * width) !=
                      static_cast<float>(100 * static_cast<std::int64_t>(sender) + token))
                    return fmt::format("row {} of rank {} is another token's; ", row, rank.id);
                }
            return arrived == rows.total() ? "" : "rows that belong to no token";
          }) == "");
  }
}

TEST_CASE("a choice that differs from the ranks' is reported; in a tie, one device follows them") {
  for (const bool tie : {true, false}) {
    ExpertRun run{2, 2, {.experts = 4, .top_k = 1}};
    run.options.run.steps = 1;
    CHECK(on_all(run.options, [&](Rank& rank) {
            std::string wrong;
            train_experts(rank, run, wrong);
            return wrong;
          }) == "");
    // Pretends that the second rank had chosen another expert for token 5 in layer 1.
    std::int32_t& choice = run.log->calls(1, 1).front().choices[5];
    choice = (choice + 1) % 4;
    const Plan plan = run.options.plan.on_one_device();
    SoloDevice device;
    Gpt model{plan, plan.place(0), device};
    if (tie)
      for (Parameter* parameter : model.parameters())
        if (parameter->order % orders_of_a_unit == static_cast<int>(ExpertSlot::router))
          std::fill_n(parameter->value.f32(), parameter->value.elements(), 0.0F);
    const Batch batch =
        copies_corpus(run.options.plan.model()).batch(1, 0, {.microbatches = 2, .size = 4});
    accumulate_gradients(model, batch);
    bool found = false;
    for (const Flip& flip : run.log->flips()) {
      CHECK(flip.adopted == tie);
      found = found || (flip.replica == 1 && flip.layer == 1 && flip.token == 5);
    }
    CHECK(found);
    if (!tie) CHECK(run.log->flips().size() == 1);
    CHECK((run.log->closest() == 0) == tie);
    CHECK(run.log->compared() == 2 * 2 * 4 * 24);
  }
}

TEST_CASE(
    "one device compares its choices only with recorded ones, and only until the replay ends") {
  ExpertRun run{2, 2, {.experts = 4, .top_k = 1}};
  run.options.run.steps = 1;
  // In this model, all experts are equally probable, so one device would adopt any recorded choice.
  const auto train_tied = [&] {
    const Plan plan = run.options.plan.on_one_device();
    SoloDevice device;
    Gpt model{plan, plan.place(0), device};
    for (Parameter* parameter : model.parameters())
      if (parameter->order % orders_of_a_unit == static_cast<int>(ExpertSlot::router))
        std::fill_n(parameter->value.f32(), parameter->value.elements(), 0.0F);
    accumulate_gradients(
        model, copies_corpus(run.options.plan.model()).batch(1, 0, {.microbatches = 2, .size = 4}));
  };
  const auto train_ranks = [&] {
    CHECK(on_all(run.options, [&](Rank& rank) {
            std::string wrong;
            train_experts(rank, run, wrong);
            return wrong;
          }) == "");
  };
  train_tied();  // no rank has recorded anything
  CHECK(run.log->compared() == 0);
  train_ranks();
  CHECK(run.log->calls(0, 0).front().choices.size() == 4 * 24);
  run.log->end_replay();
  train_tied();
  CHECK(run.log->compared() == 0);
  CHECK(run.log->flips().empty());

  run.settle(/*replayed=*/false);
  train_ranks();
  CHECK(run.log->calls(0, 0).front().choices.empty());
  CHECK(run.log->calls(0, 0).front().chosen.size() == 4);
}

TEST_CASE("a choice that differs without a near-tie is a difference; a near-tie is none") {
  RoutingRecord log;
  log.add({{.distance = 1e-7F, .adopted = true}}, 96, 1e-7F);
  CHECK(different_choices(log) == "");
  log.add({{.distance = 0.1F}, {.distance = 0.2F}}, 96, 1e-7F);
  CHECK(different_choices(log) ==
        "for 2 of 192 choices (tokens x layers), the ranks and one device chose different experts, "
        "and not because of a near-tie");
}

TEST_CASE("the gradient of the batch's load-balance loss matches finite differences") {
  constexpr int ranks = 2, microbatches = 3;
  constexpr std::int64_t tokens = 10;  // per microbatch
  ExpertRun run{ranks, ranks, {.experts = 4, .top_k = 2, .balance = 0.7}};
  run.moe.balance_over_batch = true;
  run.moe.batch_tokens = ranks * microbatches * tokens;
  BalanceOracle oracle{.experts = 4,
                       .k = 2,
                       .hidden = static_cast<std::size_t>(run.options.plan.model().hidden),
                       .coefficient = run.moe.balance,
                       .x = {}};
  std::mt19937 random{5};
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < run.moe.batch_tokens; ++i)
    for (std::size_t j = 0; j < oracle.hidden; ++j)  // microbatches differ in what they prefer
      oracle.x.push_back(
          normal(random) +
          static_cast<float>(static_cast<std::int64_t>(j % 6) == i / tokens ? 2 : 0));
  std::vector<float> weight;
  std::vector<double> gradient(oracle.hidden * oracle.experts);  // summed over the ranks
  std::mutex mutex;
  CHECK(on_all(run.options, [&](Rank& rank) -> std::string {
          const LayerSite site{.config = rank.plan.model(),
                               .device = rank.device,
                               .seed = 1,
                               .layer = 0,
                               .groups = &rank.groups};
          UnreadRoutingLog log;
          Router router{site, run.moe, log.watch(site, run.moe, 0)};
          std::vector<Parameter*> parameters;
          router.collect(parameters);
          std::fill_n(parameters[0]->gradient.f32(), parameters[0]->gradient.elements(), 0.0F);
          const std::int64_t h = site.config.hidden;
          std::vector<Router::Saved> saved(microbatches);
          std::vector<Stash> stashes(microbatches);
          std::vector<Routing> routings;
          for (std::size_t i = 0; i < microbatches; ++i) {
            Tensor x{rank.memory, {1, tokens, h}, MemoryCategory::activations};
            const auto first = (static_cast<std::size_t>(rank.id) * microbatches + i) * tokens;
            rank.device.compute.write(oracle.x.data() + first * oracle.hidden, x);
            routings.push_back(router.forward(std::move(x), saved[i], stashes[i]));
          }
          Tensor dweights{rank.memory, {tokens, 2}, MemoryCategory::activations};
          std::fill_n(dweights.f32(), dweights.elements(), 0.0F);
          for (std::size_t i = 0; i < microbatches; ++i) {
            router.backward_input(dweights, saved[i], routings[i], {1, tokens, h}, stashes[i]);
            router.backward_weight(stashes[i]);
          }
          const std::lock_guard lock{mutex};
          for (std::size_t i = 0; i < gradient.size(); ++i)
            gradient[i] += static_cast<double>(parameters[0]->gradient.f32()[i]);
          weight.assign(parameters[0]->value.f32(), parameters[0]->value.f32() + gradient.size());
          return "";
        }) == "");
  const std::vector<double> f = oracle.shares(weight);
  constexpr float step = 1.0F / 256;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    CAPTURE(i);
    std::vector<float> above = weight, below = weight;
    above[i] += step;
    below[i] -= step;
    const double expected = (oracle.loss(above, f) - oracle.loss(below, f)) /
                            (static_cast<double>(above[i]) - static_cast<double>(below[i]));
    CHECK(gradient[i] == doctest::Approx(expected).epsilon(1e-3).scale(1e-2));
  }
}

TEST_CASE("synthetic routings: k choices per token, equal or by popularity") {
  for (const int experts : {1, 3, 8, 64})
    for (const int k : {1, 2, experts}) {
      if (k > experts) continue;
      MixtureOfExperts moe{.experts = experts, .top_k = k};
      const Routing even = synthetic_routing(100, 0, moe);
      moe.synthetic = SyntheticRouting::zipf;
      const Routing popular = synthetic_routing(100, 0, moe);
      for (const Routing* routing : {&even, &popular}) {
        CHECK(std::accumulate(routing->chosen.begin(), routing->chosen.end(), std::int64_t{0}) ==
              100 * k);
        CHECK(std::ranges::max(routing->chosen) <= 100);
      }
      CHECK(std::ranges::max(even.chosen) - std::ranges::min(even.chosen) <= 1);
      if (experts == 64 && k == 1) CHECK(std::ranges::max(popular.chosen) > 15);
    }
}
