#include "core/run/launch/reader.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/child_process.h"
#include "core/base/print.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

constexpr const char* reader_name = "lockstep_read";

/// Returns the reader's path, or an empty one. The lessons of a build are in lessons/, and its
/// exercises and tests at most two folders deeper.
fs::path find_reader() {
  std::error_code error;
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int level = 0; level < 4 && !error; ++level, folder = folder.parent_path())
    for (fs::path found : {folder / reader_name, folder / "viz" / reader_name})
      if (::access(found.c_str(), X_OK) == 0) return found;
  return {};
}

}  // namespace

void run_reader(const std::vector<std::string>& arguments) {
  const fs::path reader = find_reader();
  if (reader.empty()) {
    print_error(
        "no report: {0} is neither beside this program nor in viz/ of its build; build the target "
        "{0}, and run it with: report FOLDER\n",
        reader_name);
    return;
  }
  std::vector<std::string> words{reader.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::vector<char*> pointers = pointers_to(words);
  const pid_t child = start_process({}, [&] {
    ::execv(pointers.front(), pointers.data());
    return 127;
  });
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (child < 0)
    print_error("no report: can't start {}: {}\n", reader.string(), std::strerror(errno));
  else if (WIFSIGNALED(status))
    print_error("no report: {} was ended by signal {}\n", reader.string(), WTERMSIG(status));
  else if (WEXITSTATUS(status) == 127)
    print_error("no report: can't start {}\n", reader.string());
}

}  // namespace lockstep
