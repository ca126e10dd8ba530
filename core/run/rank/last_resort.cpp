#include "core/run/rank/last_resort.h"

#include <execinfo.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include "core/base/available_memory.h"
#include "core/comm/mpi/environment.h"

namespace lockstep {

namespace {

// There may be no memory left, and a signal handler may not allocate any.
char limit_text[160];

// When memory is exhausted, several threads may fail at once. The first one reports the reason and
// ends the process; the others wait for that, but not forever, because a handler may interrupt the
// first one.
std::atomic_flag is_ending;

[[noreturn]] void end_with(const char* what) {
  if (is_ending.test_and_set()) {
    ::sleep(1);
    ::_exit(1);
  }
  char line[512];
  const int size = std::snprintf(line, sizeof line, "the run failed: %s%s\n", what, limit_text);
  [[maybe_unused]] const ssize_t ignored =
      ::write(STDERR_FILENO, line, static_cast<std::size_t>(size));
  ::_exit(1);
}

[[noreturn]] void on_terminate() {
  try {
    if (const auto exception = std::current_exception()) std::rethrow_exception(exception);
    end_with("a thread was not joined");
  } catch (const std::bad_alloc&) {
    end_with("out of memory");
  } catch (const std::exception& error) {
    end_with(error.what());
  } catch (...) {
    end_with("an unknown exception");
  }
}

[[noreturn]] void on_fault(int) {
  end_with("a segmentation fault, as when memory is exhausted");
}

}  // namespace

std::string words_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return "out of memory" + address_space_limit();
  const auto* refused = dynamic_cast<const std::system_error*>(&error);
  if (refused != nullptr && refused->code() == std::errc::resource_unavailable_try_again)
    return fmt::format("can't start a thread: {}{}", refused->code().message(),
                       address_space_limit());
  return error.what();
}

void install_last_resort() {
  const std::string limit = address_space_limit();
  std::snprintf(limit_text, sizeof limit_text, "%s", limit.c_str());
  std::set_terminate(on_terminate);
  // If an exception passes through libc, for example through call_once, libc loads libgcc at that
  // moment, and aborts if no memory is left for it. Asking for a backtrace loads it now.
  void* frame = nullptr;
  ::backtrace(&frame, 1);
  // mpirun reports the signal that ends a rank.
  if (!limit.empty() && !under_mpi()) std::signal(SIGSEGV, on_fault);
}

}  // namespace lockstep
