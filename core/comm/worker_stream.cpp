#include "core/comm/worker_stream.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

namespace {

/// A collective in flight, and its scratch buffer.
class WorkerTask final : public Task {
 public:
  WorkerTask(Stream& compute, Worker& worker, std::shared_ptr<Worker::Job> job, Tensor scratch)
      : compute_(compute), worker_(worker), job_(std::move(job)), scratch_(std::move(scratch)) {}
  ~WorkerTask() override { worker_.drop(*job_); }
  Event finish() override {
    Event end = worker_.wait(*job_);
    if (scratch_) compute_.follow(end);  // `end` must pass before the scratch is released
    return end;
  }

 private:
  Stream& compute_;
  Worker& worker_;
  std::shared_ptr<Worker::Job> job_;
  Tensor scratch_;
};

}  // namespace

WorkerStream::WorkerStream(const Members& members, int channel)
    : members_(members), worker_(members.endpoint.transport, members.name) {
  channel_.emplace(Endpoint{worker_.agent(), members.endpoint.device}, channel,
                   fmt::format("{} collectives: send", members.name),
                   fmt::format("{} collectives: receive", members.name));
}

Work WorkerStream::queue(const Channel::Part& part, const Event& ready, Tensor scratch, Body body) {
  Stream& compute = members_.endpoint.device.compute;
  auto job = worker_.queue(
      [this, part, ready, body = std::move(body), view = scratch.view()] {
        const Clock& clock = members_.endpoint.device.compute.clock();
        Event start = ready;
        // Otherwise a message could start before the messages of the previous collective have
        // ended, although their times are already known.
        if (clock.is_modelled() && clock.cluster().shared) start.time = std::max(start.time, end_);
        ChannelPeers peers{*channel_, {members_.ranks, members_.rank}, part, start, view};
        Event end = body(peers);
        end_ = end.time;
        return end;
      },
      {.operation = part.span.name, .where = part.where, .group = part.span.group});
  return {compute, part.span,
          std::make_unique<WorkerTask>(compute, worker_, std::move(job), std::move(scratch))};
}

}  // namespace lockstep
