// What a dump's entries say about each call: whether it has completed or started, which calls form
// a batch, and which calls of a collective fit together.
#include <doctest/doctest.h>

#include "tests/flight_recorder/jobs.h"

using namespace lockstep;
using namespace lockstep::flight;

namespace {

/// Returns the calls in a dump with one group, "0", with this status.
Calls calls_in(const DumpJson& entries, const DumpJson& status = nullptr) {
  return calls_of(read_dump(
      pickle_of({{"entries", entries}, {"pg_status", DumpJson::object({{"3", status}})}})));
}

DumpJson entry(int sequence, const std::string& state) {
  return {{"pg_id", 3},
          {"process_group", "0"},
          {"collective_seq_id", sequence},
          {"profiling_name", "nccl:all_reduce"},
          {"state", state}};
}

}  // namespace

TEST_CASE("a call has completed if its state, time, group or retirement says so") {
  const auto pending = [](const DumpJson& entries, const DumpJson& status = DumpJson::object()) {
    std::vector<bool> all;
    for (const Call& call : calls_in(entries, status).all) all.push_back(call.pending);
    return all;
  };
  using Pending = std::vector<bool>;
  CHECK(pending({entry(1, "completed"), entry(2, "started"), entry(3, "scheduled")}) ==
        Pending{false, true, true});
  DumpJson timed = entry(1, "started");
  timed["time_discovered_completed_ns"] = 5;
  CHECK(pending(DumpJson::array({timed})) == Pending{false});
  CHECK(pending({entry(1, "scheduled"), entry(2, "scheduled")},
                {{"last_completed_collective", 1}}) == Pending{false, true});
  // Without any updated state, a retired operation has completed. Otherwise, it may have failed.
  DumpJson retired = entry(2, "scheduled");
  retired["retired"] = true;
  CHECK(pending(DumpJson::array({retired})) == Pending{false});
  CHECK(pending({entry(1, "completed"), retired}) == Pending{false, true});
}

TEST_CASE("a dump says which operations have started if a state or a group's status does") {
  CHECK(!calls_in(DumpJson::array({entry(1, "scheduled")}), DumpJson::object()).knows_started);
  CHECK(calls_in(DumpJson::array({entry(1, "started")}), DumpJson::object()).knows_started);
  CHECK(calls_in(DumpJson::array({entry(1, "scheduled")}), {{"last_started_collective", 1}})
            .knows_started);
}

TEST_CASE("collectives without sequence numbers are counted, and form no batches") {
  DumpJson entries = DumpJson::array();
  for (const char* name : {"nccl:all_reduce", "nccl:ALLGATHER_coalesced", "nccl:all_reduce"})
    entries.push_back({{"process_group", "0"}, {"profiling_name", name}, {"state", "completed"}});
  const Calls calls = calls_in(entries, DumpJson::object());
  REQUIRE(calls.all.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(calls.all[i].sequence == static_cast<int>(i) + 1);
}

TEST_CASE("operations of a coalesced batch have the state of the batch") {
  HandMade run;
  run.group("p", "pp", "[0, 1]");
  // torch never updates the states of the operations in a batch.
  for (const int rank : {0, 1}) {
    run.call(rank, "p", 5, rank == 0 ? "send 0->1" : "recv 1<-0", "scheduled");
    DumpJson& end = run.call(rank, "p", 5, "coalesced", "completed");
    end["p2p_seq_id"] = 5;
    end["collective_seq_id"] = 0;
    end["is_p2p"] = true;
  }
  CHECK(run.stall().waits.empty());
  run.call(1, "p", 6, "recv 1<-0", "scheduled");
  DumpJson& end = run.call(1, "p", 6, "coalesced", "started");
  end["p2p_seq_id"] = 6;
  end["is_p2p"] = true;
  const Stall stall = run.stall();
  REQUIRE(stall.waits.size() == 1);
  CHECK(stall.waits[0].to == std::vector{0});

  HandMade buffered;  // the send has completed, so it waits for no receiver
  buffered.group("p", "pp", "[0, 1]");
  buffered.call(0, "p", 1, "send 0->1", "scheduled");
  DumpJson& sent = buffered.call(0, "p", 1, "coalesced", "completed");
  sent["p2p_seq_id"] = 1;
  sent["is_p2p"] = true;
  buffered.silent(1);
  CHECK(buffered.stall().waits.empty());

  HandMade collectives;
  collectives.group("0", "dp", "[0, 1]");
  for (const int rank : {0, 1})
    for (const char* name : {"_all_gather_base", "_all_gather_base", "ALLGATHER_coalesced"})
      if (rank == 0) collectives.call(rank, "0", 3, name, "scheduled");
  collectives.silent(1);
  CHECK(collectives.stall().groups[0].operation == "2 coalesced _all_gather_base #3");
}

TEST_CASE("the end of a batch is no call if the ring buffer has lost the batch") {
  DumpJson end = entry(0, "started");
  end["profiling_name"] = "nccl:coalesced";
  end["is_p2p"] = true;
  end["p2p_seq_id"] = 6;
  CHECK(calls_in(DumpJson::array({end}), DumpJson::object()).all.empty());
}

TEST_CASE("only those tensors of a collective must agree that it requires to be equal") {
  struct Case {
    const char* operation;
    bool inputs, outputs;  // whether they must agree
  };
  for (const Case& each : {Case{"all_reduce", true, true}, Case{"reduce_scatter", true, true},
                           Case{"all_to_all", false, false}, Case{"barrier", false, false},
                           Case{"scatter", false, true}, Case{"gather", true, false},
                           Case{"broadcast", false, true}, Case{"reduce", true, false}})
    for (const char* tensors : {"input_sizes", "output_sizes"}) {
      CAPTURE(each.operation);
      CAPTURE(tensors);
      HandMade run;
      run.group("0", "ep", "[0, 1, 2]");
      for (const int rank : {0, 1}) {
        DumpJson& entry = run.call(rank, "0", 1, each.operation, "started");
        entry["input_sizes"] = entry["output_sizes"] = DumpJson::array({DumpJson::array({4})});
        entry[tensors] = DumpJson::array({DumpJson::array({4 + rank})});
      }
      run.silent(2);
      CHECK(run.stall().groups[0].mismatch() == (*tensors == 'i' ? each.inputs : each.outputs));
    }
}

TEST_CASE("long shapes that differ only at their ends are different") {
  HandMade run;
  run.group("0", "dp", "[0, 1, 2]");
  for (int rank = 0; rank < 3; ++rank) {
    DumpJson sizes = DumpJson::array();
    for (int i = 0; i < 60; ++i) sizes.push_back(1000 + i);
    if (rank == 1) sizes.back() = 7;
    run.call(rank, "0", 1, "all_reduce", "started")["input_sizes"] = DumpJson::array({sizes});
  }
  const Stall stall = run.stall();
  REQUIRE(stall.groups[0].mismatch());
  CHECK(stall.groups[0].calls[1].ranks == std::vector{1});
  const Job job = run.job();
  const std::string_view text = job.dumps[0].dump.entries[0].input.sizes;
  CHECK(text.starts_with("[[1000, 1001, "));
  CHECK(text.size() < 130);
}

TEST_CASE("a group's status shows calls whose entries the ring buffer has lost") {
  const DumpJson group = {{"name", "0"}, {"desc", "dp"}, {"ranks", "[0, 1]"}};
  Job job;
  for (const int rank : {0, 1}) {
    const DumpJson last = rank == 0 ? entry(3, "started") : entry(1, "completed");
    const DumpJson status = {{"last_enqueued_collective", 3}};
    job.dumps.push_back(
        {rank, read_dump(pickle_of({{"pg_config", DumpJson::object({{"0", group}})},
                                    {"pg_status", DumpJson::object({{"3", status}})},
                                    {"entries", DumpJson::array({last})}}))});
  }
  const Stall stall = stall_of(job);
  CHECK(stall.waits.empty());
  CHECK(stall.groups[0].completed == std::vector{1});
}
