#include <doctest/doctest.h>

#include <algorithm>
#include <climits>
#include <string>
#include <vector>

#include "core/run/launch/aftermath.h"

using namespace lockstep;

namespace {

using Kind = RankMessage::Kind;
const std::string rule(74, '-');

std::string line_of(Kind kind, int rank, const std::string& host, const std::string& text) {
  std::string line = RankMessage{kind, rank, host, text}.to_line();
  CHECK(line.back() == '\n');
  line.pop_back();
  CHECK(line.find('\n') == std::string::npos);
  return line;
}

/// The text printed immediately, and the text printed at the end.
struct Output {
  std::string at_once, at_end;
};
/// `code` is mpirun's exit code; `host` is the host of all ranks, or "".
Output output_of(int ranks, const std::vector<std::string>& lines, int code = 1,
                 const std::string& host = "") {
  Aftermath aftermath{ranks, 60, host};
  Output output;
  for (const std::string& line : lines)
    if (const auto shown = aftermath.line(line)) output.at_once += *shown + "\n";
  output.at_end = aftermath.end(code << 8, "; LIMITS");
  output.at_end += aftermath.text("; EPILOGUE");
  return output;
}

const std::vector<std::string> killed{
    rule,
    "Primary job  terminated normally, but 1 process returned",
    "a non-zero exit code. Per user-direction, the job has been aborted.",
    rule,
    "[vm:1] btl_tcp: connection reset by peer",
    rule,
    "mpirun noticed that process rank 1 with PID 0 on node b exited on signal 9 (Killed).",
    rule};

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("what mpirun says about itself on a busy machine is not shown") {
  const std::string busy =
      "[a:4824] plm:rsh: Warning: setpgid(4840,4840) failed in parent with errno=Permission "
      "denied(13)";
  const std::string started = line_of(Kind::location, 0, "a", "");
  const std::vector<std::string> lines{busy, "mpirun: Forwarding signal 18 to job",
                                       "[a:4824] another warning"};
  // Warnings wait until MPI has started, because they may explain why it does not.
  CHECK(output_of(1, lines + std::vector{started}).at_once == "[a:4824] another warning\n");
  CHECK(output_of(1, std::vector{started} + lines).at_once == "[a:4824] another warning\n");
  CHECK(output_of(1, lines, 0).at_once == "");
  CHECK(output_of(1, lines, 0).at_end == "[a:4824] another warning\n");
}

TEST_CASE("a rank is named even if only mpirun's log names it") {
  const auto change = [](const std::string& name, const std::string& state) {
    return "[a:4824] [[900,0],0] ACTIVATE PROC " + name + " STATE " + state + " AT odls.c:1746";
  };
  const std::vector<std::string> lines{
      "[a:4824] [[900,0],0] ACTIVATE JOB [900,1] STATE MAP COMPLETE AT rmaps.c:507",
      change("[[900,1],12]", "RUNNING"), "unfinished" + change("[[900,1],12]", "ABORTED BY SIGNAL"),
      change("[[900,1],3]", "ABORTED BY SIGNAL"),
      "[a:4830] PMIX ERROR: UNREACHABLE in file client.c at line 9"};
  const Output output = output_of(16, lines, 137, "a");
  CHECK(output.at_once == "unfinished\n");
  CHECK(output.at_end.starts_with(
      "the run failed: rank 12 on a exited on signal 9 (Killed); EPILOGUE\n"));
  std::vector<std::string> unreachable_first = lines;
  std::ranges::rotate(unreachable_first, unreachable_first.end() - 1);
  CHECK(output_of(16, unreachable_first, 137, "a").at_end == output.at_end);
  CHECK(output_of(16, std::vector{lines.back()} + killed, 137)
            .at_end.starts_with("the run failed: rank 1 on b exited on signal 9"));
  CHECK(output_of(16, {change("[prterun-a-77@1,5]", "EXITED WITH NON-ZERO STATUS")}, 3, "a")
            .at_end.starts_with("the run failed: rank 5 on a ended with exit code 3; EPILOGUE\n"));
  // Job 0 is mpirun's daemons.
  CHECK(output_of(16, {change("[[900,0],1]", "ABORTED BY SIGNAL")}, 1, "a").at_end == "");
}

TEST_CASE("if MPI can't start, one line says why") {
  const std::string error =
      "[a:4824] [[900,0],0] ORTE_ERROR_LOG: The system limit on number of pipes a process can open "
      "was reached in file iof_base_setup.c at line 128";
  const std::string failed =
      "[a:4824] [[900,0],0] ACTIVATE PROC [[900,1],3] STATE FAILED TO LAUNCH AT odls.c:1438";
  const Output output = output_of(4, {"[a:4824] a warning", error, failed, error}, 1, "a");
  CHECK(output.at_once == "");
  CHECK(output.at_end ==
        "the run failed: MPI could not start rank 3 on a: ORTE_ERROR_LOG: The system limit on "
        "number of pipes a process can open was reached; LIMITS\n");
  CHECK(output_of(4, {"[a:4824] PMIX ERROR: OUT-OF-RESOURCE in file dstore.c at line 664",
                      "*** An error occurred in MPI_Init_thread"})
            .at_end ==
        "the run failed: MPI could not start: PMIX ERROR: OUT-OF-RESOURCE; LIMITS\n");

  Aftermath aftermath{1};
  CHECK_FALSE(aftermath.start_is_in_doubt());
  aftermath.line(error);
  CHECK(aftermath.start_is_in_doubt());
  CHECK_FALSE(aftermath.could_not_start());
  aftermath.line(failed);
  CHECK(aftermath.could_not_start());
  // A harmless error.
  Aftermath starts{1};
  starts.line(error);
  CHECK(starts.line(line_of(Kind::location, 0, "a", "")) == error);
  CHECK_FALSE(starts.start_is_in_doubt());
  CHECK(starts.end(0, "; LIMITS") == "");
  CHECK(starts.text("") == "");
}

TEST_CASE("a message is one line and survives a round trip") {
  const RankMessage report{Kind::failure, 17, "a-host", "deadlock\n  rank 1 waits\t\"µ\""};
  const auto copy = RankMessage::from_line(line_of(report.kind, 17, report.host, report.text));
  REQUIRE(copy);
  CHECK(copy->kind == report.kind);
  CHECK(copy->rank == 17);
  CHECK(copy->host == report.host);
  CHECK(copy->text == report.text);
  CHECK_FALSE(RankMessage::from_line("rank 3: any other line"));
  CHECK_FALSE(RankMessage::from_line(""));
  // A message is recognised even after an incomplete line of the rank's own output.
  CHECK(RankMessage::from_line("half a li" + line_of(Kind::location, 3, "b", ""))->rank == 3);
}

TEST_CASE(
    "a report fits an atomic pipe write, keeping the newest operations or a cause's beginning") {
  const std::string text = "FIRST" + std::string(10'000, 'x') + "LAST";
  for (const Kind kind : {Kind::last_operations, Kind::failure}) {
    const std::string line = RankMessage{kind, 1, "host", text}.to_line();
    CHECK(line.size() == PIPE_BUF);
    const auto copy = RankMessage::from_line(line.substr(0, line.size() - 1));
    CHECK(copy->text.starts_with("FIRST") == (kind == Kind::failure));
    CHECK(copy->text.ends_with("LAST") == (kind == Kind::last_operations));
  }
}

TEST_CASE("a killed rank is named once, followed by what each rank was doing") {
  const auto [at_once, at_end] = output_of(
      3, std::vector{line_of(Kind::location, 1, "b", ""), std::string{"a word of a rank's own"}} +
             killed +
             std::vector{line_of(Kind::last_operations, 2, "c", "step 4\nstep 5"),
                         line_of(Kind::last_operations, 0, "a", "step 3")});
  CHECK(at_once == "a word of a rank's own\n");
  CHECK(at_end ==
        "the run failed: rank 1 on b exited on signal 9 (Killed); EPILOGUE\n"
        "the last operations of each rank, newest last:\n"
        "  rank 0 on a:\n    step 3\n"
        "  rank 1 on b: was killed before it could report\n"
        "  rank 2 on c:\n    step 4\n    step 5\n");
}

TEST_CASE("ranks that fail because of another rank are not blamed") {
  // One rank was killed. Another rank noticed and reported the loss before mpirun reported it.
  CHECK(output_of(2, std::vector{line_of(Kind::failure, 0, "a", "MPI_Test: lost rank 1")} + killed)
            .at_end.starts_with("the run failed: rank 1 on b exited on signal 9"));
  // One rank reported the reason for its failure and was then killed.
  CHECK(output_of(2, std::vector{line_of(Kind::failure, 1, "b", "its own words"),
                                 line_of(Kind::failure, 0, "a", "lost rank 1")} +
                         killed)
            .at_end.starts_with("the run failed: rank 1 on b: its own words; EPILOGUE\n"));
}

TEST_CASE("a rank that ended silently is named with its exit code") {
  std::vector<std::string> ended{
      rule,
      "mpirun detected that one or more processes exited with non-zero status, thus causing",
      "the job to be terminated. The first process to do so was:",
      "",
      "  Process name: [[31942,1],1]",
      "  Exit code:    3",
      rule};
  const std::vector<std::string> here{line_of(Kind::location, 1, "b", "")};
  CHECK(output_of(2, here + ended)
            .at_end.starts_with("the run failed: rank 1 on b ended with exit code 3; EPILOGUE\n"));
  // A rank that has already reported the failure is not named again.
  CHECK(output_of(2,
                  std::vector{line_of(Kind::usage_error, 1, "b", "--data x: no such file")} + ended)
            .at_end.empty());
  CHECK(output_of(2, std::vector{line_of(Kind::already_reported, 0, "a", "")} + ended)
            .at_end.empty());
  // OpenMPI 5 names the rank in a different way.
  ended[1] = "prterun detected that one or more processes exited with non-zero status,";
  ended[4] = "   Process name: [prterun-vm-8518@1,1]";
  CHECK(output_of(2, here + ended)
            .at_end.starts_with("the run failed: rank 1 on b ended with exit code 3; EPILOGUE\n"));
}

TEST_CASE("an error on all ranks is printed once") {
  Aftermath refused{2};
  CHECK_FALSE(refused.refused());
  refused.line(line_of(Kind::location, 1, "b", ""));
  refused.line(line_of(Kind::usage_error, 1, "b", "--data x: no such file"));
  CHECK(refused.refused());
  refused.line(line_of(Kind::failure, 0, "a", "its own words"));
  CHECK_FALSE(refused.refused());
  const std::string first = line_of(Kind::usage_error, 1, "b", "--data x: no such file");
  CHECK(output_of(3, {first, line_of(Kind::usage_error, 0, "a", "--data x: no such file"),
                      line_of(Kind::usage_error, 2, "a", "--load y: no such file")})
            .at_once == "--data x: no such file\n--load y: no such file\n");
}

TEST_CASE("notices of busy ranks are passed on once per interval") {
  const auto passed_on = [](double notice_seconds) {
    Aftermath aftermath{2, notice_seconds};
    int lines = 0;
    for (const int rank : {1, 0, 1})
      if (const auto line = aftermath.line(line_of(Kind::busy, rank, "a", "it computes"))) {
        CHECK(*line == "it computes");
        ++lines;
      }
    CHECK_FALSE(aftermath.failed());
    CHECK(aftermath.text("") == "");
    return lines;
  };
  CHECK(passed_on(1e6) == 1);
  CHECK(passed_on(0) == 3);
}

TEST_CASE("messages that only mpirun has are passed on, whole or truncated") {
  const std::vector<std::string> block{rule, "There are not enough slots available",
                                       "in the system."};
  CHECK(output_of(2, block).at_end == "There are not enough slots available\nin the system.\n");
  CHECK(output_of(2, block + std::vector{rule}).at_end ==
        "There are not enough slots available\nin the system.\n");
  CHECK(output_of(2, {rule, "ORTE was unable to reliably start one or more daemons.",
                      "* many causes", rule, rule,
                      "ORTE does not know how to route a message to the specified daemon", rule})
            .at_end.ends_with("have OpenMPI's orted on its PATH\n"));
  CHECK(output_of(2, {"--- a short rule"}).at_once == "--- a short rule\n");
  CHECK(output_of(2, {}).at_end.empty());
}

TEST_CASE("the launching process's own cause comes before those that ranks report") {
  Aftermath aftermath{2};
  aftermath.line(line_of(Kind::location, 1, "b", ""));
  aftermath.line(line_of(Kind::failure, 0, "a", "has waited 2 s for rank 1"));
  aftermath.set_cause(1, "its process (7) has been stopped for 2.0 s");
  CHECK(aftermath.failed());
  CHECK(aftermath.text("; EPILOGUE")
            .starts_with("the run failed: rank 1 on b: its process (7) has been stopped for 2.0 s; "
                         "EPILOGUE\n"));

  Aftermath without_rank{2};
  without_rank.set_cause({}, "mpirun was killed by signal 9 (Killed)");
  CHECK(without_rank.text("; EPILOGUE")
            .starts_with("the run failed: mpirun was killed by signal 9 (Killed); EPILOGUE\n"));
}

TEST_CASE("an interrupted run that has saved says so at once, and nothing has failed") {
  Aftermath aftermath{2};
  CHECK_FALSE(aftermath.line(line_of(Kind::ready, 1, "a", "")));
  CHECK(aftermath.ready() == 1);
  CHECK_FALSE(aftermath.line(line_of(Kind::ready, 0, "a", "")));
  CHECK(aftermath.ready() == 2);
  CHECK_FALSE(aftermath.saved_and_ended());
  CHECK(aftermath.line(line_of(Kind::interrupted, 0, "a", "interrupted after 3 of 9 steps")) ==
        "interrupted after 3 of 9 steps");
  CHECK(aftermath.saved_and_ended());
  CHECK_FALSE(aftermath.failed());
  CHECK(aftermath.end(0, "") == "");
  CHECK(aftermath.text("; EPILOGUE") == "");
}
