#include "core/run/lesson.h"
#include "lessons/18_low_communication/experiment/one_device.h"
#include "lessons/18_low_communication/low_communication.h"

using namespace lockstep;

// Every rank is a worker that trains a copy of the model, or a stage of one pipeline.
int main(int argc, char** argv) {
  Lesson lesson{low_communication(), argc, argv};
  const LowCommunicationFlags flags{lesson};
  compare_with_one_device(lesson, flags);
  return lesson.run([&](Rank& rank) {
    flags.is_pipeline() ? train_stages(lesson, rank, flags) : train_workers(lesson, rank, flags);
  });
}
