#include "core/pipeline/stage_messages.h"

#include <fmt/format.h>

namespace lockstep {

StageMessages::StageMessages(Endpoint endpoint, const Group& group, const Schedule& schedule,
                             Boundary boundary)
    : endpoint_(endpoint),
      boundary_(boundary),
      plan_(schedule, group.rank()),
      connected_(endpoint.transport, endpoint.transport.open_channels(2)) {
  for (int i = 0; i < group.size(); ++i) world_ranks_.push_back(group.world_rank(i));
  for (const auto& [key, sends, receives] : plan_.channels()) {
    const int world = world_ranks_[static_cast<std::size_t>(key.peer)];
    const int id = key.forward ? connected_.activations : connected_.gradients;
    const char* kind = key.forward ? "activations" : "gradients";
    endpoint.transport.connect(world, id, {sends, receives});
    channels_.emplace(key,
                      Channel{endpoint, id, sends ? fmt::format("send {} → {}", kind, world) : "",
                              receives ? fmt::format("receive {} ← {}", kind, world) : "", "pp"});
  }
}

void StageMessages::begin() {
  for (const Message& message : plan_.post_first()) post_receive(message);
}

Tensor StageMessages::before(std::size_t i) {
  const MessagePlan::Around& around = plan_.around(i);
  for (const Message& message : around.post_before) post_receive(message);
  Tensor input = around.input ? take(*around.input) : Tensor{};
  for (const Message& message : around.release) release(message);
  if (around.post_after) post_receive(*around.post_after);
  return input;
}

void StageMessages::after(std::size_t i, Tensor output) {
  if (const auto& message = plan_.around(i).output) send(*message, std::move(output));
}

void StageMessages::end() {
  for (auto& [message, sent] : sent_) sent.work.release();
  sent_.clear();
}

void StageMessages::post_receive(const Message& message) {
  Tensor buffer{endpoint_.device.memory, boundary_.shape, MemoryCategory::communication,
                boundary_.dtype, message.kind()};
  Work work = channels_.at(message.receive_channel())
                  .receive(buffer, world_ranks_[static_cast<std::size_t>(message.from_rank)],
                           {.span = {.name = "recv",
                                     .stage = message.stage,
                                     .microbatch = message.microbatch,
                                     .payload = message.payload()}});
  received_.emplace(message, InFlight{std::move(buffer), std::move(work)});
}

Tensor StageMessages::take(const Message& message) {
  if (message.local()) return std::move(local_.extract(message).mapped());
  auto [data, work] = std::move(received_.extract(message).mapped());
  work.wait();
  data.charge_to(MemoryCategory::activations, message.kind_once_received());
  return std::move(data);
}

void StageMessages::send(const Message& message, Tensor data) {
  if (message.local()) {
    local_.emplace(message, std::move(data));
    return;
  }
  data.charge_to(MemoryCategory::communication, message.kind());
  Work work = channels_.at(message.send_channel())
                  .send(data, world_ranks_[static_cast<std::size_t>(message.to_rank)],
                        endpoint_.device.compute.record(),
                        {.span = {.name = "send",
                                  .stage = message.producer(),
                                  .microbatch = message.microbatch,
                                  .payload = message.payload()}});
  sent_.emplace(message, InFlight{std::move(data), std::move(work)});
}

void StageMessages::release(const Message& message) {
  sent_.at(message).work.release();
  sent_.erase(message);
}

}  // namespace lockstep
