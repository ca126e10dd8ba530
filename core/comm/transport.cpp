#include "core/comm/transport.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>

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

/// all_reduce of 40 bytes in dp (train.cpp:12), or: 8 bytes (train.cpp:13).
std::string describe(const MessageEnd& end) {
  const Route& route = end.route;
  if (!is_collective(route)) return fmt::format("{} bytes ({})", end.bytes, end.place);
  return fmt::format("{} of {} bytes{} ({})", route.operation,
                     route.whole >= 0 ? route.whole : end.bytes,
                     route.group != nullptr ? fmt::format(" in {}", route.group) : "", end.place);
}

}  // namespace

int Transport::open_channels(int count) {
  std::lock_guard lock{account_->mutex};
  const int first = account_->next_channel;
  account_->next_channel += count;
  return first;
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

bool fit_together(const Route& sent, std::int64_t sent_bytes, const Route& received,
                  std::int64_t received_bytes) {
  if (is_collective(sent) != is_collective(received)) return false;
  if (is_collective(sent) &&
      (std::strcmp(sent.operation, received.operation) != 0 || sent.whole != received.whole))
    return false;
  return sent_bytes == received_bytes;
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
                     calls ? "calls" : "sends", describe(sender), receiver.rank,
                     calls ? "calls" : "receives", describe(receiver));
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
