#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "viz/app/lab_screen.h"

namespace lockstep::viz {

/// The viewer's lab, which is created when it is first opened, and the lesson that it runs.
class LabHost {
 public:
  /// Files of runs go to `folder`, exported schedules to `exports`. `token` is the viewer's.
  LabHost(std::filesystem::path folder, std::filesystem::path exports, std::string token)
      : folder_(std::move(folder)), exports_(std::move(exports)), token_(std::move(token)) {}

  /// Does what the controls of both screens ask for. `listen` makes the viewer listen, unless it
  /// already does, and returns the address that a lesson connects to. Call it once per frame, even
  /// while the lab is not shown. Returns whether something has changed.
  bool update(Model& model, const std::function<std::string()>& listen);
  void draw(Model& model, const Look& look) { screen_.draw(*bench_, model, look); }
  /// Opens a page, and the board as LabBench::open_board() does unless `board` is empty.
  void open(Model& model, LabBench::Page page, const std::string& board);
  /// Waits for searches and runs. For pictures.
  void wait() {
    if (bench_) bench_->wait();
  }
  bool shown(const Model& model) const { return model.view.lab && bench_; }
  bool busy() const { return bench_ && bench_->busy(); }
  bool keys_held() const { return screen_.keys_held(); }
  bool growing() const { return screen_.growing(); }

 private:
  LabBench& bench();

  std::filesystem::path folder_, exports_;
  std::string token_;
  std::unique_ptr<LabBench> bench_;
  LabScreen screen_;
};

}  // namespace lockstep::viz
