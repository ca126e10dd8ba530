// Dumps of a stalled run that torch's gloo backend wrote as pickles and as JSON, and dumps of 16
// ranks in the NCCL backend's format. tests/golden/make_flight_recorder.py writes them.
#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "viz/read/flight_recorder/words.h"

using namespace lockstep;
using namespace lockstep::flight;

namespace fs = std::filesystem;

namespace {

const fs::path golden = fs::path{LOCKSTEP_SOURCE_DIR} / "tests/golden/flight_recorder";

Stall read(const std::string& folder) {
  return stall_of(read_job(dump_files({golden / folder})));
}

/// A folder that exists as long as the object.
struct Scratch {
  fs::path path = fs::temp_directory_path() / ("flight" + std::to_string(::getpid()));
  Scratch() { fs::create_directories(path); }
  ~Scratch() { fs::remove_all(path); }
  fs::path write(const std::string& name, const std::string& content) const {
    std::ofstream{path / name, std::ios::binary} << content;
    return path / name;
  }
  void copy(const fs::path& from, const std::string& name) const {
    fs::copy_file(from, path / name, fs::copy_options::overwrite_existing);
  }
};

std::string refusal_of(const std::vector<fs::path>& paths) {
  try {
    stall_of(read_job(dump_files(paths)));
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("the analysis names the stalled rank in dumps of torch's gloo") {
  const Stall pickled = read("gloo"), json = read("gloo_json");
  for (const Stall* stall : {&pickled, &json}) {
    REQUIRE(stall->sinks.size() == 1);
    CHECK(stall->sinks[0].ranks == std::vector{2});
    CHECK(stall->sinks[0].waiters == std::vector{0, 1, 3});
  }
  CHECK(stall_sentences(pickled) == stall_sentences(json));
  // gloo does not list a group's members, so they are the ranks that called something in it.
  for (const StalledGroup& group : pickled.groups) CHECK(group.members.size() == 2);
  CHECK(place_words(pickled.find(3)->place) == "dp1 tp1");
}

TEST_CASE("the analysis names the stalled rank in dumps of 16 ranks, protocols 2 and 4") {
  const Stall stall = read("nccl");
  CHECK(stall.ranks.size() == 16);
  CHECK(stall.groups.size() == 1 + 8 + 4 + 8);
  REQUIRE(stall.sinks.size() == 1);
  CHECK(stall.sinks[0].ranks == std::vector{6});
  CHECK(stall.sinks[0].waiters.size() == 15);
  CHECK(place_words(stall.find(6)->place) == "dp0 pp3 tp0");
  const std::string summary = stall_summary(stall);
  CHECK(summary.find("Ranks 0-5 and 7-15 wait, directly or not, for rank 6, ") !=
        std::string::npos);
  CHECK(summary.find("'tp' of ranks 6 and 7") != std::string::npos);
}

TEST_CASE("a folder with missing and damaged dumps, and dumps of two runs") {
  const Scratch scratch;
  for (const int rank : {0, 1, 3})
    scratch.copy(golden / "gloo" / ("nccl_trace_rank_" + std::to_string(rank)),
                 "nccl_trace_rank_" + std::to_string(rank));
  // Without rank 2's dump, nothing shows that rank 0's group has another member.
  CHECK(dump_files({scratch.path}).size() == 3);
  scratch.write("nccl_trace_rank_2", "\x80\x02}X\x07");
  const Job job = read_job(dump_files({scratch.path}));
  CHECK(job.dumps.size() == 3);
  REQUIRE(job.notes.size() == 1);
  CHECK(job.notes[0].find("nccl_trace_rank_2: is cut off") == 0);
  scratch.write("nccl_trace_rank_2", "");
  CHECK(read_job(dump_files({scratch.path})).notes[0] == "nccl_trace_rank_2: is empty");
  scratch.write("notes.txt", "no dump");
  CHECK(dump_files({scratch.path}).size() == 4);
  scratch.copy(golden / "gloo/nccl_trace_rank_1", "old_rank_1");
  CHECK(refusal_of({scratch.path}).find("are both of rank 1: the folder holds two runs") !=
        std::string::npos);
  fs::remove(scratch.path / "old_rank_1");
  scratch.copy(golden / "nccl/nccl_trace_rank_9", "nccl_trace_rank_9");
  scratch.write("nccl_trace_rank_7", "\x80\x02(cos\nsystem\n.");
  CHECK(read_job(dump_files({scratch.path})).notes.size() == 2);
  fs::create_directories(scratch.path / "hostile");
  scratch.write("hostile/rank_0", "\x80\x02(cos\nsystem\n.");
  CHECK(refusal_of({scratch.path / "hostile"}).find("rank_0: has the opcode GLOBAL at byte 3") ==
        0);
}

TEST_CASE("a dump's rank comes from the name of its file or from its content") {
  CHECK(rank_in_name("nccl_trace_rank_3") == 3);
  CHECK(rank_in_name("/tmp/x/rank12.pkl") == 12);
  CHECK(rank_in_name("trace_rank_7.json") == 7);
  CHECK(rank_in_name("job.2026.rank5.pickle.bin") == 5);
  CHECK(rank_in_name("dump") == -1);
  CHECK(rank_in_name("rank_99999999999") == -1);
  const Scratch scratch;
  for (const int rank : {5, 6, 9})
    scratch.copy(golden / "nccl" / ("nccl_trace_rank_" + std::to_string(rank)),
                 std::string(1, static_cast<char>('a' + rank)) + ".pkl");
  const Job job = read_job(dump_files({scratch.path}));
  REQUIRE(job.dumps.size() == 3);
  CHECK(job.dumps[0].rank == 5);
  CHECK(job.dumps[1].rank == 6);
  CHECK(job.dumps[2].rank == 9);
}

TEST_CASE("a dump's content implies its rank, or the file is not read") {
  const Scratch scratch;
  const std::string both = R"({"pg_config": {"a": {"name": "a", "ranks": "[2, 5]"},
                                             "b": {"name": "b", "ranks": "[5, 7]"}}})";
  CHECK(read_job({scratch.write("shared.json", both)}).dumps[0].rank == 5);
  const std::string sender = R"({"pg_config": {"a": {"name": "a", "ranks": "[4, 9]"}}, "entries": [
    {"process_group": ["a", ""], "profiling_name": "nccl:send 1->0", "p2p_seq_id": 1}]})";
  CHECK(read_job({scratch.write("sender.json", sender)}).dumps[0].rank == 9);
  scratch.write("neither.json", R"({"pg_config": {"a": {"name": "a", "ranks": "[4, 9]"}}})");
  CHECK(refusal_of({scratch.path / "neither.json"}).starts_with("neither.json: has no rank: "));
}

TEST_CASE("a folder with nothing but damaged dumps is refused with the first error") {
  const Scratch scratch;
  for (const int rank : {0, 1}) scratch.write("nccl_trace_rank_" + std::to_string(rank), "");
  CHECK(refusal_of({scratch.path}) == "nccl_trace_rank_0: is empty");
}
