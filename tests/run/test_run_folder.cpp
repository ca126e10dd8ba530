#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/run/files/rank_message.h"
#include "core/run/files/run_folder.h"
#include "tests/support/complaints.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::testing;
namespace fs = std::filesystem;

namespace {

const std::string hello = "[\n{\"ph\":\"M\",\"name\":\"lockstep\",\"pid\":0},\n";
const std::string own_report = R"({"lesson": "09 1F1B", "clock": "wall", "config": {}})";

}  // namespace

TEST_CASE("a run's folder is the requested one, created with its parents") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create((folder.path() / "a" / "b").string(), "09 1F1B");
  CHECK(run.path == folder.path() / "a" / "b");
  CHECK(fs::is_directory(run.path));
  CHECK(run.rank_files(8).empty());
  // Its name: "20260131-120000-09-PID".
  CHECK(run.run.find("-09-") == std::string{"20260131-120000"}.size());
  CHECK(run.run.ends_with(std::to_string(::getpid())));
  const RunFolder copy = RunFolder::from_bytes(run.to_bytes());
  CHECK(copy.run == run.run);
  CHECK(copy.path == run.path);
}

TEST_CASE("two runs do not write to one folder at the same time") {
  const TemporaryFolder folder;
  const std::string trace = (folder.path() / "run").string();
  const auto create = [&] { return RunFolder::create(trace, "09 1F1B"); };
  {
    const RunFolder first = create();
    first.begin();
    CHECK(unlike(complaint_of<UsageError>(create),
                 {"--trace " + trace, std::to_string(::getpid()), "wait", "another place"}) == "");
    CHECK_NOTHROW(RunFolder::create(trace + "2", "09 1F1B"));
  }
  CHECK(create().path == trace);
  CHECK(fs::is_empty(trace));  // the lock is gone
}

TEST_CASE("`none` means no folder") {
  const RunFolder run = RunFolder::create("none", "09 1F1B");
  CHECK(run.path.empty());
  CHECK_FALSE(fs::exists("none"));
  CHECK(run.where_the_trace_is().empty());
  CHECK(RunFolder::from_bytes(run.to_bytes()).path.empty());
}

TEST_CASE("a process uses the given folder") {
  const TemporaryFolder folder;
  const RunFolder run{"a run", folder.path()};
  run.pass_on();
  const RunFolder inherited = RunFolder::create("something else", "09 1F1B");
  ::unsetenv("LOCKSTEP_RUN");
  CHECK(inherited.run == "a run");
  CHECK(inherited.path == folder.path());
  CHECK_FALSE(fs::exists("something else"));
}

TEST_CASE("a folder that cannot be created or written gives one line") {
  const TemporaryFolder folder;
  const std::string file = folder.file("file", "");
  for (const std::string& wrong : {file, file + "/below", std::string{"/proc/none"},
                                   std::string{"/proc"}, std::string{"/dev/null"}}) {
    CAPTURE(wrong);
    CHECK(unlike(complaint_of<UsageError>([&] { RunFolder::create(wrong, "09 1F1B"); }),
                 {"--trace " + wrong, "name another, or none"}) == "");
  }
}

TEST_CASE("runs/latest is the run that started last, and starts empty") {
  const TemporaryFolder folder;
  for (const std::string name : {"one", "two"}) {
    const RunFolder run{name, folder.path() / "runs" / name};
    fs::create_directories(run.path);
    for (const char* old : {"rank7.json", "trace.json"}) std::ofstream(run.path / old) << hello;
    std::ofstream(run.path / "report.json") << own_report;
    std::ofstream(run.path / "results.json") << R"({"lockstep_results":1})";
    for (const char* other : {"notes.txt", "rank8.json", "rank_list.json"})
      std::ofstream(run.path / other) << "mine";
    run.begin();
    CHECK_FALSE(fs::exists(run.path / "rank7.json"));
    CHECK_FALSE(fs::exists(run.path / "trace.json"));
    CHECK_FALSE(fs::exists(run.path / "report.json"));
    CHECK_FALSE(fs::exists(run.path / "results.json"));
    for (const char* other : {"notes.txt", "rank8.json", "rank_list.json"})
      CHECK(read_file(run.path / other) == "mine");
    std::ofstream(run.path / "rank0.json") << "[\n{\"a\":0},\n";
    std::ofstream(run.path / "rank1.json") << "[\n{\"a\":1},\n";
    CHECK(run.merge(2) == "");
    CHECK(read_file(run.path / "trace.json") == "[\n{\"a\":0},\n{\"a\":1},\n");
    CHECK(fs::read_symlink(folder.path() / "runs" / "latest") == name);
    CHECK(fs::equivalent(folder.path() / "runs" / "latest", run.path));
    CHECK(run.write_results("[]", "{}") == "");
    CHECK(read_file(run.path / "report.json") == "{}");
    CHECK(read_file(run.path / "results.json") == "[]");
    CHECK(run.where_the_trace_is().find(name) != std::string::npos);
    CHECK(run.how_to_look("").find("./lockstep view") != std::string::npos);
    CHECK(run.how_to_look("127.0.0.1:7077").find("./lockstep view") == std::string::npos);
  }
  CHECK(std::distance(fs::directory_iterator{folder.path() / "runs"}, {}) == 3);
  // A folder outside runs/ gets no link named `latest`.
  const RunFolder other{"other", folder.path() / "elsewhere"};
  fs::create_directories(other.path);
  other.begin();
  other.merge(0);
  CHECK_FALSE(fs::exists(folder.path() / "latest"));
}

TEST_CASE("a folder with other files is not a run's, and is left as it is") {
  const TemporaryFolder folder;
  const auto create = [&] {
    return complaint_of<UsageError>([&] { RunFolder::create(folder.path().string(), "09 1F1B"); });
  };
  const std::string fine = "(nothing thrown)", named = "--trace " + folder.path().string();
  folder.file(".hidden", "");
  CHECK(create() == fine);
  folder.file("notes.txt", "mine");
  CHECK(unlike(create(), {named, "notes.txt", "no run", "empty folder"}) == "");
  folder.file("rank0.json", hello);
  CHECK(create() == fine);  // still a run's folder after the user has added notes
  folder.file("report.json", own_report);
  CHECK(create() == fine);
  for (const auto& [file, text] : {std::pair{"report.json", "{\"lesson\": 3}"},
                                   {"trace.json", "{\"traceEvents\": []}"},
                                   {"rank1.json", "[1, 2]"},
                                   {"report.json", "of a year"}}) {
    folder.file(file, text);
    CHECK(unlike(create(), {named, file, "not written by Lockstep"}) == "");
    CHECK(read_file(folder.path() / file) == text);
    fs::remove(folder.path() / file);
  }
}

TEST_CASE("a run's trace is complete if each rank's file is") {
  const TemporaryFolder folder;
  const RunFolder run{"run", folder.path()};
  const std::string end = R"({"ph":"i","name":"end","s":"p","pid":0,"tid":0,"ts":1})";
  folder.file("rank0.json", hello + end + ",\n");
  CHECK(run.is_complete(1));
  CHECK_FALSE(run.is_complete(2));
  folder.file("rank1.json", hello);
  CHECK_FALSE(run.is_complete(2));
  CHECK(RunFolder{}.rank_files(2).empty());
}

TEST_CASE("a killed rank's file keeps its whole lines") {
  const TemporaryFolder folder;
  const RunFolder run{"run", folder.path()};
  const std::string whole = "[\n{\"a\":0},\n";
  const std::string long_line(10'000, 'x');
  const std::vector<std::pair<std::string, std::string>> files{
      {whole, whole},
      {whole + "{\"b\":", whole},
      {whole + long_line, whole},
      {long_line + "\n" + long_line + "\n" + long_line, long_line + "\n" + long_line + "\n"},
      {long_line, ""},
      {"", ""}};
  for (std::size_t rank = 0; rank < files.size(); ++rank)
    folder.file("rank" + std::to_string(rank) + ".json", files[rank].first);
  run.keep_whole_lines(static_cast<int>(files.size()) + 1);
  for (std::size_t rank = 0; rank < files.size(); ++rank) {
    CAPTURE(rank);
    CHECK(read_file(run.rank_file(static_cast<int>(rank))) == files[rank].second);
  }
}

TEST_CASE("traces on other hosts are reported with their hosts") {
  const TemporaryFolder folder;
  const RunFolder run{"run", folder.path()};
  folder.file("rank0.json", "[\n");
  folder.file("rank3.json", "[\n");  // a file system that both hosts share
  const std::string here = host_name();
  CHECK(run.where_the_trace_is({{0, here}, {1, here}, {3, "far"}}) == run.where_the_trace_is());
  CHECK(run.where_the_trace_is({{0, here}, {1, "b"}, {2, "b"}, {3, "far"}, {4, "c"}}) ==
        run.where_the_trace_is() + ", and that of ranks 1, 2 in " + folder.path().string() +
            " on b, and that of rank 4 in " + folder.path().string() + " on c");
}

TEST_CASE("an unwritable file gives one line") {
  CHECK(unlike(complaint_of<RunError>([] { write_text_file("/none/x", "text"); }),
               {"can't write", "/none/x"}) == "");
  if (fs::exists("/dev/full"))
    CHECK(unlike(complaint_of<RunError>([] { write_text_file("/dev/full", "text"); }),
                 {"can't write", "/dev/full"}) == "");
}
