#include "viz/data/lab/lab_table.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "core/base/error.h"

namespace lockstep::viz {

struct LabTable::Search {
  struct Request {
    std::size_t row = 0;
    KnownSchedule known;  ///< a copy, which the thread may use while the program ends
    LabSettings settings;
    int chunks = 0;
    int number = 0;  ///< counts the settings
  };
  struct Found {
    std::size_t row = 0;
    std::optional<LabResult> result;
    std::string trouble;
    int number = 0;
  };

  std::mutex mutex;
  std::condition_variable news;  ///< notifies either thread
  std::vector<Request> wanted;   ///< the thread removes them
  std::vector<Found> found;
  bool started = false, stopped = false;
  int asked = 0;  ///< the number of the newest settings, used by the owner only

  /// The thread's loop: serves the requests of the newest settings until stopped.
  void work() {
    for (;;) {
      std::optional<Request> request;
      {
        std::unique_lock lock{mutex};
        news.wait(lock, [&] { return stopped || !wanted.empty(); });
        if (stopped) return;
        request.emplace(std::move(wanted.back()));
        wanted.pop_back();
      }
      Found answer{request->row, {}, {}, request->number};
      try {
        answer.result = simulated(generated(request->known, request->settings, request->chunks),
                                  request->settings, request->chunks, &request->known);
      } catch (const std::exception& error) {
        answer.trouble = error.what();
      }
      const std::lock_guard lock{mutex};
      found.push_back(std::move(answer));
      news.notify_all();
    }
  }
};

LabTable::LabTable() : search_(std::make_shared<Search>()) {}

LabTable::~LabTable() {
  const std::lock_guard lock{search_->mutex};
  search_->stopped = true;
  search_->news.notify_all();
}

void LabTable::ask(const LabSettings& settings) {
  if (std::exchange(asked_, true) && settings == settings_) return;
  settings_ = settings;
  rows_.clear();
  for (const KnownSchedule& known : known_schedules()) {
    LabRow row{&known, fit(known, settings), {}, false};
    if (row.fit.refusal.empty()) {
      row.searching = known.searched;
      if (!known.searched)
        row.result =
            simulated(generated(known, settings, row.fit.chunks), settings, row.fit.chunks, &known);
    }
    rows_.push_back(std::move(row));
  }
  const std::lock_guard lock{search_->mutex};
  ++search_->asked;
  search_->wanted.clear();
  for (std::size_t i = 0; i < rows_.size(); ++i)
    if (rows_[i].searching)
      search_->wanted.push_back(
          {i, *rows_[i].known, settings, rows_[i].fit.chunks, search_->asked});
  search_->news.notify_all();
  if (!search_->wanted.empty() && !std::exchange(search_->started, true))
    std::thread{[search = search_] { search->work(); }}.detach();
}

bool LabTable::busy() const {
  return std::ranges::any_of(rows_, &LabRow::searching);
}

bool LabTable::update() {
  if (!busy()) return false;
  const std::lock_guard lock{search_->mutex};
  bool news = false;
  for (Search::Found& found : search_->found) {
    if (found.number != search_->asked) continue;  // a result for older settings
    LabRow& row = rows_[found.row];
    row.searching = false;
    row.result = std::move(found.result);
    if (!row.result) row.fit.refusal = found.trouble;
    news = true;
  }
  search_->found.clear();
  return news;
}

void LabTable::wait() {
  while (busy()) {
    {
      std::unique_lock lock{search_->mutex};
      search_->news.wait(lock, [&] { return !search_->found.empty(); });
    }
    update();
  }
}

const LabRow* LabTable::find(std::string_view name) const {
  const auto found =
      std::ranges::find_if(rows_, [&](const LabRow& row) { return row.known->name == name; });
  return found == rows_.end() ? nullptr : &*found;
}

const LabRow* best_row(const std::vector<LabRow>& rows, int chunks) {
  const LabRow* best = nullptr;
  for (const LabRow& row : rows) {
    if (!row.result || !row.result->over_limit.empty()) continue;
    if (chunks != 0 && row.fit.chunks != chunks) continue;
    const auto key = [](const LabRow& each) {
      return std::pair{each.result->simulation.makespan, each.result->peak};
    };
    if (!best || key(row) < key(*best)) best = &row;
  }
  return best;
}

}  // namespace lockstep::viz
