#include "core/comm/threads/fabric_time.h"

#include "core/base/error.h"

namespace lockstep {

void ThreadFabric::Time::move_on() {
  while (fabric_.failure_.empty() && !fabric_.graph_.any_runs() && network_.next()) try {
      network_.advance();
    } catch (const UsageError& error) {
      fabric_.fail_locked(error.what(), /*impossible=*/true);
    }
}

void ThreadFabric::Time::wait_until(int agent, Picoseconds time) {
  struct Timer final : SharedNetwork::Listener {
    Timer(ThreadFabric& run, int agent_) : fabric(run), waiting(agent_) {}
    void left(int, const Passage&) override {}
    void arrived(int, const Passage&) override {}
    void reached(int) override {
      over = true;
      fabric.released(waiting);
    }
    ThreadFabric& fabric;
    int waiting;
    bool over = false;
  };
  std::unique_lock lock{fabric_.mutex_};
  auto& timer = static_cast<Timer&>(
      *timers_.try_emplace(agent, std::make_unique<Timer>(fabric_, agent)).first->second);
  timer.over = false;
  network_.at(time, timer, 0);
  fabric_.wait_for_time(lock, agent, {.operation = "a kernel beside a collective"},
                        [&] { return timer.over; });
}

std::shared_ptr<ThreadFabric::Time::Message> ThreadFabric::Time::add(int agent, const Route& route,
                                                                     SharedTime::Known known) {
  auto message = std::make_shared<Message>(*this, agent, route, std::move(known));
  open_.emplace(message.get(), message);
  return message;
}

void ThreadFabric::Time::Message::ends(const Passage& passage) {
  end_ = passage.end;
  known_(passage);
  if (awaited_) time_.fabric_.released(agent_);
  time_.open_.erase(this);  // perhaps the last reference
}

Picoseconds ThreadFabric::Time::Message::wait() {
  ThreadFabric& fabric = time_.fabric_;
  std::unique_lock lock{fabric.mutex_};
  if (end_ >= 0) return end_;
  struct Awaited {
    explicit Awaited(bool& flag_) : flag(flag_) { flag = true; }
    ~Awaited() { flag = false; }
    bool& flag;
  } const awaited{awaited_};
  fabric.wait_for_time(lock, agent_, route_, [this] { return end_ >= 0; });
  return end_;
}

}  // namespace lockstep
