#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/pipeline/csv.h"
#include "core/pipeline/validate.h"

using namespace lockstep;

namespace {

/// Two stages and two microbatches, with all messages, as PyTorch's runtime writes them.
const std::string good =
    "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
    "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD\n";

/// Returns the error message for a file, or "".
std::string complaint(const std::string& csv) {
  try {
    const Schedule schedule = schedule_from_csv(csv, "file");
    validate(schedule);
    check_messages(csv, schedule);
    return "";
  } catch (const ScheduleError& error) {
    return error.what();
  }
}

/// Returns `good` with the first `from` replaced by `to`.
std::string with(const std::string& from, const std::string& to, std::string text = good) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("PyTorch's schedules with messages are accepted, and computations alone are too") {
  CHECK(complaint(good) == "");
  CHECK(complaint("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n") == "");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator{
           LOCKSTEP_SOURCE_DIR "/tests/golden/schedules/with_messages"}) {
    std::ifstream file{entry.path()};
    std::stringstream text;
    text << file.rdbuf();
    CAPTURE(entry.path().string());
    CHECK(complaint(text.str()) == "");
    ++files;
  }
  CHECK(files == 3);
}

TEST_CASE("a fault in the messages of a file is named") {
  const std::pair<std::string, std::string> broken[] = {
      {with("0SEND_F1,", ""), "file: 0SEND_F1 is missing; rank 0 should send it after 0F1"},
      {with("1RECV_F0,", ""), "file: 1RECV_F0 is missing; rank 1 needs it before 1F0"},
      {with("1B0,1SEND_B0", "1SEND_B0,1B0"),
       "file: row 2, column 5: '1SEND_B0' is sent before it is computed"},
      {with("0SEND_F1", "0SEND_F0"), "file: row 1, column 5: '0SEND_F0' is there twice"},
      {with("0SEND_F1", "1SEND_B1"),
       "file: row 1, column 5: '1SEND_B1' belongs to rank 1, which has stage 1"},
      {with("0SEND_F1", "1SEND_F1"),
       "file: row 1, column 5: '1SEND_F1' is a message that no stage sends or receives"},
      {with("0SEND_F1", "0SEND_F7"),
       "file: row 1, column 5: '0SEND_F7' is a message that no stage sends or receives"},
      {with("0F1,0SEND_F1", "0SEND_F1,0F1"),
       "file: row 1, column 4: '0SEND_F1' is sent before it is computed"},
      {with("1RECV_F0,1F0", "1F0,1RECV_F0"), "file: row 2, column 2: '1F0' runs before 1RECV_F0"},
      {with("1RECV_F0,1F0,1RECV_F1", "1RECV_F1,1RECV_F0,1F0"),
       "file: rank 1 receives 1RECV_F1 when rank 0 sends 0SEND_F0"},
      // Each rank waits for a message that the other sends only afterwards.
      {with("0SEND_F1,0RECV_B0,0B0", "0RECV_B0,0B0,0SEND_F1"),
       "file: deadlock: rank 0 waits in 0RECV_B0 for 1SEND_B0, rank 1 waits in 1RECV_F1 for "
       "0SEND_F1"},
      {with("0RECV_B0", "1RECV_F0"),
       "file: row 1, column 6: '1RECV_F0' belongs to rank 1, which has stage 1"},
      // No message is sent.
      {"0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0\n",
       "file: 0SEND_F0 is missing; rank 0 should send it after 0F0"},
      // Rank 0 waits for two ranks that wait for each other.
      {"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
       "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1RECV_B0,1SEND_F1,1B0,1SEND_B0,1RECV_B1,1B1,1SEND_B1\n"
       "2RECV_F0,2F0,2RECV_F1,2F1,2B0,2SEND_B0,2B1,2SEND_B1\n",
       "file: deadlock: rank 1 waits in 1RECV_B0 for 2SEND_B0, rank 2 waits in 2RECV_F1 for "
       "1SEND_F1"},
      {with("0UNSHARD,", ""), "file: row 1, column 1: '0F0' runs while the stage is sharded"},
      {with("0F1,", "0RESHARD,0F1,"),
       "file: row 1, column 5: '0F1' runs while the stage is sharded"},
      {with("0REDUCE_GRAD,0RESHARD", "0RESHARD,0RESHARD,0REDUCE_GRAD"),
       "file: row 1, column 11: '0RESHARD' follows no UNSHARD"},
      {with("0UNSHARD", "1UNSHARD"),
       "file: row 1, column 1: '1UNSHARD' is on rank 0, which does not have this stage"},
      {with("0B1,0REDUCE_GRAD", "0REDUCE_GRAD,0B1"),
       "file: row 1, column 9: '0REDUCE_GRAD' comes before the stage's last backward pass"},
      {with("0REDUCE_GRAD,", ""),
       "file: 0REDUCE_GRAD is missing; rank 0 should run it after the stage's last backward pass"},
  };
  for (const auto& [csv, expected] : broken) {
    CAPTURE(csv);
    CHECK(complaint(csv) == expected);
  }
}

TEST_CASE("activations and gradients between the same two ranks have an order each") {
  // Rank 0 sends 0F1 and then 3B0. Rank 1 receives 3B0 first.
  CHECK(complaint("0F0,0SEND_F0,0F1,0SEND_F1,3RECV_F0,3F0,3B0,3SEND_B0,3RECV_F1,3F1,3B1,3SEND_B1,"
                  "0RECV_B0,0B0,0RECV_B1,0B1\n"
                  "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0,1RECV_F1,1F1,2F1,2SEND_F1,"
                  "2RECV_B1,2B1,1B1,1SEND_B1\n") == "");
}

TEST_CASE("messages between two stages of one rank are refused") {
  CHECK(complaint("0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0\n") ==
        "file: row 1, column 2: '0SEND_F0' is a message between two stages of one rank");
}

TEST_CASE("a joint action is a forward with a backward that does not depend on it") {
  const auto joint = [](const std::string& pair) {
    return complaint("0F0,0F1,0B0,0B1\n1F0," + pair + ",1B1\n");
  };
  CHECK(joint("(1F1;1B0)OVERLAP_F_B") == "");
  CHECK(joint("(1B0;1F1)OVERLAP_F_B") ==
        "file: rank 1 joins 1B0 with 1F1; a joint action is a forward and then a backward");
  CHECK(complaint("0F0,0F1,0B0,0B1\n1F0,1F1,(1B0;1B1)OVERLAP_F_B\n") ==
        "file: rank 1 joins 1B0 with 1B1; a joint action is a forward and then a backward");
  CHECK(complaint("(0F0;0B0)OVERLAP_F_B\n") ==
        "file: rank 0 joins 0F0 with 0B0, which uses its result");
  // Stage 0 sends its activations only at the end of the joint action, whose backward waits for a
  // gradient that depends on them.
  CHECK(complaint("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,1F1,1B0,1B1\n") ==
        "file: deadlock: rank 0 waits in 0B0 for 1B0, which rank 1 runs after 1F1, which waits for "
        "0F1, which rank 0 runs after 0B0");
}
