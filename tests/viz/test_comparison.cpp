// The comparison of two steps, compared with examples worked out by hand and with
// viz/read/timeline's analysis.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/trace/writer.h"
#include "tests/viz/sample_run.h"
#include "viz/data/window/comparison.h"
#include "viz/data/window/comparison_words.h"
#include "viz/read/timeline/older.h"
#include "viz/read/timeline/pipeline_analysis.h"
#include "viz/read/timeline/reader.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

using Unit = ComparedValue::Unit;

void span(Timeline& timeline, int rank, int tid, Category category, Picoseconds start,
          Picoseconds end, int stage = -1, int microbatch = -1, const char* name = "",
          std::int64_t bytes = -1) {
  TimelineSpan span{.start = start, .end = end, .bytes = bytes, .step = 0};
  span.name = timeline.intern(name);
  span.category = category;
  span.stage = stage;
  span.microbatch = microbatch;
  infer_facts(span, name, timeline.lane(rank, tid));
  timeline.add(rank, tid, span);
}

void action(Timeline& timeline, int rank, char op, int microbatch, Picoseconds start) {
  const bool forward = op == 'F';
  span(timeline, rank, 0, forward ? Category::forward : Category::backward, start,
       start + (forward ? 1 : 2), rank, microbatch);
}

void memory(Timeline& timeline, int rank, Picoseconds at, std::int64_t activations) {
  MemorySample held{.at = at};
  held.bytes[static_cast<std::size_t>(MemoryCategory::activations)] = activations;
  held.bytes[static_cast<std::size_t>(MemoryCategory::parameters)] = 100;
  timeline.sample_memory(rank, held);
}

/// Two stages, two microbatches, forward 1, backward 2, free messages.
void play_gpipe(Timeline& timeline) {
  for (const auto& [op, microbatch, start] :
       {std::tuple{'F', 0, 0}, {'F', 1, 1}, {'B', 0, 5}, {'B', 1, 7}})
    action(timeline, 0, op, microbatch, start);
  for (const auto& [op, microbatch, start] :
       {std::tuple{'F', 0, 1}, {'F', 1, 2}, {'B', 0, 3}, {'B', 1, 5}})
    action(timeline, 1, op, microbatch, start);
  for (int rank = 0; rank < 2; ++rank) {
    span(timeline, rank, 1, Category::communication, 1, 2, -1, -1, "send", 64);
    memory(timeline, rank, 1, 50);
    memory(timeline, rank, 3, 100);
    memory(timeline, rank, 9, 0);
  }
  timeline.settle();
}

void play_1f1b(Timeline& timeline) {
  for (const auto& [op, microbatch, start] :
       {std::tuple{'F', 0, 0}, {'F', 1, 1}, {'B', 0, 4}, {'B', 1, 7}})
    action(timeline, 0, op, microbatch, start);
  for (const auto& [op, microbatch, start] :
       {std::tuple{'F', 0, 1}, {'B', 0, 2}, {'F', 1, 4}, {'B', 1, 5}})
    action(timeline, 1, op, microbatch, start);
  span(timeline, 0, 1, Category::communication, 1, 2, -1, -1, "send", 64);
  span(timeline, 1, 1, Category::communication, 1, 2, -1, -1, "send", 96);
  memory(timeline, 0, 1, 100);
  memory(timeline, 1, 2, 50);
  timeline.settle();
}

const ComparedValue* find(const std::vector<ComparedValue>& values, const std::string& name) {
  for (const ComparedValue& value : values)
    if (value.name == name) return &value;
  return nullptr;
}

/// Returns whether a sentence has exactly these values, except for the last digits.
using Values = std::map<std::string, double>;
bool has_values(const Sentence& sentence, const Values& expected) {
  const Values values{sentence.values.begin(), sentence.values.end()};
  return std::ranges::equal(values, expected, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second == doctest::Approx(y.second).epsilon(1e-9);
  });
}

}  // namespace

TEST_CASE("two steps by hand: the same bubble, less memory, more bytes") {
  Timeline gpipe, one_f_one_b;
  play_gpipe(gpipe);
  play_1f1b(one_f_one_b);
  const StepMetrics a = step_metrics(gpipe, 0), b = step_metrics(one_f_one_b, 0);
  CHECK(a.window == Interval{0, 9});
  CHECK(b.window == Interval{0, 9});
  REQUIRE(a.ranks.size() == 2);
  // Rank 0 has no work from 2 to 5, or from 2 to 4 and 6 to 7. Rank 1's step, from 0 or 1 to 7,
  // has no gaps; the pipeline's last action ends at 9, 8 after rank 1's step began.
  CHECK(a.time() == 9);
  CHECK(a.ranks[0].idle == 3);
  CHECK(b.ranks[0].idle == 3);
  CHECK(a.ranks[1].idle == 3);
  CHECK(a.account.ranks[1].sums.cool_down == 2);
  CHECK(a.account.ranks[1].sums.ended == 1);
  CHECK(a.ranks[1].in_flight == 2);
  CHECK(b.ranks[1].in_flight == 1);
  CHECK(b.in_flight() == 2);
  CHECK(*a.ranks[0].memory == 200);
  CHECK(*a.ranks[0].activations == 100);
  CHECK(*b.ranks[1].memory == 150);

  const auto values = compare_steps(a, b, false);
  REQUIRE(find(values, "step"));
  CHECK(*find(values, "step")->difference() == 0);
  CHECK(difference_words(*find(values, "step")) == "=");
  CHECK_FALSE(find(values, "step")->part);
  CHECK(find(values, "compute")->part);
  CHECK(*find(values, "compute")->a == 6);
  const ComparedValue& bubble_value = *find(values, "bubble, first to last action");
  CHECK(*bubble_value.a == doctest::Approx(1.0 / 3));
  CHECK(*bubble_value.difference() == 0);
  CHECK_FALSE(bubble_value.relative());
  const ComparedValue& sent = *find(values, "bytes sent");
  CHECK(*sent.a == 128);
  CHECK(*sent.b == 160);
  CHECK(difference_words(sent) == "+32 B");
  CHECK(relative_words(sent) == "+25.0 %");
  CHECK(relative_words({.a = 10, .b = 143}) == "×14.3");
  CHECK(relative_words({.a = 1e6, .b = 1e6 - 1}) == "-0.0 %");
  CHECK(*find(values, "microbatches in flight")->b == 2);

  const auto ranks = compare_ranks(a, b, false);
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[0].marked() == nullptr);
  REQUIRE(ranks[1].marked());  // 50 % more bytes, 25 % less memory
  CHECK(ranks[1].marked()->name == "sent");
  CHECK(relative_words(ranks[1].memory) == "-25.0 %");
  CHECK(difference_words(ranks[1].memory) == "-50 B");
  CHECK(difference_words(ranks[1].idle) == "=");
}

TEST_CASE("every number equals the analysis of viz/read/timeline") {
  Timeline one, other;
  read_sample(sample_traces(sample_gpipe(4, 8, 3)), one);
  read_sample(sample_traces(sample_1f1b(4, 6, 3)), other);
  for (const auto& [timeline, step] : {std::pair{&one, 1}, {&other, 2}}) {
    const StepMetrics metrics = step_metrics(*timeline, step);
    const StepAccount account = step_account(*timeline, step);
    CHECK(metrics.time() == account.length);
    CHECK(metrics.window == account.ranks[0].time);
    CHECK(metrics.account.sum() == account.sum());
    REQUIRE(metrics.bubble);
    CHECK(metrics.bubble->idle() == bubble(*timeline, step)->idle());
    CHECK_FALSE(metrics.separate_weights);
    const auto in_flight = microbatches_in_flight(*timeline, step);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const StepSums& sums = account.ranks[rank].sums;
      CHECK(metrics.ranks[rank].idle == account.length - sums.compute - sums.optimizer);
      int most = 0;
      for (const InFlight& each : in_flight[rank]) most = std::max(most, each.microbatches);
      CHECK(metrics.ranks[rank].in_flight == most);
      CHECK(metrics.ranks[rank].sent == bytes_sent(*timeline, *timeline->ranks()[rank], step));
      CHECK(*metrics.ranks[rank].memory ==
            memory_peak(*timeline, *timeline->ranks()[rank], step)->total());
    }
  }
  CHECK(step_metrics(one, 17).step == -1);
  // The parts add up to the step on both sides.
  const StepMetrics a = step_metrics(one, 1), b = step_metrics(other, 2);
  double sum_a = 0, sum_b = 0;
  for (const ComparedPart& part : compare_parts(a, b)) {
    sum_a += part.a;
    sum_b += part.b;
  }
  CHECK(sum_a == doctest::Approx(static_cast<double>(a.time())).epsilon(1e-12));
  CHECK(sum_b == doctest::Approx(static_cast<double>(b.time())).epsilon(1e-12));
}

TEST_CASE("the parts of two steps are compared") {
  const auto play = [](Timeline& timeline, Picoseconds wait, Picoseconds hidden) {
    timeline.run().clock = "wall";
    for (int rank = 0; rank < 2; ++rank) {
      span(timeline, rank, 0, Category::backward, 0, 10 * us);
      span(timeline, rank, 1, Category::communication, 10 * us - hidden, 10 * us + wait, -1, -1,
           "all_reduce", 8);
      span(timeline, rank, 0, Category::wait, 10 * us, 10 * us + wait, -1, -1, "all_reduce");
      span(timeline, rank, 0, Category::optimizer, 10 * us + wait, 12 * us + wait);
    }
    timeline.settle();
  };
  Timeline plain, overlapped;
  play(plain, 8 * us, 0);
  play(overlapped, 2 * us, 6 * us);
  const StepMetrics a = step_metrics(plain, 0), b = step_metrics(overlapped, 0);
  CHECK_FALSE(a.bubble);
  CHECK(a.time() == 20 * us);
  CHECK(a.ranks[0].idle == 8 * us);
  CHECK(b.ranks[1].idle == 2 * us);
  const auto values = compare_steps(a, b, false);
  CHECK(find(values, "bubble") == nullptr);
  CHECK(find(values, "bubble, first to last action") == nullptr);
  CHECK(*find(values, "compute")->difference() == 0);
  CHECK(*find(values, "communication exposed")->difference() == -6.0 * us);
  CHECK(*find(values, "communication exposed")->relative() == doctest::Approx(-0.75));
  const auto sentences = comparison_sentences(a, b, {}, false);
  REQUIRE(sentences.size() == 3);
  CHECK(sentences[0].text ==
        "A step of B takes 30.0 % less time than one of A: 14.0 µs instead of 20.0 µs.");
  CHECK(has_values(sentences[0], {{"a", 20e-6}, {"b", 14e-6}, {"relative", -0.3}}));
  CHECK(sentences[1].text ==
        "Of the 6.00 µs saved, exposed communication accounts for 6.00 µs (means over ranks).");
  CHECK(has_values(sentences[1], {{"communication exposed", -6e-6}, {"difference", -6e-6}}));
  CHECK(sentences[2].claim == Claim::bytes_sent);
}

TEST_CASE("the configurations' differences come from the headers") {
  const auto hello = [](Timeline& timeline, const TraceHello& from) {
    TraceReader reader{timeline};
    reader.feed(hello_line(from));
    reader.finish();
  };
  TraceHello first{.run = "a",
                   .lesson = "08 GPipe",
                   .ranks = 4,
                   .mesh = R"({"pp": 4, "dp": 1})",
                   .clock = "modelled",
                   .cluster = "classroom",
                   .cluster_description = R"({"name": "classroom", "nodes": 1})",
                   .config = R"({"layers": 8, "batch": 16, "microbatches": [4, 8]})",
                   .predicted = R"({"schedule": "GPipe", "stages": 4, "microbatches": 8})"};
  TraceHello second = first;
  second.run = "b";
  second.lesson = "09 1F1B";
  second.config = R"({"layers": 12, "batch": 16, "microbatches": [8], "learning_rate": 0.1})";
  second.predicted = R"({"schedule": "1F1B", "stages": 4, "microbatches": 8})";
  const auto compare = [&] {
    Timeline a, b;
    hello(a, first);
    hello(b, second);
    return compare_configurations(a, 0, b, 0);
  };
  const Configurations found = compare();
  CHECK(found.different == std::vector<ConfigurationEntry>{{"lesson", "08 GPipe", "09 1F1B"},
                                                           {"schedule", "GPipe", "1F1B"},
                                                           {"layers", "8", "12"},
                                                           {"learning rate", "", "0.1"}});
  CHECK(found.same == std::vector<std::string>{"stages", "microbatches", "clock", "cluster",
                                               "ranks", "mesh", "device", "launch", "batch"});
  CHECK_FALSE(found.clocks_differ);
  CHECK(found.without_model.empty());

  // A cluster with the same name may have different figures.
  second = first;
  second.cluster_description = R"({"name": "classroom", "nodes": 2})";
  REQUIRE(compare().different.size() == 1);
  CHECK(compare().different[0].name == "cluster's figures");

  second = first;
  second.clock = "wall";
  second.cluster = second.cluster_description = "";
  second.mesh = R"({"pp": 2, "dp": 2})";
  second.config = "{}";
  const Configurations clocks = compare();
  CHECK(clocks.clocks_differ);
  CHECK(clocks.without_model == "B");
  CHECK(clocks.different[0] == ConfigurationEntry{"clock", "modelled", "wall"});
  CHECK(clocks.different[1] == ConfigurationEntry{"cluster", "classroom", ""});
  CHECK(clocks.different[2] == ConfigurationEntry{"mesh", "pp 4", "pp 2 × dp 2"});
  Timeline a, b;
  hello(a, first);
  hello(b, second);
  CHECK(clock_warning(a, b) == "Times cannot be compared: A's are modelled, B's are measured.");
  CHECK(clock_warning(a, a).empty());
}

TEST_CASE("if the clocks differ, times have no difference") {
  Timeline gpipe, one_f_one_b;
  play_gpipe(gpipe);
  play_1f1b(one_f_one_b);
  const StepMetrics a = step_metrics(gpipe, 0), b = step_metrics(one_f_one_b, 0);
  for (const ComparedValue& value : compare_steps(a, b, true)) {
    CAPTURE(value.name);
    const bool timed = value.unit == Unit::time || value.unit == Unit::share;
    CHECK(value.difference().has_value() == !timed);
    CHECK((difference_words(value) == "-") == timed);
  }
  for (const ComparedRank& rank : compare_ranks(a, b, true)) {
    CHECK_FALSE(rank.idle.difference());
    CHECK(rank.memory.difference());
  }
  for (const Sentence& sentence : comparison_sentences(a, b, {}, true))
    CHECK((sentence.claim == Claim::peak_memory || sentence.claim == Claim::bytes_sent));
}

TEST_CASE("1F1B is no faster than GPipe, has the same parts, and needs less memory") {
  const auto explain = [](double latency, double bandwidth) {
    SampleRun gpipe = sample_gpipe(4, 8, 3), one_f_one_b = sample_1f1b(4, 8, 3);
    gpipe.times.cluster.within = one_f_one_b.times.cluster.within = {latency, bandwidth};
    Timeline a, b;
    read_sample(sample_traces(gpipe), a);
    read_sample(sample_traces(one_f_one_b), b);
    return comparison_sentences(step_metrics(a, 1), step_metrics(b, 1), compared_names(a, 1, b, 1),
                                false);
  };
  const auto free = explain(0, 1e30);
  REQUIRE(free.size() == 4);
  CHECK(free[0].text == "B (1f1b) is no faster than A (GPipe): both steps take 35.0 ms.");
  CHECK(free[1].text ==
        "All parts are equal as well: compute 24.0 ms, optimizer 2.0 ms and bubble 9.0 ms per "
        "rank.");
  CHECK(has_values(free[1], {{"compute", 24e-3}, {"optimizer", 2e-3}, {"bubble", 9e-3}}));
  CHECK(free[2].text ==
        "B (1f1b) needs 28.0 % less memory than A (GPipe): the highest peak of a rank is 2.67 MB "
        "instead of 3.71 MB. At the peak, activations take 1.03 MB instead of 2.03 MB. The "
        "rank "
        "with the peak has at most 4 microbatches in flight instead of 8.");
  CHECK(free[3].text == "Both send the same number of bytes, 786 kB.");
  // The same schedule with itself.
  Timeline run;
  read_sample(sample_traces(sample_1f1b(4, 8, 3)), run);
  const auto same = comparison_sentences(step_metrics(run, 1), step_metrics(run, 2),
                                         compared_names(run, 1, run, 2), false);
  CHECK(same[0].text == "Both steps take 37.1 ms.");
  CHECK(same[1].text.starts_with("All parts are equal as well: compute 24.0 ms"));
  CHECK(same[2].text == "Peak memory is the same, 2.67 MB.");
  // A report of zero bytes differs from a missing report.
  StepMetrics without = step_metrics(run, 0);
  for (RankMetrics& rank : without.ranks) rank.memory = 0;
  CHECK(comparison_sentences(without, step_metrics(run, 0), {}, false)[2].text ==
        "Only B reports memory: 2.67 MB.");
  // 1F1B has more messages on its critical path, so slow messages make it slower.
  const auto slow = explain(5e-5, 2e8);
  CHECK(slow[0].text ==
        "A step of B (1f1b) takes 3.7 % more time than one of A (GPipe): 37.1 ms instead of "
        "35.8 ms.");
  CHECK(slow[1].claim == Claim::changed_parts);
}

namespace {

/// Returns the metrics of a step whose ranks all have these parts.
StepMetrics metrics_with(StepSums sums, std::vector<std::string> axes, std::size_t ranks = 2) {
  StepMetrics metrics{.step = 0};
  metrics.account.step = 0;
  metrics.account.axes = std::move(axes);
  metrics.account.length = sums.total();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    metrics.account.ranks.push_back({.rank = static_cast<int>(rank), .sums = sums});
    metrics.ranks.push_back({.rank = static_cast<int>(rank)});
  }
  return metrics;
}

const Sentence* find(const std::vector<Sentence>& sentences, Claim claim) {
  for (const Sentence& sentence : sentences)
    if (sentence.claim == claim) return &sentence;
  return nullptr;
}

}  // namespace

TEST_CASE("the rank whose compute changes more than that of the others is named") {
  // Forward passes of 10 µs; in B, rank 1's takes 13 µs, and the others' take `others`.
  const auto metrics = [](Picoseconds slow, Picoseconds others) {
    Timeline timeline;
    for (int rank = 0; rank < 3; ++rank)
      span(timeline, rank, 0, Category::forward, 0, (rank == 1 ? slow : others) * us);
    timeline.settle();
    return step_metrics(timeline, 0);
  };
  const StepMetrics a = metrics(10, 10), b = metrics(13, 10);
  const auto sentence_of = [&](const StepMetrics& before, const StepMetrics& after) {
    for (const Sentence& sentence : comparison_sentences(before, after, {}, false))
      if (sentence.claim == Claim::changed_rank) return sentence;
    return Sentence{};
  };
  const Sentence slower = sentence_of(a, b);
  CHECK(slower.text ==
        "In B, rank 1 computes 1.30 times as long as in A: 13.0 µs instead of 10.0 µs. The compute "
        "of no other rank changes as much.");
  CHECK(has_values(slower, {{"rank", 1}, {"a", 10e-6}, {"b", 13e-6}}));
  CHECK(sentence_of(b, a).text.starts_with("In B, rank 1 computes 0.769 times as long as in A"));
  CHECK(sentence_of(a, metrics(20, 13)).text.starts_with("In B, rank 1 computes 2 times as long"));
  CHECK(sentence_of(a, a).text.empty());
  CHECK(sentence_of(a, metrics(13, 13)).text.empty());  // all change alike
  CHECK(sentence_of(a, {}).text.empty());
  for (const Sentence& sentence : comparison_sentences(a, b, {}, true))
    CHECK(sentence.claim != Claim::changed_rank);  // times can't be compared

  const auto ranks = compare_ranks(a, b, false);
  REQUIRE(ranks.size() == 3);
  CHECK(brief_words(ranks[1].compute) == "+30 %");
  CHECK(ranks[1].marked() == &ranks[1].compute);
  CHECK(brief_words(ranks[0].compute) == "=");
}

TEST_CASE("the largest changes are named until they make up nine tenths") {
  const auto words = [](const StepMetrics& a, const StepMetrics& b) {
    const auto sentences = comparison_sentences(a, b, {}, false);
    const Sentence* parts = find(sentences, Claim::changed_parts);
    return parts ? parts->text : "";
  };
  const StepMetrics a =
      metrics_with({.compute = 100 * ms, .axes = {{.transfer = 10 * ms}}}, {"dp"});
  // With 19 of 20 ms, dp makes up more than nine tenths.
  CHECK(words(a, metrics_with({.compute = 101 * ms, .axes = {{.transfer = 29 * ms}}}, {"dp"})) ==
        "Of the 20.0 ms added, dp's exposed communication accounts for 19.0 ms (means over "
        "ranks).");
  CHECK(words(a, metrics_with({.compute = 100 * ms,
                               .axes = {{.transfer = 5 * ms}, {.latency = 25 * ms}},
                               .warm_up = 4 * ms},
                              {"tp", "dp"})) ==
        "Of the 24.0 ms added, dp's exposed communication accounts for 15.0 ms, tp's exposed "
        "communication 5.0 ms and the bubble 4.0 ms (means over ranks).");
  // Two parts change in opposite directions.
  CHECK(words(a, metrics_with({.compute = 90 * ms, .axes = {{.transfer = 22 * ms}}}, {"dp"})) ==
        "Per rank, dp's exposed communication takes 12.0 ms more and compute 10.0 ms less; all "
        "parts together 2.0 ms more.");
  CHECK(words(a, metrics_with({.compute = 90 * ms, .axes = {{.transfer = 20 * ms}}}, {"dp"})) ==
        "Per rank, compute takes 10.0 ms less and dp's exposed communication 10.0 ms more.");
  // Differences that the printed times do not show are ignored.
  CHECK(words(a, metrics_with({.compute = 100 * ms + 3 * us, .axes = {{.transfer = 10 * ms}}},
                              {"dp"})) ==
        "All parts are equal as well: compute 100 ms and exposed dp 10 ms per rank.");
  const auto close = comparison_sentences(
      a, metrics_with({.compute = 100 * ms + 3 * us, .axes = {{.transfer = 10 * ms}}}, {"dp"}), {},
      false);
  CHECK(close[0].text == "Both steps take 110 ms.");
  // A difference that the times show, but the share does not.
  const auto small = comparison_sentences(metrics_with({.compute = 9'990 * us}, {}),
                                          metrics_with({.compute = 9'994'900'000}, {}), {}, false);
  CHECK(small[0].text == "Both steps take 9.99 ms.");
  const auto tiny = comparison_sentences(metrics_with({.compute = 990'400 * us}, {}),
                                         metrics_with({.compute = 990'600 * us}, {}), {}, false);
  CHECK(tiny[0].text ==
        "A step of B takes 200 µs more time than one of A: 991 ms instead of 990 ms.");
  CHECK(has_values(tiny[0], {{"a", 0.9904}, {"b", 0.9906}, {"difference", 0.0002}}));
  CHECK(comparison_sentences(a, metrics_with({.compute = 230 * ms}, {}), {}, false)[0].text ==
        "A step of B takes 2.09 times the time of one of A: 230 ms instead of 110 ms.");
}

TEST_CASE("weight gradients at the end are named only if one of the steps has them") {
  StepMetrics a = metrics_with({.compute = 12 * ms, .waiting = 6 * ms}, {});
  StepMetrics b = metrics_with({.compute = 12 * ms, .waiting = 4 * ms}, {});
  a.bubble = b.bubble = Bubble{.window = ms, .busy = ms, .ranks = 2};
  CHECK_FALSE(find(comparison_sentences(a, b, {}, false), Claim::weight_gradients));
  b.separate_weights = true;
  b.weights_at_end = 5 * ms;
  b.weights = 8 * ms;
  const auto sentences = comparison_sentences(a, b, {}, false);
  const Sentence* fill = find(sentences, Claim::weight_gradients);
  REQUIRE(fill);
  CHECK(fill->text ==
        "B splits its backward passes, and A does not. Weight gradients take 4.00 ms per rank, of "
        "which 2.50 ms come after the rank's last input gradient; the bubble of B is 2.00 ms "
        "shorter: 4.00 ms per rank instead of 6.00 ms.");
  CHECK(has_values(*fill, {{"weights", 4e-3},
                           {"weights_at_end", 2.5e-3},
                           {"bubble_a", 6e-3},
                           {"bubble_b", 4e-3},
                           {"difference", -2e-3}}));
  const auto turned = comparison_sentences(b, a, {}, false);
  CHECK(find(turned, Claim::weight_gradients)
            ->text.starts_with("A splits its backward passes, and B does not."));
  a.separate_weights = true;
  CHECK_FALSE(find(comparison_sentences(a, b, {}, false), Claim::weight_gradients));
}

TEST_CASE("the time of weight gradients after the last input gradient, by hand") {
  // Rank 0: F0 I0 W0 F1 I1 W1: only W1 follows the last I.
  Timeline timeline;
  const Category order[] = {Category::forward, Category::backward_input, Category::backward_weight};
  for (int i = 0; i < 6; ++i)
    span(timeline, 0, 0, order[i % 3], 10 * i, 10 * i + 10 - (i == 5 ? 3 : 0), 0, i / 3);
  span(timeline, 1, 0, Category::forward, 0, 10, 1, 0);
  timeline.settle();
  const StepMetrics metrics = step_metrics(timeline, 0);
  CHECK(metrics.separate_weights);
  CHECK(metrics.weights_at_end == 7);
  CHECK(metrics.weights == 17);
}

TEST_CASE("steps whose pipelines take as long may differ in data parallelism") {
  // Two stages, each with two replicas; only the all-reduce after the pipeline differs.
  const auto play = [](Timeline& timeline, Picoseconds reduced) {
    timeline.run().clock = "modelled";
    timeline.run().ranks = 2;
    for (int stage = 0; stage < 2; ++stage) {
      span(timeline, stage, 0, Category::forward, stage * ms, (stage + 1) * ms, stage, 0);
      span(timeline, stage, 0, Category::backward, (3 - stage) * ms, (4 - stage) * ms, stage, 0);
      TimelineSpan wait{.start = (4 - stage) * ms,
                        .end = (4 - stage) * ms + reduced,
                        .name = timeline.intern("all_reduce"),
                        .step = 0,
                        .sequence = 0,
                        .group = timeline.intern("dp")};
      wait.category = Category::communication;
      timeline.add(stage, 1, wait);
      wait.category = Category::wait;
      timeline.add(stage, 0, wait);
      span(timeline, stage, 0, Category::step, 0, wait.end);
    }
    timeline.settle();
  };
  Timeline fast, slow;
  play(fast, ms);
  play(slow, 19 * ms);
  const StepMetrics a = step_metrics(fast, 0), b = step_metrics(slow, 0);
  CHECK(a.bubble->window == b.bubble->window);
  const auto sentences = comparison_sentences(a, b, {}, false);
  CHECK(sentences[0].text ==
        "A step of B takes 4.60 times the time of one of A: 23.0 ms instead of 5.0 ms.");
  CHECK(sentences[1].text ==
        "Of the 18.0 ms added, dp's exposed communication accounts for 18.0 ms (means over "
        "ranks).");
}

TEST_CASE("the sentences as JSON") {
  const std::string json =
      sentences_json({{Claim::step_times, "Both \"take\" 1 s.", {{"a", 1}, {"b", 1.5}}},
                      {Claim::bytes_sent, "x"}});
  CHECK(json.find(R"("claim": "step_times")") != std::string::npos);
  CHECK(json.find(R"("text": "Both \"take\" 1 s.")") != std::string::npos);
  CHECK(json.find(R"("b": 1.5)") != std::string::npos);
  CHECK(json.find(R"("values": {})") != std::string::npos);
}

TEST_CASE("numbers in flight are not compared if the chunks differ, but activations are") {
  Timeline plain, chunked;
  read_sample(sample_traces(sample_1f1b(4, 8, 3)), plain);
  read_sample(sample_traces(sample_interleaved(4, 2, 8, 3)), chunked);
  const StepMetrics a = step_metrics(plain, 1), b = step_metrics(chunked, 1);
  CHECK(a.chunks == 1);
  CHECK(b.chunks == 2);
  const auto values = compare_steps(a, b, false);
  CHECK(find(values, "microbatches in flight") == nullptr);
  const ComparedValue* pairs = find(values, "microbatch × chunk in flight");
  REQUIRE(pairs);
  CHECK(*pairs->a == 4);
  CHECK(*pairs->b == 11);
  CHECK_FALSE(pairs->difference());
  const auto sentences = comparison_sentences(a, b, {}, false);
  CHECK(find(sentences, Claim::peak_memory)
            ->text.ends_with(" At the peak, activations take 1.51 MB instead of 1.03 MB."));
  // Two runs with the same number of chunks can be compared.
  CHECK(find(compare_steps(b, b, false), pairs->name)->difference() == 0);
  // Activations are no reason if another category makes up most of the difference.
  StepMetrics parameters = a;
  for (RankMetrics& rank : parameters.ranks) *rank.memory += 5'000'000;
  const auto other = comparison_sentences(parameters, b, {}, false);
  CHECK(find(other, Claim::peak_memory)->text.find("activations") == std::string::npos);
}

TEST_CASE("the steps that a comparison starts with have the same size") {
  Timeline sweep, fixed;
  sweep.run().run = "sweep";
  fixed.run().run = "fixed";
  const auto step = [](Timeline& timeline, int number) {
    TimelineSpan span{.start = 10 * number, .end = 10 * number + 5, .step = number};
    span.category = Category::step;
    timeline.add(0, 0, span);
  };
  for (int i = 0; i < 6; ++i) step(sweep, i);
  for (int i = 0; i < 4; ++i) step(fixed, i);
  sweep.end(0, 6);
  fixed.end(0, 4);
  sweep.predict({.first_step = 0, .stages = 4, .microbatches = 4});
  sweep.predict({.first_step = 2, .stages = 4, .microbatches = 8});
  sweep.predict({.first_step = 4, .stages = 4, .microbatches = 16});
  sweep.settle();
  fixed.settle();
  const auto pair = [](const Timeline& a, const Timeline& b) {
    const auto found = steps_to_compare(a, b).value();
    return std::pair{found.a, found.b};
  };
  CHECK(pair(sweep, fixed) == std::pair<std::size_t, std::size_t>{5, 3});  // no such size
  fixed.predict({.first_step = 0, .stages = 4, .microbatches = 8});
  CHECK(pair(sweep, fixed) == std::pair<std::size_t, std::size_t>{3, 3});
  CHECK(pair(fixed, sweep) == std::pair<std::size_t, std::size_t>{3, 3});
  // A run with itself: the last phase with the one before, or the last two steps.
  CHECK(pair(sweep, sweep) == std::pair<std::size_t, std::size_t>{3, 5});
  CHECK(pair(fixed, fixed) == std::pair<std::size_t, std::size_t>{2, 3});
  CHECK_FALSE(steps_to_compare(Timeline{}, fixed));
}
