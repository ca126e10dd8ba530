#include "viz/data/lab/lesson_launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "viz/data/lab/run_it.h"

namespace lockstep::viz {
namespace {

constexpr int ended_by_user = 130;  // what a lesson returns after Ctrl-C

std::string content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

LessonLauncher::LessonLauncher(std::filesystem::path folder)
    : folder_(std::move(folder)), lessons_(find_lessons()) {}

LessonLauncher::~LessonLauncher() {
  process_.reset();
  declares_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void LessonLauncher::choose(std::size_t lesson) {
  if (lesson >= lessons_.size() || chosen_ == lesson) return;
  chosen_ = lesson;
  controls_.clear();
  ask_for_flags();
}

void LessonLauncher::choose_named(std::string_view name) {
  const auto found = std::ranges::find(lessons_, name, &LessonProgram::name);
  choose(found == lessons_.end() ? 0 : static_cast<std::size_t>(found - lessons_.begin()));
}

void LessonLauncher::ask_for_flags() {
  try {
    std::filesystem::create_directories(folder_);
    declares_ = std::make_unique<LessonProcess>(
        lessons_[*chosen_], std::vector<std::string>{"--declare"}, folder_ / "flags.json");
  } catch (const std::exception& error) {
    words_ = error.what();
    failed_ = true;
  }
}

void LessonLauncher::reset() {
  for (FlagControl& each : controls_) each.value = each.standard;
}

void LessonLauncher::start(const std::string& address, const std::string& token) {
  if (!chosen_) return;
  process_.reset();
  std::vector<std::string> flags = changed_flags(controls_);
  flags.insert(flags.end(), {"--view", address});
  const LessonProgram& program = lessons_[*chosen_];
  failed_ = stopped_ = false;
  output_.clear();
  try {
    std::filesystem::create_directories(folder_);
    process_ = std::make_unique<LessonProcess>(program, flags, folder_ / "output.txt", token);
    running_name_ = "lesson " + program.number();
    words_ = running_name_ + " is running";
  } catch (const std::exception& error) {
    words_ = error.what();
    failed_ = true;
  }
}

void LessonLauncher::stop() {
  if (!process_) return;
  stopped_ = true;
  words_ = running_name_ + " is stopping";
  process_->interrupt();
}

bool LessonLauncher::poll() {
  bool changed = false;
  if (declares_ && !declares_->running()) {
    changed = true;
    try {
      if (declares_->exit_code() != 0) throw RunError(last_line(declares_->output_tail()));
      controls_ = parse_declared_flags(content(folder_ / "flags.json"));
    } catch (const std::exception& error) {
      words_ = fmt::format("lesson {} did not declare its flags: {}", lessons_[*chosen_].number(),
                           error.what());
      failed_ = true;
    }
    declares_.reset();
  }
  if (process_ && !process_->running()) {
    changed = true;
    const int code = *process_->exit_code();
    output_ = process_->output_tail();
    failed_ = code != 0 && !(stopped_ && code == ended_by_user);
    words_ = code == 0  ? running_name_ + " has ended"
             : !failed_ ? running_name_ + " was stopped"
                        : fmt::format("{} ended with exit code {}: {}", running_name_, code,
                                      last_line(output_));
    process_.reset();
  }
  return changed;
}

std::string LessonLauncher::command() const {
  if (!chosen_) return {};
  return command_words(lessons_[*chosen_].number(), changed_flags(controls_));
}

std::string LessonLauncher::output() const {
  return process_ ? process_->output_tail() : output_;
}

}  // namespace lockstep::viz
