#include "viz/app/app.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "viz/data/first_run.h"
#include "viz/views/imgui_shim.h"

namespace lockstep::viz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto parse_budget = std::chrono::microseconds{8000};  // per frame
constexpr double live_wait = 0.016;  // seconds between polls if no event wakes the loop
constexpr double idle_wait = 0.1;
constexpr int settle_frames = 3;
constexpr std::size_t whole_file_steps = 3;  // a file with more steps opens at its last ones
constexpr std::size_t shown_steps = 2;

constexpr float cards_height = 256;
constexpr float cards_share = 0.32f;  // of the window height, at most
constexpr float edge = 12;
/// Shares of the width for the cards: bubble, loss, memory, what if.
constexpr float card_shares[] = {0.19f, 0.17f, 0.28f, 0.36f};

volatile std::sig_atomic_t stop_signal = 0;

void on_signal(int signal) {
  stop_signal = signal;
}

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

}  // namespace

App::App(const ViewerOptions& options) : options_(options), begun_(Clock::now()) {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  // Fail early: check the files, then the port, then the display.
  if (options_.piped()) {
    input_ = std::make_unique<InputFeed>(STDIN_FILENO, model_.timeline);
    model_.source = {.live = true, .piped = true, .name = "standard input"};
    model_.viewport.follow(true);
    window_ =
        std::make_unique<Window>("Lockstep", options_.width, options_.height, !options_.screenshot);
  } else if (options_.listens()) {
    // Waking the loop requires GLFW, which Window initializes; until then the loop does not sleep.
    static std::atomic<bool> window_is_open{false};
    window_is_open = false;
    server_ = std::make_unique<LiveServer>(options_.listen, options_.token, [] {
      if (window_is_open) Window::wake();
    });
    feed_ = std::make_unique<LiveFeed>(*server_, model_.timeline);
    model_.source = {
        .live = true,
        .name = fmt::format("{}:{}", server_->endpoint().host, server_->endpoint().port)};
    model_.viewport.follow(true);
    model_.timeline.watch(&latency_.fresh());
    window_ =
        std::make_unique<Window>("Lockstep", options_.width, options_.height, !options_.screenshot);
    window_is_open = true;
  } else {
    open_files();
    window_ =
        std::make_unique<Window>("Lockstep", options_.width, options_.height, !options_.screenshot);
  }
}

App::~App() {
  server_.reset();  // the server's thread wakes the window, so it must stop first
}

void App::open_files() {
  const FirstRun chosen = first_run_of(options_.paths);
  const ReadReport report = read_traces(chosen.paths, model_.timeline);
  Source& source = model_.source;
  source.notice = notice_words(chosen);
  if (!source.notice.empty()) fmt::print(stderr, "{}\n", source.notice);
  source.name = options_.paths.front().filename().empty()
                    ? options_.paths.front().parent_path().filename().string()
                    : options_.paths.front().filename().string();
  if (chosen.paths.size() > 1) source.name += fmt::format(" and {} more", chosen.paths.size() - 1);
  source.malformed = report.malformed;
  source.first_malformed = report.first_malformed;
  if (report.malformed > 0) {
    fmt::print(stderr, "{} malformed lines skipped; the first: {}\n", report.malformed,
               report.first_malformed);
  }
  if (model_.timeline.empty()) {
    throw UsageError(options_.paths.front().string() +
                     ": has no spans; give a trace file or a run's folder");
  }
  const std::size_t count = model_.timeline.steps().size();
  int first = 0, last = 0;
  if (const int read = std::sscanf(options_.steps.c_str(), "%d-%d", &first, &last); read > 0) {
    const auto& steps = model_.timeline.steps();
    const auto index = [&](int step) {
      return static_cast<std::size_t>(
          std::partition_point(steps.begin(), steps.end(),
                               [&](const StepWindow& each) { return each.step < step; }) -
          steps.begin());
    };
    model_.viewport.fit_steps(model_.timeline, index(first), index(read > 1 ? last : first));
  } else if (!options_.steps.empty()) {
    throw UsageError("--steps " + options_.steps +
                     ": give a step or a range of steps, such as 3 or 2-4");
  } else if (count <= whole_file_steps) {
    model_.viewport.fit(model_.timeline);
  } else {
    model_.viewport.fit_steps(model_.timeline, count - shown_steps, count - 1);
  }
  model_.viewport.advance(model_.timeline, 0, true);
  model_.bubbles.update(model_.timeline);
}

void App::receive() {
  const auto progress = input_ ? take_input() : take_connections();
  backlog_ = progress.backlog;
  if (progress.news) {
    frames_due_ = std::max(frames_due_, 1);
    model_.bubbles.update(model_.timeline);
  }
}

LiveFeed::Progress App::take_connections() {
  const auto progress = feed_->pump(parse_budget);
  if (progress.new_run) {
    model_.hovered = model_.selected = {};
    model_.bubbles.clear();
    model_.viewport.follow(true);
  }
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
  const auto progress = input_->pump(parse_budget);
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
  if (!options_.live()) return true;
  return (model_.timeline.ended() || (input_ && input_->ended())) && !backlog_;
}

bool App::picture_is_due() const {
  if (!options_.screenshot || screenshot_seconds_) return false;
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
  while (!window_->closed() && stop_signal == 0) {
    const bool busy = backlog_ || frames_due_ > 0 || model_.viewport.moving();
    window_->wait_events(busy ? 0 : options_.live() ? live_wait : idle_wait);
    if (window_->take_input()) frames_due_ = settle_frames;
    if (options_.live()) receive();
    const bool due = picture_is_due();
    if (frames_due_ == 0 && !model_.viewport.moving() && !due) continue;
    const auto now = Clock::now();
    frame(std::min(seconds_between(last, now), 0.1));
    last = now;
    if (frames_due_ > 0) --frames_due_;
    if (timeline_.keys_held()) frames_due_ = settle_frames;
    if (screenshot_seconds_) break;
    if (options_.exit_when_done && options_.live() && run_is_done() && !options_.screenshot &&
        frames_due_ == 0) {
      break;
    }
  }
  if (options_.stats) write_stats();
  if (options_.screenshot && !screenshot_seconds_) {
    throw RunError("the viewer was closed before it took the picture " +
                   options_.screenshot->string());
  }
  return 0;
}

void App::frame(double seconds) {
  const auto begin = Clock::now();
  const bool due = picture_is_due();
  model_.viewport.advance(model_.timeline, seconds, due || !!options_.screenshot);
  window_->begin_frame();
  draw();
  build_seconds_ += seconds_between(begin, Clock::now());
  if (due && frames_ == 0) {
    // Dear ImGui computes the layout in the first frame; only the second is correct.
    window_->render();
    window_->swap();
    window_->begin_frame();
    draw();
  }
  window_->render();
  if (due) take_picture();
  window_->swap();
  latency_.swapped(model_.timeline, model_.viewport.window(), steady_ns());
  ++frames_;
  frame_seconds_ += seconds_between(begin, Clock::now());
}

void App::draw() {
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(size);
  ImGui::Begin("Lockstep", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                   ImGuiWindowFlags_NoScrollWithMouse | ImGuiWindowFlags_NoNav |
                   ImGuiWindowFlags_NoBackground);
  const Painter painter{ImGui::GetWindowDrawList(), window_->look()};
  const Rect bar{0, 0, size.x, painter.px(StatusView::bar_height)};
  const Rect line{0, size.y - painter.px(StatusView::line_height), size.x, size.y};
  const float cards = std::min(painter.px(cards_height), cards_share * size.y);
  const Rect card_row{painter.px(edge), line.top - cards, size.x - painter.px(edge), line.top};
  const Rect middle{0, bar.bottom, size.x, card_row.top - painter.px(edge)};

  timeline_.draw(painter, middle, model_);
  float left = card_row.left;
  const float room =
      card_row.width() - static_cast<float>(std::size(card_shares) - 1) * painter.px(edge);
  const auto next_card = [&](float share) {
    const Rect card{left, card_row.top, left + share * room, card_row.bottom};
    left = card.right + painter.px(edge);
    return card;
  };
  bubble_.draw(painter, next_card(card_shares[0]), model_);
  loss_.draw(painter, next_card(card_shares[1]), model_);
  memory_.draw(painter, next_card(card_shares[2]), model_);
  lab_.draw(painter, next_card(card_shares[3]), model_);
  status_.draw_bar(painter, bar, model_);
  status_.draw_line(painter, line, model_);
  if (model_.timeline.empty()) {
    const float x = size.x / 2, y = (middle.top + middle.bottom) / 2;
    painter.text(x, y - painter.px(30), "Waiting for a run on " + model_.source.name, colours::text,
                 painter.look().large, Align::centre);
    std::string command = options_.piped()
                              ? "Pipe a trace into it:  ssh HOST 'tail -n +1 -f RUN/rank*.json'"
                              : "Start one in another terminal:  ./lockstep lesson 9 --view";
    if (options_.listens() && options_.listen.port != Endpoint{}.port) {
      command += fmt::format(" 127.0.0.1:{}", server_->endpoint().port);
    }
    painter.text(x, y + painter.px(8), command, colours::text_dim, painter.look().body,
                 Align::centre);
  }
  details_.draw({ImGui::GetForegroundDrawList(), window_->look()},
                {0, middle.top, middle.right - painter.px(edge), middle.bottom}, model_);
  if (key_pressed(keys::q, false)) window_->close();
  ImGui::End();
  const RunInfo& run = model_.timeline.run();
  window_->set_title(run.lesson.empty()
                         ? "Lockstep"
                         : fmt::format("{} - Lockstep ({})", run.lesson,
                                       run.clock == "modelled" ? "modelled time" : "wall clock"));
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
