#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/model/adamw.h"
#include "lessons/02_data_parallel/prediction.h"
#include "lessons/02_data_parallel/replica_lesson.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Runs data parallelism on 3 ranks as a lesson that tolerates no difference from a single-device
/// run. Returns its exit code.
int run_strictly(bool with_sum_order) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += static_cast<char>('a' + i * i % 23);
  std::vector<std::string> flags{"lesson",   "--ranks", "3",     "--layers", "1",    "--hidden",
                                 "8",        "--heads", "2",     "--batch",  "6",    "--sequence",
                                 "8",        "--steps", "5",     "--trace",  "none", "--clock",
                                 "modelled", "--quiet", "--data"};
  flags.push_back(folder.file("text", text));
  std::vector<char*> words;
  for (std::string& flag : flags) words.push_back(flag.data());
  LessonInfo info = replica_lesson("99 test", "?");
  info.tolerance = {};
  Lesson lesson{info, static_cast<int>(words.size()), words.data()};
  const int& bucket = bucket_flag(lesson);
  return lesson.run([&](Rank& rank) {
    Gpt model{rank.plan, rank.place, rank.device};
    AdamW optimizer{model.parameters(), rank.device, lesson.optimizer()};
    lesson.load(rank, model.parameters(), optimizer);
    DataParallel replicas{model, rank.group(Axis::dp), bucket};
    Predicted predicted =
        predict_data_parallel(rank.plan, rank.place, GradientSync::overlap, bucket);
    if (!with_sum_order) predicted.sum_order = nullptr;
    for (const Batch& mine : lesson.batches(rank, lesson.phases().front(), predicted)) {
      model.zero_gradients();
      const double loss = accumulate_gradients(model, mine);
      replicas.sum_gradients();
      optimizer.step();
      lesson.record_loss(rank, loss);
    }
    lesson.finish(rank, model.parameters(), optimizer);
  });
}

}  // namespace

TEST_CASE("a run that only rounds differently passes if its prediction has the order of sums") {
  CHECK(run_strictly(true) == 0);
  CHECK(run_strictly(false) == 1);
}
