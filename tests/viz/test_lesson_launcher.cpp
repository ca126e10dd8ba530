// Lessons that the viewer starts: their flags, streaming, stopping, and no orphans.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <thread>
#include <type_traits>

#include "core/base/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/viz/live_viewer.h"
#include "viz/data/lab/lesson_launcher.h"

using namespace lockstep;
using namespace lockstep::viz;
using lockstep::testing::TemporaryFolder;

namespace {

/// Waits for up to a minute.
bool comes_true_soon(const std::function<bool()>& condition) {
  for (int i = 0; i < 6000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  return false;
}

bool choose_lesson(LessonLauncher& launcher, const std::string& name) {
  for (std::size_t i = 0; i < launcher.lessons().size(); ++i)
    if (launcher.lessons()[i].name() == name) launcher.choose(i);
  return comes_true_soon([&] {
    launcher.poll();
    return launcher.declared();
  });
}

FlagControl& control(LessonLauncher& launcher, const std::string& flag) {
  const auto found = std::ranges::find(launcher.controls(), flag, &FlagControl::flag);
  REQUIRE(found != launcher.controls().end());
  return *found;
}

/// Returns whether a process runs: a zombie does not.
bool is_alive(pid_t process) {
  std::ifstream stat{fmt::format("/proc/{}/stat", process)};
  std::string id, name, state;
  return static_cast<bool>(stat >> id >> name >> state) && state != "Z" && state != "X";
}

}  // namespace

TEST_CASE("only the lessons that are built beside the viewer can be started") {
  static_assert(!std::is_constructible_v<LessonProgram, std::string, std::filesystem::path>);
  static_assert(!std::is_default_constructible_v<LessonProgram>);
  REQUIRE(find_lesson("09_1f1b"));
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  for (const LessonProgram& each : find_lessons()) {
    CHECK(each.path().parent_path() == self.parent_path().parent_path() / "lessons");
    CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(each.path())));
    CHECK(each.path().filename() == "lesson_" + each.name());
    CHECK(each.name().find("what_if") == std::string::npos);
  }
  CHECK(find_lesson("09_1f1b")->number() == "9");
  CHECK(find_lesson("11_zero_bubble")->number() == "11");
  CHECK(!find_lesson("../viz/lockstep_view"));
}

TEST_CASE("the controls are the flags that the lesson declares") {
  const TemporaryFolder folder;
  LessonLauncher launcher{folder.path() / "lesson"};
  REQUIRE(choose_lesson(launcher, "09_1f1b"));
  const FlagControl& own = control(launcher, "--compare");
  CHECK(own.group == own_group);
  CHECK(own.standard == "2");
  CHECK(own.kind == FlagControl::Kind::number);
  CHECK(groups_of(launcher.controls()).front() == own_group);
  CHECK(control(launcher, "--launch").choices ==
        std::vector<std::string>{"auto", "threads", "mpi"});
  CHECK(control(launcher, "--kernels").kind == FlagControl::Kind::on_off);
  CHECK(control(launcher, "--lr").kind == FlagControl::Kind::real);
  CHECK(control(launcher, "--steps").standard == "30");
  CHECK(control(launcher, "--steps").least == 1);
  for (const FlagControl& each : launcher.controls()) {
    CHECK(!each.flag.starts_with("--view"));
    CHECK(!each.changed());
  }
  CHECK(launcher.command() == "./lockstep lesson 9");
  control(launcher, "--steps").value = "4";
  control(launcher, "--kernels").value = "true";
  CHECK(launcher.command() == "./lockstep lesson 9 --steps 4 --kernels");
  launcher.reset();
  CHECK(launcher.command() == "./lockstep lesson 9");
  REQUIRE(choose_lesson(launcher, "11_zero_bubble"));
  CHECK(control(launcher, "--schedule").standard == "1f1b,zb-h1,zb-h2");
  CHECK_THROWS_AS(parse_declared_flags("[{\"flag\": 3}]"), RunError);
  CHECK_THROWS_AS(parse_declared_flags("not JSON"), RunError);
}

TEST_CASE("a lesson that the viewer starts streams to it, and says how it ends") {
  const TemporaryFolder folder;
  testing::Viewer viewer;
  LessonLauncher launcher{folder.path() / "lesson"};
  REQUIRE(choose_lesson(launcher, "09_1f1b"));
  for (const auto& [flag, value] :
       std::vector<std::pair<const char*, std::string>>{{"--steps", "3"},
                                                        {"--layers", "4"},
                                                        {"--hidden", "16"},
                                                        {"--heads", "2"},
                                                        {"--sequence", "16"},
                                                        {"--trace", folder / "run"}})
    control(launcher, flag).value = value;
  const std::string address = fmt::format("127.0.0.1:{}", viewer.port());
  launcher.start(address, "");
  CHECK(launcher.running());
  CHECK(viewer.until([&] { return viewer.timeline.ended(); }));
  CHECK(viewer.timeline.steps().size() == 3);
  CHECK(comes_true_soon([&] { return launcher.poll(); }));
  INFO(launcher.output());
  CHECK(launcher.words() == "lesson 9 has ended");
  CHECK(!launcher.failed());
  // The lesson, not the viewer, refuses impossible flags.
  control(launcher, "--microbatches").value = "3";
  launcher.start(address, "");
  CHECK(comes_true_soon([&] { return launcher.poll(); }));
  CHECK(launcher.failed());
  CHECK(launcher.words().starts_with("lesson 9 ended with exit code 2: "));
}

TEST_CASE("stop does what Ctrl-C does, and restart starts again") {
  const TemporaryFolder folder;
  testing::Viewer viewer;
  LessonLauncher launcher{folder.path() / "lesson"};
  REQUIRE(choose_lesson(launcher, "09_1f1b"));
  control(launcher, "--steps").value = "1000000";
  control(launcher, "--trace").value = folder / "run";
  const std::string address = fmt::format("127.0.0.1:{}", viewer.port());
  launcher.start(address, "");
  const pid_t first = launcher.process();
  CHECK(is_alive(first));
  launcher.start(address, "");  // again, without a stop
  CHECK(!is_alive(first));
  const pid_t second = launcher.process();
  CHECK(is_alive(second));
  // Before it has installed its handler, SIGINT ends it with the signal's own code.
  CHECK(comes_true_soon([&] { return !launcher.output().empty(); }));
  launcher.stop();
  CHECK(comes_true_soon([&] { return launcher.poll(); }));
  CHECK(launcher.words() == "lesson 9 was stopped");
  CHECK(!launcher.failed());
  CHECK(!is_alive(second));
  pid_t third = 0;
  {
    LessonLauncher other{folder.path() / "other"};
    REQUIRE(choose_lesson(other, "09_1f1b"));
    control(other, "--steps").value = "1000000";
    control(other, "--trace").value = folder / "other_run";
    other.start(address, "");
    third = other.process();
    CHECK(is_alive(third));
  }
  CHECK(!is_alive(third));  // it ended with the viewer
}

TEST_CASE("a lesson does not outlive a viewer that is killed") {
  const TemporaryFolder folder;
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const pid_t viewer = ::fork();
  REQUIRE(viewer >= 0);
  if (viewer == 0) {
    const LessonProcess lesson{*find_lesson("09_1f1b"),
                               {"--steps", "1000000", "--trace", "none"},
                               folder.path() / "output.txt"};
    const pid_t id = lesson.id();
    if (::write(pipe[1], &id, sizeof id) != sizeof id) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  pid_t lesson = 0;
  REQUIRE(::read(pipe[0], &lesson, sizeof lesson) == sizeof lesson);
  ::close(pipe[0]);
  ::close(pipe[1]);
  CHECK(is_alive(lesson));
  // The output shows that it has begun to train, so that it is the lesson itself that ends.
  CHECK(comes_true_soon([&] {
    std::error_code ignored;
    return std::filesystem::file_size(folder.path() / "output.txt", ignored) > 0;
  }));
  ::kill(viewer, SIGKILL);
  ::waitpid(viewer, nullptr, 0);
  CHECK(comes_true_soon([&] { return !is_alive(lesson); }));
}
