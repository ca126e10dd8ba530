#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/token.h"
#include "tests/support/complaints.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

std::string find(const std::string& value, const std::string& file) {
  return find_token("--token", value, "--token-file", file);
}

/// A program's arguments, in writable memory.
struct Arguments {
  explicit Arguments(std::vector<std::string> texts_) : texts(std::move(texts_)) {
    for (std::string& each : texts) pointers.push_back(each.data());
  }
  int count() const { return static_cast<int>(texts.size()); }
  std::vector<std::string> texts;
  std::vector<char*> pointers;
};

}  // namespace

TEST_CASE("a token comes from a flag, a file or the environment") {
  const TemporaryFolder folder;
  const std::string file = folder.file("token", "from a file\nanother line\n");
  ::chmod(file.c_str(), 0600);
  ::unsetenv(token_variable);
  CHECK(find("", "") == "");
  ::setenv(token_variable, "from the environment", 1);
  CHECK(find("", "") == "from the environment");
  CHECK(find("from a flag", "") == "from a flag");
  CHECK(find("", file) == "from a file");
  ::unsetenv(token_variable);
  CHECK(unlike(complaint_of<UsageError>([&] { find("a", file); }), {"--token with --token-file"}) ==
        "");
}

TEST_CASE("a token's file that others can read, or that has no token, is refused") {
  const TemporaryFolder folder;
  const std::string open = folder.file("open", "secret\n"), empty = folder.file("empty", "\nx");
  ::chmod(open.c_str(), 0640);
  ::chmod(empty.c_str(), 0600);
  CHECK(unlike(complaint_of<UsageError>([&] { find("", open); }),
               {"--token-file " + open + ": other users can read", "chmod 600"}) == "");
  CHECK(unlike(complaint_of<UsageError>([&] { find("", empty); }), {"first line"}) == "");
  for (const std::string wrong : {"/no/such/file", "/dev/zero", "/"}) {
    CAPTURE(wrong);
    CHECK(unlike(complaint_of<UsageError>([&] { find("", wrong); }), {"--token-file " + wrong}) ==
          "");
  }
}

TEST_CASE("the token is hidden in a program's arguments, and not handed down with them") {
  Arguments given{{"lesson", "--token", "abc", "--token=de", "--token-file", "f", "--steps", "3",
                   "--tokens", "x", "--token"}};
  CHECK(arguments_without({"--token", "--token-file"}, given.count(), given.pointers.data()) ==
        std::vector<std::string>{"--steps", "3", "--tokens", "x"});
  hide_value("--token", given.count(), given.pointers.data());
  CHECK(given.texts[2] == "xxx");
  CHECK(given.texts[3] == "--token=xx");
  CHECK(given.texts[5] == "f");
  CHECK(given.texts[9] == "x");
  CHECK(given.texts[10] == "--token");
}
