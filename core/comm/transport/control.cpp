#include "core/comm/transport/control.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep {

Route control_route(const Transport& transport, int peer) {
  return {.peer = peer, .channel = transport.control(), .operation = "control"};
}

void send_text(Transport& transport, int to, const std::string& text) {
  const std::uint64_t size = text.size();
  auto head = transport.send(control_route(transport, to), std::as_bytes(std::span{&size, 1}), 0);
  head->wait();
  if (size > 0)
    transport.send(control_route(transport, to), std::as_bytes(std::span{text}), 0)->wait();
}

std::string receive_text(Transport& transport, int from) {
  std::uint64_t size = 0;
  transport.receive(control_route(transport, from), std::as_writable_bytes(std::span{&size, 1}))
      ->wait();
  std::string text(size, '\0');
  if (size > 0)
    transport.receive(control_route(transport, from), std::as_writable_bytes(std::span{text}))
        ->wait();
  return text;
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

std::vector<std::string> gather_to_all(Transport& transport, const std::string& mine) {
  std::string joined;  // "5 hello0 3 one": each text after its size
  for (const std::string& each : gather_to_root(transport, mine))
    joined += std::to_string(each.size()) + ' ' + each;
  joined = broadcast_from_root(transport, joined);
  std::vector<std::string> all;
  for (std::string_view left = joined; !left.empty();) {
    const std::size_t text = left.find(' ') + 1,
                      size = std::stoull(std::string{left.substr(0, text)});
    all.emplace_back(left.substr(text, size));
    left.remove_prefix(text + size);
  }
  return all;
}

std::string scatter_from_root(Transport& transport, const std::vector<std::string>& texts) {
  if (transport.rank() != 0) return receive_text(transport, 0);
  for (int rank = 1; rank < transport.size(); ++rank)
    send_text(transport, rank, texts.at(static_cast<std::size_t>(rank)));
  return texts.at(0);
}

std::string broadcast_from_root(Transport& transport, std::string text) {
  if (transport.rank() != 0) return receive_text(transport, 0);
  for (int rank = 1; rank < transport.size(); ++rank) send_text(transport, rank, text);
  return text;
}

}  // namespace lockstep
