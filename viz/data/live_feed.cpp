#include "viz/data/live_feed.h"

#include <algorithm>

namespace lockstep::viz {
namespace {

constexpr std::size_t piece = 128 * 1024;  // bytes fed between two checks of the budget

}  // namespace

LiveFeed::Progress LiveFeed::pump(std::chrono::microseconds budget) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + budget;
  Progress progress;
  for (Arrival& arrival : server_.take()) waiting_.push_back(std::move(arrival));
  while (!waiting_.empty() && (!progress.news || Clock::now() < until)) {
    Arrival& arrival = waiting_.front();
    if (arrival.run < run_) {
      waiting_.pop_front();
      continue;
    }
    if (arrival.run > run_) {
      run_ = arrival.run;
      timeline_.clear();
      readers_.clear();
      malformed_ = 0;
      first_malformed_.clear();
      progress.new_run = true;
    }
    auto reader = readers_.find(arrival.rank);
    if (reader == readers_.end()) {
      reader =
          readers_.emplace(arrival.rank, TraceReader{timeline_, TraceReader::Form::lines}).first;
      timeline_.rank(arrival.rank);
    }
    const std::string_view bytes = arrival.bytes;
    const std::int64_t skipped = reader->second.malformed();
    std::size_t at = 0;
    do {
      reader->second.feed(bytes.substr(at, piece));
      at = std::min(at + piece, bytes.size());
    } while (at < bytes.size() && Clock::now() < until);
    malformed_ += reader->second.malformed() - skipped;
    if (first_malformed_.empty() && malformed_ > 0) {
      first_malformed_ =
          "rank " + std::to_string(arrival.rank) + ", " + reader->second.first_malformed();
    }
    progress.news = true;
    if (at < bytes.size()) {
      arrival.bytes.erase(0, at);
    } else {
      waiting_.pop_front();
    }
  }
  if (progress.news) timeline_.settle();
  progress.backlog = !waiting_.empty();
  return progress;
}

}  // namespace lockstep::viz
