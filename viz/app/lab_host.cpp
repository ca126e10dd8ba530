#include "viz/app/lab_host.h"

#include <utility>

namespace lockstep::viz {

LabBench& LabHost::bench() {
  if (!bench_) bench_ = std::make_unique<LabBench>(folder_, exports_);
  return *bench_;
}

void LabHost::open(Model& model, LabBench::Page page, const std::string& board) {
  bench().page = page;
  if (!board.empty()) bench().open_board(board);
  model.view.lab = true;
}

bool LabHost::update(Model& model, const std::function<std::string()>& listen) {
  if (model.view.opening) model.view.lab = false;  // the dialog is on the run's screen
  if (model.view.lab) bench();
  if (!bench_) return false;
  if (std::exchange(model.view.lab_takes_run, false))
    bench_->take(question_from(model.timeline, last_complete_step(model.timeline)));
  const LessonWish wish = std::exchange(model.view.lesson_wish, LessonWish::none);
  if (wish == LessonWish::stop) bench_->launcher.stop();
  if (std::exchange(bench_->wants_start, false) || wish == LessonWish::restart)
    bench_->launcher.start(listen(), token_);
  const bool news = bench_->update();
  model.source.lesson_runs = bench_->launcher.running();
  return news;
}

}  // namespace lockstep::viz
