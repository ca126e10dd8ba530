#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/run/launch/processes.h"

using namespace lockstep;

namespace {

/// A child of this process that only waits for signals.
struct Child {
  pid_t process = ::fork();
  Child() {
    while (process == 0) ::pause();
  }
  ~Child() {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
};

bool becomes_true(const std::function<bool()>& condition) {
  for (int tries = 0; tries < 60'000 && !condition(); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  return condition();
}

}  // namespace

TEST_CASE("a stopped child is seen as such until it continues") {
  const Child child;
  CHECK(std::ranges::count(children_of(::getpid()), child.process) == 1);
  CHECK_FALSE(is_stopped(child.process));
  ::kill(child.process, SIGSTOP);
  CHECK(becomes_true([&] { return is_stopped(child.process); }));
  ::kill(child.process, SIGCONT);
  CHECK(becomes_true([&] { return !is_stopped(child.process); }));
}

TEST_CASE("a process's variables are those with which it started") {
  CHECK(variable_of(::getpid(), "PATH").value_or("") != "");
  CHECK_FALSE(variable_of(::getpid(), "PAT"));
  CHECK_FALSE(variable_of(::getpid(), "NO_SUCH_VARIABLE"));
}

TEST_CASE("a process that ends while its files are read has no variables and no children") {
  std::atomic<pid_t> newest = 0;
  std::atomic<bool> over = false;
  std::string wrong;
  std::thread reader{[&] {
    try {
      while (!over) {
        const pid_t process = newest;
        if (process == 0) continue;
        is_stopped(process);
        variable_of(process, "PATH");
        children_of(process);
      }
    } catch (const std::exception& error) {
      wrong = error.what();
    }
  }};
  for (int i = 0; i < 3000; ++i) {
    const pid_t process = ::fork();
    if (process == 0) ::_exit(0);
    newest = process;
    ::waitpid(process, nullptr, 0);
  }
  over = true;
  reader.join();
  CHECK(wrong == "");
}

TEST_CASE("the watchdog finds a child that has been stopped for the time-out, and no other") {
  const Child runs, stops;
  ::kill(stops.process, SIGSTOP);
  REQUIRE(becomes_true([&] { return is_stopped(stops.process); }));
  Watchdog watchdog{::getpid(), 0.2};  // this process stands for mpirun
  CHECK_FALSE(watchdog.look(false));   // time counts from the first look
  std::optional<Watchdog::Stopped> found;
  CHECK(becomes_true([&] { return (found = watchdog.look(false)).has_value(); }));
  REQUIRE(found);
  CHECK(found->process == stops.process);
  CHECK_FALSE(found->is_mpirun);
  CHECK_FALSE(found->rank);
  CHECK(found->seconds > 0.2);

  // If a process continues and is stopped again, its time starts again from zero.
  ::kill(stops.process, SIGCONT);
  REQUIRE(becomes_true([&] { return !is_stopped(stops.process); }));
  CHECK_FALSE(watchdog.look(false));
  ::kill(stops.process, SIGSTOP);
  REQUIRE(becomes_true([&] { return is_stopped(stops.process); }));
  CHECK_FALSE(watchdog.look(false));
}
