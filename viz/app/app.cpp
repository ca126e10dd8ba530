#include "viz/app/app.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "viz/app/export.h"
#include "viz/app/open_files.h"
#include "viz/app/stop_signal.h"
#include "viz/data/feed/given_runs.h"
#include "viz/views/imgui_shim.h"

namespace lockstep::viz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double parse_seconds = 0.008;  // per frame
/// While there is a backlog, each frame parses for this multiple of the time that it takes to draw,
/// so that slow drawing does not delay ranks that are waiting for the viewer.
constexpr double backlog_share = 3, most_backlog_seconds = 0.2;
constexpr double live_wait = 0.016;  // seconds between polls if no event wakes the loop
constexpr double idle_wait = 0.1;
constexpr double growing_wait = 0.1;  // between frames in which only open spans grow
constexpr std::chrono::milliseconds analysis_budget{50};        // per frame
constexpr std::chrono::milliseconds picture_budget{3'600'000};  // for screenshots: no limit
constexpr int settle_frames = 3;
constexpr double scale_step = 1.1;  // of + and -

/// Raises the limit on file descriptors: each rank needs one, and many systems default to 1,024.
void allow_many_connections() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::string memory_words(const MemoryLimit& limit) {
  return fmt::format(
      "the limit of {} of memory is reached, so the viewer reads no more of this run; its files "
      "have the rest (--memory sets the limit)",
      bytes_words(limit.bytes()));
}

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Returns the CPU time of this thread or of the process.
double cpu_seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Waking the loop requires GLFW, which Window initializes; until then the loop does not sleep.
std::atomic<bool> window_is_open{false};

/// Returns the page of the lab that --lab names.
LabBench::Page page_named(const std::string& name) {
  return name == "board"     ? LabBench::Page::board
         : name == "lessons" ? LabBench::Page::lessons
                             : LabBench::Page::schedules;
}

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

}  // namespace

App::App(const ViewerOptions& options, App* before)
    : options_(options),
      preferences_(options_),
      lab_(options_.export_folder.parent_path() / "lab", options_.export_folder, options_.token),
      begun_(Clock::now()) {
  window_is_open = false;
  model_.view.critical_path = options_.critical_path;
  model_.view.ghost = options_.ghost;
  model_.view.panel = options_.panel;
  model_.view.theme = options_.theme.value_or(Theme::dark);
  model_.view.scale = options_.scale.value_or(0);
  if (before) {
    model_.view.theme = before->leading().view.theme;
    model_.view.scale = before->leading().view.scale;
  }
  model_.patient = options_.screenshot.has_value();
  watch_stop_signals();
  // Fail early: check the files, then the port, then the display.
  if (options_.piped()) {
    input_ = std::make_unique<InputFeed>(STDIN_FILENO, model_.timeline, options_.memory);
    model_.source = {.live = true,
                     .piped = true,
                     .name = "standard input",
                     .hint = "Pipe a trace into it:  ssh HOST 'tail -n +1 -f RUN/rank*.json'"};
    model_.viewport.follow(true);
    window_ = open_window();
  } else if (options_.listens()) {
    listen(options_.listen);
    model_.viewport.follow(true);
    if (options_.stats) model_.timeline.watch(&latency_.fresh());
    window_ = open_window();
    window_is_open = true;
  } else if (options_.paths.empty()) {
    window_ = open_window();  // the lab needs no trace
    window_is_open = true;
  } else {
    runs_ = open_files(options_, model_);
    if (!options_.remembers) model_.notes_file.clear();
    notes_ = model_.notes;
    window_ = before ? std::move(before->window_) : open_window();
    window_is_open = true;
  }
  // The window may be smaller than wanted. Only a change by the user is remembered.
  if (!options_.screenshot) std::tie(options_.width, options_.height) = window_->size();
  model_.source.export_folder = options_.export_folder.string();
  if (runs_) runs_->model(Side::b).source.export_folder = model_.source.export_folder;
  model_.source.offers_lab = !runs_;
  if (!options_.lab.empty() && !runs_) lab_.open(model_, page_named(options_.lab), options_.board);
  for (const std::string& path : preferences_.settings().recent) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) model_.source.recent.push_back(path);
  }
}

void App::listen(const Endpoint& endpoint) {
  allow_many_connections();
  server_ = std::make_unique<LiveServer>(endpoint, Admission{.token = options_.token}, [] {
    if (window_is_open) Window::wake();
  });
  feed_ = std::make_unique<LiveFeed>(*server_, model_.timeline, options_.memory);
  const auto& [host, port] = server_->endpoint();
  model_.source.live = true;
  model_.source.name = fmt::format("{}:{}", host, port);
  model_.source.hint = "Start one in another terminal:  ./lockstep lesson 9 --view";
  if (port != Endpoint{}.port) model_.source.hint += fmt::format(" 127.0.0.1:{}", port);
}

void App::listen_if_empty() {
  const bool dumps = model_.stall.picture() != nullptr;
  if (model_.view.lab || live() || !model_.timeline.empty() || dumps) return;
  try {
    listen({});
  } catch (const UsageError&) {
    listen({.port = 0});  // another viewer uses the default port
  }
  model_.viewport.follow(true);
}

std::string App::listen_for_lesson() {
  if (!server_) {
    listen({.host = "127.0.0.1", .port = 0});
    model_.viewport.follow(true);
  }
  model_.retiming.find({}, "");  // drops that of a file that was open until now
  const auto& [host, port] = server_->endpoint();
  const bool any = host == "0.0.0.0" || host == "::";
  return fmt::format("{}:{}", any || host.find(':') != std::string::npos ? "localhost" : host,
                     port);
}

std::unique_ptr<Window> App::open_window() const {
  return std::make_unique<Window>(
      "Lockstep", options_.width, options_.height, !options_.screenshot,
      Appearance{options_.theme.value_or(Theme::dark), options_.scale.value_or(0), options_.font},
      !options_.size_given);
}

Model& App::leading() {
  return runs_ ? runs_->leader() : model_;
}

const Model& App::leading() const {
  return runs_ ? runs_->leader() : model_;
}

std::optional<ViewerOptions> App::take_chosen() {
  const OpenRequest request = std::exchange(leading().view.open, {});
  if (request.paths.empty()) return {};
  ViewerOptions options = options_;
  options.listen = {};
  options.steps.clear();
  options.panel.reset();
  options.lab.clear();
  options.board.clear();
  options.paths.clear();
  // Keeps the run shown, or the first of two.
  if (request.beside && !live() && !options_.paths.empty())
    options.paths = divide_into_runs(options_.paths).a;
  options.paths.insert(options.paths.end(), request.paths.begin(), request.paths.end());
  return options;
}

void App::report(const std::string& trouble) {
  ViewState& view = leading().view;
  view.opening = true;
  view.dropped.clear();
  view.open_trouble = printable(trouble);
  frames_due_ = settle_frames;
}

App::~App() {
  server_.reset();  // the server's thread wakes the window, so it must stop first
}

void App::receive() {
  const auto progress = input_ ? take_input() : take_connections();
  backlog_ = progress.backlog;
  if (progress.full && !full_) {
    model_.source.notice = memory_words(options_.memory);
    fmt::print(stderr, "{}\n", model_.source.notice);
    frames_due_ = std::max(frames_due_, 1);
  } else if (!progress.full && full_) {
    model_.source.notice.clear();
  }
  full_ = progress.full;
  if (progress.news) {
    frames_due_ = std::max(frames_due_, 1);
  }
}

std::chrono::microseconds App::parse_budget() const {
  const double seconds = backlog_ ? std::clamp(backlog_share * last_frame_seconds_, parse_seconds,
                                               most_backlog_seconds)
                                  : parse_seconds;
  return std::chrono::microseconds{static_cast<std::int64_t>(1e6 * seconds)};
}

LiveFeed::Progress App::take_connections() {
  const auto progress = feed_->pump(parse_budget());
  if (progress.new_run) forget_run(model_);
  Source& source = model_.source;
  if (source.connected != server_->connected() || source.refused != server_->refused()) {
    frames_due_ = std::max(frames_due_, 1);
  }
  source.connected = server_->connected();
  source.refused = server_->refused();
  source.malformed = feed_->malformed();
  source.first_malformed = feed_->first_malformed();
  return progress;
}

LiveFeed::Progress App::take_input() {
  const auto progress = input_->pump(parse_budget());
  Source& source = model_.source;
  source.connected = input_->ended() ? 0 : static_cast<int>(model_.timeline.ranks().size());
  source.malformed = input_->malformed();
  source.first_malformed = input_->first_malformed();
  if (progress.news && input_->ended() && model_.timeline.empty()) {
    throw UsageError("-: standard input has no spans; pipe a run's trace into it");
  }
  return progress;
}

bool App::run_is_done() const {
  if (!live()) return true;
  return full_ || ((model_.timeline.ended() || (input_ && input_->ended())) && !backlog_);
}

bool App::picture_is_due() const {
  if (!options_.screenshot || screenshot_seconds_) return false;
  if (lab_.shown(model_)) return true;
  const Timeline& timeline = model_.timeline;
  if (options_.live() && options_.after_steps > 0) {
    const auto& steps = timeline.steps();
    return std::count_if(steps.begin(), steps.end(), [&](const StepWindow& step) {
             return timeline.step_complete(step);
           }) >= options_.after_steps;
  }
  if (options_.live() && options_.when_all_ranks) {
    return timeline.run().ranks > 0 &&
           static_cast<int>(timeline.ranks().size()) >= timeline.run().ranks &&
           std::all_of(timeline.ranks().begin(), timeline.ranks().end(),
                       [](const auto& rank) { return rank->spans > 0; });
  }
  return run_is_done();
}

int App::run() {
  if (options_.hover) window_->hold_cursor(options_.hover->first, options_.hover->second);
  auto last = Clock::now();
  frames_due_ = settle_frames;
  while (!window_->closed() && !stop_requested() && leading().view.open.paths.empty()) {
    const bool busy = backlog_ || frames_due_ > 0 || model_.viewport.moving() ||
                      model_.playback.playing() || rehearsal_;
    window_->wait_events(busy ? 0 : live() ? live_wait : idle_wait);
    if (window_->take_input()) frames_due_ = settle_frames;
    if (auto dropped = Window::take_dropped(); !dropped.empty()) {
      leading().view.dropped = std::move(dropped);
      leading().view.opening = true;
    }
    const auto begin = Clock::now();
    const double thread_begin = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
    const double process_begin = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    listen_if_empty();
    if (live()) receive();
    if (lab_.update(model_, [this] { return listen_for_lesson(); }))
      frames_due_ = std::max(frames_due_, settle_frames);
    if ((screen_.growing() || lab_.growing() || lab_.busy() || model_.retiming.busy()) &&
        seconds_between(last, begin) > growing_wait)
      frames_due_ = std::max(frames_due_, 1);
    const bool due = picture_is_due();
    if (!busy && frames_due_ == 0 && !due) continue;
    if (rehearsal_ && !rehearsal_(*window_)) break;
    const auto now = Clock::now();
    frame(std::min(seconds_between(last, now), 0.1));
    const double wall = seconds_between(begin, Clock::now());
    const double thread = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - thread_begin;
    longest_frame_seconds_ = std::max(longest_frame_seconds_, wall);
    longest_frame_work_ = std::max(longest_frame_work_, thread);
    if (options_.stats || rehearsal_) {
      const double process = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - process_begin;
      times_.add(
          {static_cast<float>(wall), static_cast<float>(thread), static_cast<float>(process)});
    }
    last = now;
    if (frames_due_ > 0) --frames_due_;
    if (screen_.keys_held() || lab_.keys_held() || comparison_screen_.keys_held())
      frames_due_ = settle_frames;
    if (screenshot_seconds_) break;
    if (options_.exit_when_done && options_.live() && run_is_done() && !options_.screenshot &&
        frames_due_ == 0) {
      break;
    }
  }
  preferences_.save(options_, leading().view, window_->size());
  keep_notes();
  if (options_.stats) write_stats();
  if (options_.screenshot && !screenshot_seconds_) {
    throw RunError("the viewer was closed before it took the picture " +
                   options_.screenshot->string());
  }
  if (leading().view.open.paths.empty()) finish_with(0);
  return 0;
}

void App::keep_notes() {
  if (model_.notes_file.empty() || model_.notes == notes_) return;
  if (save_notes(model_.notes, model_.notes_file)) {
    notes_ = model_.notes;
    return;
  }
  model_.source.notice = "can't keep the notes in " + model_.notes_file.string();
  fmt::print(stderr, "{}\n", printable(model_.source.notice));
  model_.notes_file.clear();
}

void App::frame(double seconds) {
  const auto begin = Clock::now();
  const bool due = picture_is_due();
  const auto budget = options_.screenshot ? picture_budget : analysis_budget;
  if (runs_) {
    runs_->advance(seconds, due || !!options_.screenshot);
    runs_->model(Side::b).explanations.update(budget);
  } else {
    model_.playback.advance(model_.timeline, model_.viewport, seconds);
    model_.viewport.advance(model_.timeline, seconds, due || !!options_.screenshot);
  }
  model_.bubbles.update(model_.timeline, budget);
  model_.explanations.update(budget);
  window_->set_appearance(leading().view.theme, leading().view.scale);
  window_->begin_frame();
  draw();
  build_seconds_ += seconds_between(begin, Clock::now());
  if (due && frames_ == 0) {
    // Dear ImGui computes the layout during the first frame, so only the second frame is correct.
    window_->render();
    window_->swap();
    window_->begin_frame();
    draw();
  }
  if (due && options_.click) click();
  window_->render();
  if (due) take_picture();
  if (leading().view.wanted != Export::nothing) export_wanted();
  keep_notes();
  window_->swap();
  latency_.swapped(model_.timeline, model_.viewport.window(), steady_ns());
  if (model_.bubbles.behind() || model_.alike.behind() || model_.explanations.behind() ||
      model_.view.counting() || model_.explanations.analyses() ||
      (runs_ && runs_->model(Side::b).explanations.behind()))
    frames_due_ = std::max(frames_due_, 2);
  ++frames_;
  last_frame_seconds_ = seconds_between(begin, Clock::now());
  frame_seconds_ += last_frame_seconds_;
}

void App::click() {
  window_->hold_cursor(options_.click->first, options_.click->second);
  const auto next = [&] {
    window_->render();
    window_->swap();
    window_->begin_frame();
    draw();
  };
  next();
  window_->hold_button(true);
  next();
  window_->hold_cursor(options_.drag_to->first, options_.drag_to->second);
  next();
  window_->hold_button(false);
  next();
  // Without --hover, the cursor would leave a tooltip over the clicked object.
  const auto away = options_.hover.value_or(std::pair{0, 0});
  window_->hold_cursor(away.first, away.second);
  next();
  next();
}

void App::draw() {
  if (options_.screenshot) {
    model_.retiming.wait();
    model_.view.wait();
  }
  if (runs_) {
    runs_->advance(0);
    comparison_screen_.draw(*runs_, window_->look());
  } else if (model_.view.lab) {
    lab_.update(model_, [this] { return listen_for_lesson(); });
    if (options_.screenshot) lab_.wait();
    lab_.draw(model_, window_->look());
  } else if (model_.timeline.empty() && model_.stall.picture() != nullptr) {
    stall_screen_.draw(model_, window_->look());
  } else {
    screen_.draw(model_, window_->look());
  }
  if (!ImGui::GetIO().WantTextInput) take_keys();
  const RunInfo& run = model_.timeline.run();
  if (runs_) {
    const RunInfo& other = runs_->model(Side::b).timeline.run();
    return window_->set_title(
        fmt::format("{} and {} - Lockstep", beginning(run.lesson), beginning(other.lesson)));
  }
  if (model_.view.lab) return window_->set_title("Lab - Lockstep");
  window_->set_title(run.lesson.empty()
                         ? "Lockstep"
                         : fmt::format("{} - Lockstep ({})", beginning(run.lesson),
                                       run.clock == "modelled" ? "modelled time" : "wall clock"));
}

void App::take_keys() {
  ViewState& view = leading().view;
  if (key_pressed(keys::q, false)) window_->close();
  const double scale = static_cast<double>(window_->look().scale);
  if (typed('+')) view.scale = std::min(scale * scale_step, most_scale);
  if (typed('-')) view.scale = std::max(scale / scale_step, least_scale);
  if (typed('0')) view.scale = 0;
}

void App::export_wanted() {
  ViewState& view = leading().view;
  const Export what = std::exchange(view.wanted, Export::nothing);
  const auto write_picture = [&](const std::filesystem::path& file) {
    // The picture must not show the choice of exports.
    view.exports = false;
    window_->begin_frame();
    draw();
    window_->render();
    view.exports = true;
    int width = 0, height = 0;
    const auto rgb = window_->pixels(width, height);
    write_png(file, rgb, width, height);
  };
  view.exported = runs_
                      ? export_comparison(what, options_, *runs_, comparison_screen_, write_picture)
                      : export_view(what, options_, model_, screen_.lanes(), write_picture);
  frames_due_ = std::max(frames_due_, 2);
}

void App::take_picture() {
  int width = 0, height = 0;
  const auto rgb = window_->pixels(width, height);
  write_png(*options_.screenshot, rgb, width, height);
  screenshot_seconds_ = seconds_between(begun_, Clock::now());
  const auto& steps = model_.timeline.steps();
  screenshot_step_ = steps.empty() ? -1 : steps.back().step;
}

void App::write_stats() const {
  nlohmann::ordered_json json;
  for (const auto& rank : model_.timeline.ranks()) {
    json["spans"]["per_rank"][std::to_string(rank->rank)] = rank->spans;
  }
  json["spans"]["total"] = model_.timeline.span_count();
  json["resident_bytes"] = resident_bytes();
  json["full"] = full_;
  json["malformed"] = model_.source.malformed;
  json["clock"] = model_.timeline.run().clock;
  const auto latency = latency_.summary();
  json["latency_ms"] = {{"p50", latency.p50},
                        {"p95", latency.p95},
                        {"max", latency.max},
                        {"count", latency.count},
                        {"not_shown", latency.not_shown}};
  json["frames"] = frames_;
  json["frame_ms"] = frames_ > 0 ? 1e3 * frame_seconds_ / static_cast<double>(frames_) : 0;
  json["longest_frame_ms"] = 1e3 * longest_frame_seconds_;
  json["longest_frame_cpu_ms"] = 1e3 * longest_frame_work_;
  const auto percentiles = [&](float FrameTimes::Frame::*which) {
    const auto found = times_.percentiles(which);
    return nlohmann::ordered_json{{"median", found.p50}, {"p95", found.p95}, {"max", found.max}};
  };
  json["frame_times_ms"] = {{"wall", percentiles(&FrameTimes::Frame::wall)},
                            {"thread_cpu", percentiles(&FrameTimes::Frame::thread)},
                            {"process_cpu", percentiles(&FrameTimes::Frame::process)}};
  json["build_ms"] = frames_ > 0 ? 1e3 * build_seconds_ / static_cast<double>(frames_) : 0;
  json["seconds"] = seconds_between(begun_, Clock::now());
  if (screenshot_seconds_) {
    json["screenshot"] = {{"seconds", *screenshot_seconds_}, {"last_step", screenshot_step_}};
  }
  std::ofstream out(*options_.stats);
  out << json.dump(2) << "\n";
  if (!out) throw RunError("can't write " + options_.stats->string());
}

}  // namespace lockstep::viz
