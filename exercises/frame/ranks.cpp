#include "exercises/frame/ranks.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string_view>

#include "core/base/error.h"
#include "exercises/frame/statics.h"

namespace lockstep::exercises {

namespace {

std::int64_t all_bytes(const BytesSent& bytes) {
  std::int64_t sum = 0;
  for (const Operation operation : all_operations) sum += bytes[operation];
  return sum;
}

constexpr double latency_seconds = 1e-6;

/// Takes the events that the rank has recorded, and returns its computations and messages, with
/// times since `start`. A message ends when it arrives, or when the next one starts.
void take_rows(Recorder& trace, Picoseconds start, Row& computed, Row& sent) {
  const std::vector<std::string> lanes = trace.lanes();
  for (const TraceEvent& event : trace.drain()) {
    if (event.kind != TraceEvent::Kind::span) continue;
    const std::string& lane = lanes[static_cast<std::size_t>(event.lane)];
    const Block block{event.start - start, event.end - start, event.span.name};
    if (event.span.category == Category::kernel) computed.blocks.push_back(block);
    if (lane.ends_with(": send") && event.span.peer >= 0)
      sent.blocks.push_back({block.start, block.end, std::to_string(event.span.peer)});
  }
  std::ranges::sort(sent.blocks, std::less{}, &Block::start);
  for (std::size_t i = 0; i < sent.blocks.size(); ++i) {
    Block& block = sent.blocks[i];
    block.end += picoseconds(latency_seconds);
    if (i + 1 < sent.blocks.size()) block.end = std::min(block.end, sent.blocks[i + 1].start);
  }
}

/// Values one after another, in this machine's representation.
class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(std::string bytes) : bytes_(std::move(bytes)) {}

  template <class T>
  void put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_text(const std::string& text) {
    put(text.size());
    bytes_ += text;
  }
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string take_text() {
    const auto size = take<std::size_t>();
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  const std::string& all() const { return bytes_; }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace

void Turn::take() {
  // Long enough for a computation on a busy machine; the supervisor ends an endless loop.
  constexpr std::chrono::seconds patience{3};
  if (is_mine()) return;
  if (mutex_.try_lock_for(patience)) holder_ = std::this_thread::get_id();
}

void Turn::pass() {
  if (!is_mine()) return;
  holder_ = std::thread::id{};
  mutex_.unlock();
}

RankState::RankState(Rank& rank_, const Mesh& mesh_, int channels_, Turn* turn_)
    : rank(rank_),
      mesh(mesh_),
      channels(channels_),
      groups(static_cast<std::size_t>(all_axes_count) + 1),
      in_flight(rank_.id),
      turn(turn_) {}

bool RankState::is_in_buffer(std::span<const float> numbers) const {
  if (numbers.empty()) return true;
  const auto after = buffers.upper_bound(numbers.data());
  if (after == buffers.begin()) return false;
  const auto& [where, size] = *std::prev(after);
  return numbers.data() + numbers.size() <= where + size;
}

void RankState::check_memory() {
  check_statics(fmt::format("rank {}", rank.id));
  if (in_flight.misuse) throw Wrong{*in_flight.misuse};
}

void check_statics(const std::string& who) {
  const std::optional<std::string> variable = StaticData::of_answer().changed();
  if (!variable) return;
  throw Wrong{fmt::format("{} changes the static variable `{}`", who, *variable),
              "Your answer keeps data in a static variable, which the threads of all ranks share. "
              "Nothing but messages connects ranks: what one of them keeps must be in a local "
              "variable, or come as an argument. (Constants may be static.)"};
}

Group& RankState::all() {
  if (mesh.ranks() == rank.count) return rank.world;
  Group*& group = groups.back();
  if (group == nullptr) {
    std::vector<int> members(static_cast<std::size_t>(mesh.ranks()));
    std::iota(members.begin(), members.end(), 0);
    owned_.push_back(std::make_unique<Group>(rank.endpoint, members,
                                             fmt::format("{} ranks", mesh.ranks()),
                                             channels + all_axes_count * Group::channels_taken));
    group = owned_.back().get();
  }
  return *group;
}

Group& RankState::along(Axis axis) {
  const auto i = static_cast<std::size_t>(axis);
  if (groups[i] == nullptr) {
    owned_.push_back(
        std::make_unique<Group>(rank.endpoint, mesh.group(rank.id, axis), name_of(axis),
                                channels + static_cast<int>(i) * Group::channels_taken));
    groups[i] = owned_.back().get();
  }
  return *groups[i];
}

std::string RankOutcome::to_bytes() const {
  Bytes bytes;
  bytes.put(result.size());
  for (const float each : result) bytes.put(each);
  bytes.put(bytes_sent);
  bytes.put(peak_bytes);
  bytes.put(own_bytes);
  bytes.put(uncounted);
  bytes.put(peak_sizes.size());
  for (const std::size_t each : peak_sizes) bytes.put(each);
  bytes.put(started.size());
  for (const Started& each : started) {
    bytes.put_text(each.operation);
    bytes.put_text(each.where);
    bytes.put(each.numbers);
  }
  bytes.put(end);
  for (const Row* row : {&computed, &sent}) {
    bytes.put(row->blocks.size());
    for (const Block& block : row->blocks) {
      bytes.put(block.start);
      bytes.put(block.end);
      bytes.put_text(block.label);
    }
  }
  return bytes.all();
}

RankOutcome RankOutcome::from_bytes(const std::string& text) {
  Bytes bytes{text};
  RankOutcome outcome;
  outcome.result.resize(bytes.take<std::size_t>());
  for (float& each : outcome.result) each = bytes.take<float>();
  outcome.bytes_sent = bytes.take<std::int64_t>();
  outcome.peak_bytes = bytes.take<std::int64_t>();
  outcome.own_bytes = bytes.take<std::int64_t>();
  outcome.uncounted = bytes.take<std::size_t>();
  outcome.peak_sizes.resize(bytes.take<std::size_t>());
  for (std::size_t& each : outcome.peak_sizes) each = bytes.take<std::size_t>();
  outcome.started.resize(bytes.take<std::size_t>());
  for (Started& each : outcome.started) {
    each.operation = bytes.take_text();
    each.where = bytes.take_text();
    each.numbers = bytes.take<std::size_t>();
  }
  outcome.end = bytes.take<Picoseconds>();
  for (Row* row : {&outcome.computed, &outcome.sent}) {
    row->blocks.resize(bytes.take<std::size_t>());
    for (Block& block : row->blocks) {
      block.start = bytes.take<Picoseconds>();
      block.end = bytes.take<Picoseconds>();
      block.label = bytes.take_text();
    }
  }
  return outcome;
}

Options options_for(int ranks, const std::string& device) {
  Cluster cluster;
  cluster.name = "exercise";
  cluster.within = {.latency_seconds = latency_seconds, .bandwidth = 1e9};
  Options options;
  options.plan.set_mesh(Mesh::along(Axis::dp, ranks));
  options.platform.device = device;
  options.plan.modelled = {cluster, FixedTimes{}};
  options.platform.patience_seconds = 2;
  options.output.kernels = true;
  return options;
}

RankOutcome run_body(Rank& rank, const Mesh& mesh, int channels, Picoseconds start,
                     const Check::Body& body, Turn* turn) {
  const std::int64_t before = all_bytes(rank.transport->bytes_sent());
  RankOutcome outcome;
  RankState state{rank, mesh, channels, turn};
  World world{state, state.all()};
  struct HasTurn {
    explicit HasTurn(Turn* turn_) : turn(turn_) {
      if (turn != nullptr) turn->take();
    }
    ~HasTurn() {
      if (turn != nullptr) turn->pass();
    }
    Turn* turn;
  } const has_turn{turn};
  const auto check_waits = [&] {
    state.check_memory();
    if (const InFlight::Operation* left = state.in_flight.oldest();
        left != nullptr && state.not_awaited.empty())
      state.not_awaited = left->asked.text();
    if (!state.not_awaited.empty())
      throw Wrong{
          fmt::format("rank {} never waits for its {}", rank.id, state.not_awaited),
          "Such a call only starts an operation. Until wait() of its Work has returned, received "
          "numbers have not arrived, and sent ones are still needed. Destroying the Work earlier "
          "abandons the operation. That happens at once if you give the Work no name, and when you "
          "assign another Work to its variable. Keep every Work until you have waited for it."};
  };
  try {
    outcome.result = body(world);
  } catch (const RunError&) {
    check_waits();  // misuse found here is the likelier cause of a failure
    throw;
  } catch (const Wrong&) {
    throw;
  } catch (const NotWritten&) {
    throw;
  } catch (const abi::__forced_unwind&) {  // pthread_exit(), which must not be stopped
    throw;
  } catch (const std::invalid_argument&) {  // of an operation, whose arguments do not fit
    throw RunError{text_of_exception()};
  } catch (...) {
    throw Wrong{fmt::format("rank {} of {}: {}", rank.id, mesh.ranks(), text_of_exception()),
                "This exception has ended your function on that rank, in this case. With which "
                "index or size did the rank come there?"};
  }
  check_waits();
  outcome.bytes_sent = all_bytes(rank.transport->bytes_sent()) - before;
  outcome.peak_bytes = state.peak_bytes;
  outcome.peak_sizes = std::move(state.peak_sizes);
  outcome.own_bytes = state.own_bytes;
  outcome.uncounted = state.uncounted;
  outcome.started = std::move(state.started);
  outcome.end = rank.compute.now() - start;
  take_rows(rank.trace, start, outcome.computed, outcome.sent);
  return outcome;
}

std::string text_of_exception() {
  constexpr std::size_t most = 1000;
  try {
    throw;
  } catch (const std::out_of_range& error) {
    return fmt::format("the answer uses an element that is not there ({})", error.what());
  } catch (const std::length_error& error) {
    return fmt::format("the answer asks for a negative or much too large number of elements ({})",
                       error.what());
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    if (text.size() <= most) return std::string{text};
    return fmt::format("{}... ({} more bytes)", text.substr(0, most), text.size() - most);
  } catch (...) {
    const char* name = abi::__cxa_current_exception_type()->name();
    const std::unique_ptr<char, decltype(&std::free)> readable{
        abi::__cxa_demangle(name, nullptr, nullptr, nullptr), &std::free};
    return fmt::format("the answer throws an exception of the type {}",
                       readable ? readable.get() : name);
  }
}

}  // namespace lockstep::exercises
