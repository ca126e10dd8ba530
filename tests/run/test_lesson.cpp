#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/run/lesson.h"
#include "core/run/reference/parity.h"
#include "core/run/reference/solo_device.h"
#include "core/trace/writer.h"
#include "tests/support/comes_true.h"
#include "tests/support/complaints.h"
#include "tests/support/temporary_folder.h"
#include "viz/read/timeline/reader.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Runs a lesson with `flags` on 2 ranks in threads, without output; returns its exit code.
int run_lesson(
    std::vector<std::string> flags,
    const std::function<void(Lesson&, Rank&)>& body = [](Lesson&, Rank&) {}) {
  static const TemporaryFolder folder;
  static const std::string text = folder.file("text", std::string(1000, 'x'));
  flags.insert(flags.begin(), {"lesson", "--ranks", "2", "--quiet", "--data", text});
  std::vector<char*> words;
  for (std::string& flag : flags) words.push_back(flag.data());
  Lesson lesson{{.name = "99 test", .question = "?", .sweeps = true},
                static_cast<int>(words.size()),
                words.data()};
  return lesson.run([&](Rank& rank) {
    // Every lesson iterates over its batches.
    const auto predicted = Predicted::without_memory("nothing is predicted here");
    for ([[maybe_unused]] const Batch& batch :
         lesson.batches(rank, lesson.phases().front(), predicted)) {
    }
    body(lesson, rank);
  });
}

}  // namespace

TEST_CASE("a sweep divides the steps among its values, every step once, in order") {
  for (int steps = 3; steps < 20; ++steps) {
    std::atomic<int> ranks = 0;
    const int code = run_lesson(
        {"--trace", "none", "--steps", std::to_string(steps), "--microbatches", "1,2,4"},
        [&](Lesson& lesson, Rank&) {
          const std::vector<Phase> phases = lesson.phases();
          bool good = phases.size() == 3;
          int next = 0;
          for (std::size_t i = 0; good && i < phases.size(); ++i) {
            good = phases[i].first_step == next && phases[i].steps >= steps / 3 &&
                   phases[i].steps <= steps / 3 + 1 && phases[i].microbatches == 1 << i &&
                   phases[i].name == "m = " + std::to_string(1 << i);
            next += phases[i].steps;
          }
          if (good && next == steps) ++ranks;
        });
    CHECK(code == 0);
    CHECK(ranks == 2);
  }
}

TEST_CASE("every span that a trace announces as open is closed or withdrawn in it") {
  const TemporaryFolder folder;
  const std::string announced = R"("name":"open")";
  const int code = run_lesson(
      {"--trace", folder.path().string(), "--steps", "1", "--clock", "modelled", "--cluster",
       "free", "--comm", "ring"},
      [&](Lesson&, Rank& rank) {
        std::vector<float> values(10);
        const View view{values.data(), {10}, DType::f32};
        if (rank.id == 0) {
          // Waits until rank 1's trace announces the open span. This wait takes no time on the
          // modelled clock.
          comes_true([&] {
            return read_file(folder.path() / "rank1.json").find(announced) != std::string::npos;
          });
          rank.world.send(view, 1).wait();
        } else {
          rank.world.receive(view, 0).wait();
        }
      });
  CHECK(code == 0);
  Timeline timeline;
  read_traces({folder.path()}, timeline);
  REQUIRE(timeline.ranks().size() == 2);
  for (const auto& rank : timeline.ranks())
    for (const auto& lane : rank->lanes) CHECK(lane->open().empty());
  const std::string written = read_file(folder.path() / "rank1.json");
  CHECK(written.find(announced) != std::string::npos);  // otherwise the test would prove nothing
}

TEST_CASE("two compared schedules share the steps") {
  const auto split = [](int at) {
    std::atomic<int> first = -1, second = -1;
    run_lesson({"--trace", "none", "--steps", "5"}, [&](Lesson& lesson, Rank& rank) {
      if (rank.id != 0) return;
      first = second = 0;
      for (const Phase& phase : lesson.phases("a", "b", at)) {
        (phase.name == "a" ? first : second) = phase.steps;
        if (phase.first_step != (phase.name == "a" ? 0 : first.load())) first = -100;
      }
    });
    return std::pair{first.load(), second.load()};
  };
  CHECK(split(2) == std::pair{2, 3});
  CHECK(split(0) == std::pair{0, 5});
  CHECK(split(9) == std::pair{5, 0});
}

TEST_CASE("a run writes its trace and its report to the given paths") {
  const TemporaryFolder folder;
  const auto run = folder.path() / "run";
  const std::string report = (folder.path() / "report.json").string();
  CHECK(run_lesson({"--trace", run.string(), "--steps", "2", "--report", report}) == 0);
  for (const char* name : {"rank0.json", "rank1.json", "trace.json", "report.json"})
    CHECK(std::filesystem::exists(run / name));
  const auto written = nlohmann::json::parse(read_file(report));
  CHECK(written["lesson"] == "99 test");
  CHECK(written["ranks"] == 2);
}

TEST_CASE("a difference that the lesson's own comparison finds fails the parity check") {
  /// Builds GPT-2, and counts the models.
  struct Counted : ModelBuilder {
    explicit Counted(int& models_) : models(models_) {}
    std::unique_ptr<TokenLayer> embedding(const LayerSite& site) const override {
      ++models;
      return ModelBuilder::embedding(site);
    }
    int& models;
  };
  const TemporaryFolder folder;
  const std::string text = folder.file("text", std::string(1000, 'x'));
  const std::string report = (folder.path() / "report.json").string();
  const auto run = [&](const std::string& found, const std::string& parity) {
    std::vector<std::string> flags{"lesson",   "--ranks",  "1",        "--quiet", "--trace",
                                   "none",     "--data",   text,       "--steps", "1",
                                   "--layers", "1",        "--hidden", "16",      "--parity",
                                   parity,     "--report", report};
    std::vector<char*> words;
    for (std::string& flag : flags) words.push_back(flag.data());
    Lesson lesson{{.name = "99 test", .question = "?", .batch = 2, .microbatches = {1}},
                  static_cast<int>(words.size()),
                  words.data()};
    int models = 0, at_comparison = 0;
    lesson.hooks.build = [&](const Options&) { return std::make_shared<const Counted>(models); };
    lesson.hooks.compare = [&] {
      at_comparison = models;
      return found;
    };
    const int code = lesson.run([&](Rank& rank) {
      Gpt model{rank.plan, rank.place, rank.device, Storage::own, &rank.groups};
      AdamW optimizer{model.parameters(), rank.device, lesson.optimizer()};
      const auto predicted = Predicted::without_memory("nothing is predicted here");
      for (const Batch& batch : lesson.batches(rank, lesson.phases().front(), predicted)) {
        model.zero_gradients();
        const double loss = accumulate_gradients(model, batch);
        optimizer.step();
        lesson.record_loss(rank, loss);
      }
      lesson.finish(rank, model.parameters(), optimizer);
    });
    return std::tuple{code, at_comparison, models};
  };
  // The rank's model, the single-device run's model, and the model that generates text: the
  // comparison comes before the last one.
  CHECK(run("", "on") == std::tuple{0, 2, 3});
  CHECK(!nlohmann::json::parse(read_file(report))["parity"].contains("difference"));
  CHECK(run("two choices differ", "on") == std::tuple{1, 2, 3});
  CHECK(nlohmann::json::parse(read_file(report))["parity"]["difference"] == "two choices differ");
  CHECK(run("two choices differ", "off") == std::tuple{0, 0, 2});
}

TEST_CASE("a lesson's own reference replaces ordinary training on one device") {
  const TemporaryFolder folder;
  const std::string text = folder.file("text", std::string(1000, 'x'));
  // The lesson updates its model twice in each step, which one device does not.
  const auto run = [&](const std::string& kind) {
    std::vector<std::string> flags{"lesson",   "--ranks", "1",        "--quiet", "--trace",
                                   "none",     "--data",  text,       "--steps", "2",
                                   "--layers", "1",       "--hidden", "16"};
    std::vector<char*> words;
    for (std::string& flag : flags) words.push_back(flag.data());
    Lesson lesson{{.name = "99 test", .question = "?", .batch = 2, .microbatches = {1}},
                  static_cast<int>(words.size()),
                  words.data()};
    int calls = 0;
    if (kind != "none")
      lesson.hooks.reference = {
          "a device that hurries", [&](const ReferenceRun& again) -> std::optional<Reference> {
            ++calls;
            if (kind == "nothing") return {};
            SoloDevice one;
            const Plan plan = again.options.plan.on_one_device();
            Gpt model{plan, plan.place(0), one};
            AdamW optimizer{model.parameters(), one, plan.optimizer};
            Reference reference;
            for (int step = 0; step < again.phases.front().steps; ++step) {
              const Batch batch =
                  again.corpus.batch(plan.seed, step, {.microbatches = 1, .size = 2});
              model.zero_gradients();
              reference.losses.push_back(accumulate_gradients(model, batch));
              for (int i = 0; i < (kind == "right" ? 2 : 3); ++i) optimizer.step();
            }
            for (const Parameter* parameter : model.parameters())
              reference.parameters.push_back(
                  {parameter->name, parameter->order, parameter->f32_values(one)});
            return reference;
          }};
    const int code = lesson.run([&](Rank& rank) {
      Gpt model{rank.plan, rank.place, rank.device};
      AdamW optimizer{model.parameters(), rank.device, lesson.optimizer()};
      const auto predicted = Predicted::without_memory("nothing is predicted here");
      for (const Batch& batch : lesson.batches(rank, lesson.phases().front(), predicted)) {
        model.zero_gradients();
        const double loss = accumulate_gradients(model, batch);
        optimizer.step();
        optimizer.step();
        lesson.record_loss(rank, loss);
      }
      lesson.finish(rank, model.parameters(), optimizer);
    });
    return std::pair{code, calls};
  };
  CHECK(run("none") == std::pair{1, 0});
  CHECK(run("right") == std::pair{0, 1});
  CHECK(run("wrong") == std::pair{1, 1});
  CHECK(run("nothing") == std::pair{1, 1});
}

TEST_CASE("a run on the meta device reports its counts, and no losses") {
  const TemporaryFolder folder;
  const std::string report = (folder.path() / "report.json").string();
  const int code =
      run_lesson({"--device", "meta", "--trace", "none", "--steps", "2", "--report", report},
                 [](Lesson& lesson, Rank& rank) {
                   Gpt model{lesson.model(), rank.device, StageLayers::whole(lesson.model()), 1};
                   AdamW optimizer{model.parameters(), rank.device, lesson.optimizer()};
                   rank.trace.set_step(1);
                   lesson.record_loss(rank, 0.0);
                   lesson.finish(rank, model.parameters(), optimizer);
                 });
  CHECK(code == 0);
  const auto written = nlohmann::json::parse(read_file(report));
  CHECK(written["device"] == "meta");
  CHECK(written["clock"] == "modelled");
  CHECK(written["losses"].empty());
  CHECK(written["reference_losses"].empty());
  CHECK(written["sample"] == "");
  CHECK_FALSE(written.contains("parity"));
  CHECK_FALSE(written.contains("tokens_per_second"));
  CHECK(written["memory"].size() == 2);
}

TEST_CASE("a run goes on if its merged trace can't be written, and keeps the ranks' files") {
  if (!std::filesystem::exists("/dev/full")) return;
  const TemporaryFolder folder;
  const auto merged = folder.path() / "trace.json";
  const auto report = folder.path().string() + ".json";
  CHECK(run_lesson({"--trace", folder.path().string(), "--steps", "2", "--report", report},
                   [&](Lesson&, Rank& rank) {
                     if (rank.id == 0) std::filesystem::create_symlink("/dev/full", merged);
                   }) == 0);
  CHECK_FALSE(std::filesystem::exists(std::filesystem::symlink_status(merged)));
  CHECK(is_complete_trace(folder.path() / "rank0.json"));
  // The report's figures come from the ranks' files.
  CHECK(nlohmann::json::parse(read_file(report))["step_seconds"] > 0);
  std::filesystem::remove(report);
}

TEST_CASE("a disk that fills up while ranks run cuts the trace and not the run") {
  // A file size limit simulates a full disk.
  const TemporaryFolder folder;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{2'000, before.rlim_max};
  const auto cut = folder.path() / "rank0.json";
  bool over = false;
  const int code =
      run_lesson({"--trace", folder.path().string(), "--steps", "2"}, [&](Lesson&, Rank& rank) {
        if (rank.id != 0) return;
        ::setrlimit(RLIMIT_FSIZE, &small);
        // Records until the file has nearly reached the limit. The writer's next write then fails.
        Picoseconds at = 0;
        comes_true([&] {
          for (int i = 0; i < 100; ++i, ++at) rank.trace.span(0, {.name = "work"}, at, at + 1);
          std::error_code error;
          const auto size = std::filesystem::file_size(cut, error);
          return !error && size >= small.rlim_cur - 500;
        });
        std::this_thread::sleep_for(std::chrono::milliseconds{200});
        ::setrlimit(RLIMIT_FSIZE, &before);
        over = true;
      });
  CHECK(over);
  CHECK(code == 0);
  CHECK(read_file(cut).ends_with(",\n"));
  CHECK_FALSE(is_complete_trace(cut));
  CHECK(is_complete_trace(folder.path() / "rank1.json"));
  CHECK(std::filesystem::exists(folder.path() / "report.json"));
}

TEST_CASE("a lesson can't omit a peak by mistake") {
  std::string complaint;
  const int code = run_lesson({"--trace", "none", "--steps", "1"}, [&](Lesson& lesson, Rank& rank) {
    if (rank.id != 0) return;
    Predicted predicted = Predicted::without_memory("nothing is predicted here");
    predicted.peak_bytes[MemoryCategory::gradients] = Figure{};
    complaint = complaint_of<std::logic_error>(
        [&] { lesson.batches(rank, lesson.phases().front(), predicted); });
  });
  CHECK(code == 0);
  CHECK(unlike(complaint, {"the peak of gradients", "nor gives a reason"}) == "");
}

TEST_CASE("a rank that throws fails the run; an impossible request is reported as one") {
  CHECK(run_lesson({"--trace", "none", "--steps", "1"}, [](Lesson&, Rank& rank) {
          if (rank.id == 1) throw std::runtime_error("a rank fails, as it should in this test");
        }) == 1);
  CHECK(run_lesson({"--trace", "none", "--steps", "1"}, [](Lesson&, Rank& rank) {
          if (rank.id == 1) throw UsageError("a rank refuses, as it should in this test");
        }) == 2);
  CHECK(run_lesson({"--steps", "0"}) == 2);
}
