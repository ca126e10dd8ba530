#pragma once

#include <algorithm>
#include <vector>

#include "core/pipeline/simulator.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep {

/// Returns the timeline that executing a simulated schedule would record, as step 0. `simulation`
/// must contain its messages. An activation uses lane 1 + 4 · peer of its sender and the next lane
/// of its receiver; a gradient uses the two lanes after those.
inline Timeline timeline_of(const Schedule& schedule, const Simulation& simulation) {
  Timeline timeline;
  timeline.run().clock = "modelled";
  const NameId action = timeline.intern("action"), send = timeline.intern("send"),
               receive = timeline.intern("recv");
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    timeline.lane(static_cast<int>(rank), 0);
    for (std::size_t i = 0; i < schedule.actions[rank].size(); ++i) {
      const Action& ran = schedule.actions[rank][i];
      const TimedAction& time = simulation.actions[rank][i];
      timeline.add(static_cast<int>(rank), 0,
                   {.start = time.start,
                    .end = time.end,
                    .name = action,
                    .step = 0,
                    .stage = ran.stage,
                    .microbatch = ran.microbatch,
                    .category = category(ran.op)});
    }
  }
  std::uint64_t id = 0;
  for (const TimedMessage& each : simulation.messages) {
    const Payload payload = each.forward ? Payload::activations : Payload::gradients;
    ++id;
    const int lane = each.forward ? 1 : 3;
    timeline.add(each.from_rank, lane + 4 * each.to_rank,
                 {.start = each.start,
                  .end = each.sent,
                  .name = send,
                  .step = 0,
                  .stage = each.stage,
                  .microbatch = each.microbatch,
                  .peer = each.to_rank,
                  .category = Category::communication,
                  .role = MessageRole::sends,
                  .payload = payload,
                  .message = id});
    timeline.add(each.to_rank, lane + 1 + 4 * each.from_rank,
                 {.start = each.arrived - (each.sent - each.start),
                  .end = each.arrived,
                  .name = receive,
                  .step = 0,
                  .stage = each.stage + (each.forward ? 1 : -1),
                  .microbatch = each.microbatch,
                  .peer = each.from_rank,
                  .category = Category::communication,
                  .role = MessageRole::receives,
                  .payload = payload,
                  .message = id});
  }
  timeline.settle();
  return timeline;
}

}  // namespace lockstep
