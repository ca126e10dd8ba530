#include <doctest/doctest.h>

#include <map>
#include <set>

#include "core/pipeline/csv.h"
#include "core/pipeline/message_plan.h"
#include "lessons/08_gpipe/gpipe.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "tests/pipeline/multi_stage_schedules.h"
#include "tests/pipeline/random_schedules.h"

using namespace lockstep;

namespace {

std::vector<Action> actions_of(const Schedule& schedule, int rank) {
  return schedule.actions[static_cast<std::size_t>(rank)];
}

/// Returns the index, in its rank's list, of the action that produces (`makes`) or consumes the
/// message.
std::size_t place_of(const Schedule& schedule, const MessagePlan::Message& message, bool makes) {
  const int rank = makes ? message.from_rank : message.to_rank;
  const int stage = makes ? message.producer() : message.stage;
  const auto row = actions_of(schedule, rank);
  const auto found = std::ranges::find_if(row, [&](const Action& action) {
    return action.stage == stage && action.microbatch == message.microbatch &&
           action.op != Op::backward_weight && (action.op == Op::forward) == message.forward;
  });
  return static_cast<std::size_t>(found - row.begin());
}

std::vector<std::int64_t> peaks(const Schedule& schedule) {
  std::vector<std::int64_t> buffers;
  for (int rank = 0; rank < schedule.ranks; ++rank)
    buffers.push_back(MessagePlan{schedule, rank}.peak_buffers());
  return buffers;
}

}  // namespace

TEST_CASE("buffers in flight, counted by hand") {
  using Peaks = std::vector<std::int64_t>;
  // Until the first gradient arrives, a rank under GPipe keeps one receive and all its sends open.
  CHECK(peaks(gpipe(4, 16)) == Peaks{17, 17, 17, 16});
  CHECK(peaks(gpipe(1, 4)) == Peaks{0});
  // F0 and F1 have been sent, and a receive for a gradient is open.
  CHECK(peaks(one_f_one_b(2, 4)) == Peaks{3, 3});
  CHECK(peaks(one_f_one_b(4, 8)) == Peaks{5, 5, 5, 3});
  // Both ranks begin with two open receives. Rank 0 also sends 0F0's output. Rank 1 consumes it,
  // passes 1F0's output on to its own 2F0, and sends 2F0's output in place of the first receive.
  CHECK(peaks(chunk_by_chunk({0, 1, 1, 0}, 1)) == Peaks{3, 2});
}

TEST_CASE("random schedules: every message is posted, used, sent and released as it must be") {
  std::mt19937 random{11};
  for (int i = 0; i < 300; ++i) {
    const Schedule schedule = random_schedule(random);
    CAPTURE(to_csv(schedule));
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      CAPTURE(rank);
      const MessagePlan plan{schedule, rank};
      std::map<MessagePlan::ChannelKey, std::size_t> last_posted;  // when the peer made it
      std::set<MessagePlan::Message> open, held;                   // receives, sends
      std::set<MessagePlan::ChannelKey> receiving, sending;
      std::int64_t peak = 0, sends = 0;
      const auto note = [&] {
        peak = std::max(peak, static_cast<std::int64_t>(open.size() + held.size()));
      };
      const auto post = [&](const MessagePlan::Message& message) {
        CHECK(message.to_rank == rank);
        const MessagePlan::ChannelKey channel = message.receive_channel();
        const std::size_t made = place_of(schedule, message, true);
        const auto before = last_posted.find(channel);
        CHECK((before == last_posted.end() || before->second < made));
        last_posted[channel] = made;
        receiving.insert(channel);
        CHECK(open.insert(message).second);
        note();
      };
      for (const MessagePlan::Message& message : plan.post_first()) post(message);
      const std::size_t first_receives = plan.post_first().size();
      const auto row = actions_of(schedule, rank);
      for (std::size_t at = 0; at < row.size(); ++at) {
        const MessagePlan::Around& around = plan.around(at);
        for (const MessagePlan::Message& message : around.post_before) post(message);
        const auto& [op, stage, microbatch, joined] = row[at];
        const int source = stage + (op == Op::forward ? -1 : 1);
        const bool has_input = op != Op::backward_weight && source >= 0 && source < schedule.stages;
        REQUIRE(around.input.has_value() == has_input);
        if (has_input) {
          CHECK(around.input->stage == stage);
          CHECK(around.input->microbatch == microbatch);
          CHECK(around.input->producer() == source);
          if (!around.input->local()) CHECK(open.erase(*around.input) == 1);
        }
        // The action releases exactly those messages that the input's sender had consumed before it
        // produced the input.
        std::set<MessagePlan::Message> arrived;
        if (has_input)
          for (const MessagePlan::Message& message : held)
            if (message.to_rank == around.input->from_rank &&
                place_of(schedule, message, false) <= place_of(schedule, *around.input, true))
              arrived.insert(message);
        CHECK(arrived == std::set(around.release.begin(), around.release.end()));
        for (const MessagePlan::Message& message : around.release) CHECK(held.erase(message) == 1);
        if (around.post_after) post(*around.post_after);
        const int user = stage + (op == Op::forward ? 1 : -1);
        const bool has_output = op != Op::backward_weight && user >= 0 && user < schedule.stages;
        REQUIRE(around.output.has_value() == has_output);
        if (has_output) {
          CHECK(around.output->stage == user);
          CHECK(around.output->producer() == stage);
          if (!around.output->local()) {
            held.insert(*around.output);
            sending.insert(around.output->send_channel());
            ++sends;
          }
        }
        note();
      }
      CHECK(open.empty());
      CHECK(first_receives == receiving.size());
      CHECK(plan.peak_buffers() == peak);
      CHECK(plan.messages_sent() == sends);
      for (const auto& [key, sends_on, receives_on] : plan.channels()) {
        CHECK(receives_on == receiving.contains(key));
        CHECK(sends_on == sending.contains(key));
      }
      receiving.merge(sending);
      CHECK(plan.channels().size() == receiving.size());
    }
  }
}
