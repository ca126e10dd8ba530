#include "core/comm/transport.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "core/comm/native.h"

namespace lockstep {

namespace {

Route control(int peer) {
  return {.peer = peer, .channel = Transport::control_channel, .operation = "control"};
}

void send_text(Transport& transport, int to, const std::string& text) {
  const std::uint64_t size = text.size();
  auto head = transport.send(control(to), std::as_bytes(std::span{&size, 1}), 0);
  head->wait();
  if (size > 0) transport.send(control(to), std::as_bytes(std::span{text}), 0)->wait();
}

std::string receive_text(Transport& transport, int from) {
  std::uint64_t size = 0;
  transport.receive(control(from), std::as_writable_bytes(std::span{&size, 1}))->wait();
  std::string text(size, '\0');
  if (size > 0) transport.receive(control(from), std::as_writable_bytes(std::span{text}))->wait();
  return text;
}

bool is_collective(const Route& route) {
  return std::strcmp(route.operation, "send") != 0 && std::strcmp(route.operation, "recv") != 0;
}

/// As far as a name travels with a message.
bool same_name(const char* a, const char* b) {
  constexpr std::size_t travels = 23;
  return std::strncmp(a != nullptr ? a : "", b != nullptr ? b : "", travels) == 0;
}

/// all_reduce of 40 bytes in dp (train.cpp:12), or: 8 bytes (train.cpp:13). What is seldom in doubt
/// is said only where `other` sees it otherwise.
std::string describe(const MessageEnd& end, const MessageEnd& other) {
  const Route& route = end.route;
  const std::string group = route.group != nullptr ? fmt::format(" in {}", route.group) : "";
  if (!is_collective(route))
    return fmt::format("{} bytes{} ({})", end.bytes,
                       same_name(route.group, other.route.group) ? "" : group, end.place);
  std::string text = route.operation;
  if (is_collective(other.route)) {
    if (!same_name(route.algorithm, other.route.algorithm))
      text += fmt::format(" by {}", route.algorithm != nullptr ? route.algorithm : "?");
    if (route.root != other.route.root && route.root >= 0)
      text += fmt::format(" with member {} as root", route.root);
    if (route.number != other.route.number)
      text += fmt::format(" as collective number {}", route.number + 1);
  }
  return fmt::format("{} of {} bytes{} ({})", text, route.whole >= 0 ? route.whole : end.bytes,
                     group, end.place);
}

}  // namespace

int Transport::open_channels(int count) {
  std::lock_guard lock{account_->mutex};
  const int first = account_->next_channel;
  account_->next_channel += count;
  return first;
}

void Transport::open_group(const std::string& name) {
  std::lock_guard lock{account_->mutex};
  if (!account_->groups.insert(name).second)
    throw std::invalid_argument(fmt::format(
        "rank {} has a group {} already; give the other one another name", rank(), name));
}

void Transport::close_group(const std::string& name) {
  std::lock_guard lock{account_->mutex};
  account_->groups.erase(name);
}

std::unique_ptr<Pending> Transport::send(const Route& route, std::span<const std::byte> data,
                                         Picoseconds departure) {
  if (route.channel != control_channel) {
    std::lock_guard lock{account_->mutex};
    account_->bytes_sent[route.operation] += static_cast<std::int64_t>(data.size());
  }
  return post_send(route, data, departure);
}

std::map<std::string, std::int64_t> Transport::bytes_sent() const {
  std::lock_guard lock{account_->mutex};
  return account_->bytes_sent;
}

std::unique_ptr<NativeCollectives> Transport::native(const std::vector<int>&, int) {
  return nullptr;
}

void Transport::waits_for_jobs(Transport&, std::int64_t, const Route&) {}

std::string place(const std::source_location& where) {
  return fmt::format("{}:{}", std::filesystem::path(where.file_name()).filename().string(),
                     where.line());
}

bool same_call(const Route& one, const Route& other) {
  if (is_collective(one) != is_collective(other) || !same_name(one.group, other.group))
    return false;
  return !is_collective(one) ||
         (same_name(one.operation, other.operation) && same_name(one.algorithm, other.algorithm) &&
          one.whole == other.whole && one.number == other.number && one.root == other.root);
}

bool fit_together(const Route& sent, std::int64_t sent_bytes, const Route& received,
                  std::int64_t received_bytes) {
  return sent_bytes == received_bytes && same_call(sent, received);
}

std::string waits_for(const Route& route, bool is_send, std::int64_t bytes) {
  std::string part;
  if (is_collective(route)) part = fmt::format(" in {}", route.operation);
  if (is_collective(route) && route.group != nullptr) part += fmt::format(" of {}", route.group);
  return fmt::format("for rank {} to {} {} bytes{} ({})", route.peer, is_send ? "receive" : "send",
                     bytes, part, place(route.where));
}

std::string mismatch(const MessageEnd& sender, const MessageEnd& receiver) {
  const bool calls = is_collective(sender.route) && is_collective(receiver.route);
  return fmt::format("ranks disagree: rank {} {} {} where rank {} {} {}", sender.rank,
                     calls ? "calls" : "sends", describe(sender, receiver), receiver.rank,
                     calls ? "calls" : "receives", describe(receiver, sender));
}

std::vector<std::string> gather_to_root(Transport& transport, const std::string& mine) {
  if (transport.rank() != 0) {
    send_text(transport, 0, mine);
    return {};
  }
  std::vector<std::string> all{mine};
  for (int rank = 1; rank < transport.size(); ++rank) all.push_back(receive_text(transport, rank));
  return all;
}

std::string broadcast_from_root(Transport& transport, std::string text) {
  if (transport.rank() != 0) return receive_text(transport, 0);
  for (int rank = 1; rank < transport.size(); ++rank) send_text(transport, rank, text);
  return text;
}

}  // namespace lockstep
