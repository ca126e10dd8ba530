#include "viz/data/feed/live_feed.h"

namespace lockstep::viz {

LiveFeed::Progress LiveFeed::pump(std::chrono::microseconds budget) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + budget;
  Progress progress;
  const auto turn_to = [&](int run) {
    if (run == run_) return;
    begin_run(run);
    progress.new_run = progress.news = true;
  };
  turn_to(server_.run());  // even at the memory limit
  while (!(progress.full = limit_.reached())) {
    if (progress.news && Clock::now() >= until) {
      progress.backlog = server_.waiting();
      break;
    }
    const auto arrival = server_.take();
    if (!arrival) break;
    turn_to(arrival->run);
    feed(*arrival);
    progress.news = true;
  }
  if (progress.news) timeline_.settle();
  return progress;
}

void LiveFeed::begin_run(int run) {
  run_ = run;
  timeline_.clear();
  readers_.clear();
  malformed_ = 0;
  first_malformed_.clear();
  return_freed_memory();
}

void LiveFeed::feed(const Arrival& arrival) {
  auto reader = readers_.find(arrival.rank);
  if (reader == readers_.end()) {
    reader = readers_.emplace(arrival.rank, TraceReader{timeline_, TraceReader::Form::lines}).first;
    timeline_.rank(arrival.rank);
  }
  const std::int64_t skipped = reader->second.malformed();
  reader->second.feed(arrival.bytes);
  malformed_ += reader->second.malformed() - skipped;
  if (first_malformed_.empty() && malformed_ > 0) {
    first_malformed_ =
        "rank " + std::to_string(arrival.rank) + ", " + reader->second.first_malformed();
  }
}

}  // namespace lockstep::viz
