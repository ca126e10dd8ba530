#include "core/base/token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/base/error.h"

namespace lockstep {

namespace {

constexpr std::size_t longest = 4096;

/// Reads the first line of a file, or of a pipe if the user wrote <(COMMAND).
std::string first_line(const std::string& flag, const std::string& file) {
  const auto refuse = [&](const std::string& why) {
    throw UsageError(fmt::format("{} {}: {}", flag, file, why));
  };
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) refuse(std::strerror(errno));
  struct stat status {};
  ::fstat(descriptor, &status);
  std::string text;
  std::array<char, longest + 1> bytes{};
  ssize_t count = 0;
  while (text.size() <= longest && text.find('\n') == std::string::npos &&
         (count = ::read(descriptor, bytes.data(), bytes.size())) > 0)
    text.append(bytes.data(), static_cast<std::size_t>(count));
  ::close(descriptor);
  if (S_ISREG(status.st_mode) && (status.st_mode & 077) != 0)
    refuse(fmt::format("other users can read this file; chmod 600 {}", file));
  text = text.substr(0, text.find_first_of("\r\n"));
  if (text.empty() || text.size() > longest) refuse("its first line is to be the token");
  return text;
}

/// Returns how many arguments, starting at `i`, the flag and its value take: 0 if argument `i` is
/// not the flag, 1 for "--flag=value", otherwise 2.
int length_at(int i, const char* flag, int argc, const char* const* argv) {
  const std::size_t size = std::strlen(flag);
  if (std::strncmp(argv[i], flag, size) != 0) return 0;
  if (argv[i][size] == '=') return 1;
  return argv[i][size] == '\0' ? std::min(2, argc - i) : 0;
}

}  // namespace

std::string find_token(const std::string& flag, const std::string& value,
                       const std::string& file_flag, const std::string& file) {
  if (!value.empty() && !file.empty())
    throw UsageError(
        fmt::format("{} with {}: both give the token; leave one of them out", flag, file_flag));
  if (!value.empty()) return value;
  if (!file.empty()) return first_line(file_flag, file);
  const char* inherited = std::getenv(token_variable);
  return inherited != nullptr ? inherited : "";
}

void hide_value(const std::string& flag, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const int length = length_at(i, flag.c_str(), argc, argv);
    const bool is_joined = length == 1 && argv[i][flag.size()] == '=';
    if (length < 2 && !is_joined) continue;
    char* value = is_joined ? argv[i] + flag.size() + 1 : argv[++i];
    std::memset(value, 'x', std::strlen(value));
  }
}

std::vector<std::string> arguments_without(std::initializer_list<const char*> flags, int argc,
                                           const char* const* argv) {
  std::vector<std::string> rest;
  for (int i = 1; i < argc;) {
    int length = 0;
    for (const char* flag : flags) length = std::max(length, length_at(i, flag, argc, argv));
    if (length == 0) rest.emplace_back(argv[i]);
    i += std::max(length, 1);
  }
  return rest;
}

}  // namespace lockstep
