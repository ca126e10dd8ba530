#include "core/flight_recorder/values.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

namespace lockstep::flight {
namespace {

/// A reader visits each value of a real dump once or, if it is shared, a few times.
constexpr std::uint64_t visits_at_least = 4'000'000, visits_per_byte = 4;

}  // namespace

Values::Values(std::string text) : source_(std::move(text)) {
  if (source_.size() > std::numeric_limits<std::uint32_t>::max())
    throw DumpError("has more than 4 GB");
  nodes_.push_back({{0}, 0, Kind::none, false});
  nodes_.push_back({{0}, 0, Kind::boolean, false});
  nodes_.push_back({{1}, 0, Kind::boolean, false});
  chunks_.push_back(0);  // so that no chunk is at 0
}

void Values::check_memory(std::size_t more) const {
  if (memory() + more > most_memory(source_.size()))
    throw DumpError(fmt::format("has more values than a dump of {} bytes needs ({})",
                                source_.size(), nodes_.size()));
}

ValueId Values::add(const Node& node) {
  check_memory();
  nodes_.push_back(node);
  return static_cast<ValueId>(nodes_.size() - 1);
}

ValueId Values::integer(std::int64_t value) {
  return add({{.integer = value}, 0, Kind::integer, false});
}

ValueId Values::real(double value) {
  return add({{.real = value}, 0, Kind::real, false});
}

ValueId Values::text(std::size_t begin, std::size_t length, Kind kind) {
  return add({{.offset = begin}, static_cast<std::uint32_t>(length), kind, false});
}

ValueId Values::copy(std::string_view text) {
  if (copies_.empty()) copies_.reserve(source_.size());  // texts without escapes are no longer
  const std::size_t begin = copies_.size();
  copies_ += text;
  return add({{.offset = begin}, static_cast<std::uint32_t>(text.size()), Kind::text, true});
}

ValueId Values::container(Kind kind) {
  return add({{.chunks = {0, 0}}, 0, kind, false});
}

void Values::append(ValueId container, const ValueId* values, std::size_t count) {
  if (count == 0) return;
  check_memory((count + 2) * 4);
  const auto position = static_cast<std::uint32_t>(chunks_.size());
  chunks_.push_back(static_cast<std::uint32_t>(count));
  chunks_.push_back(0);
  chunks_.insert(chunks_.end(), values, values + count);
  Node& node = nodes_[container];
  if (node.chunks.first == 0) {
    node.chunks.first = position;
  } else {
    chunks_[node.chunks.last + 1] = position;
  }
  node.chunks.last = position;
  node.count += static_cast<std::uint32_t>(count);
}

std::optional<std::int64_t> Values::as_integer(ValueId id) const {
  const Node& node = nodes_[id];
  if (node.kind == Kind::integer) return node.integer;
  if (node.kind == Kind::real && node.real > -9e15 && node.real < 9e15 &&
      static_cast<double>(static_cast<std::int64_t>(node.real)) == node.real)
    return static_cast<std::int64_t>(node.real);
  if (const auto text = as_text(id)) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error == std::errc{} && end == text->data() + text->size()) return value;
  }
  return std::nullopt;
}

std::optional<double> Values::as_real(ValueId id) const {
  const Node& node = nodes_[id];
  if (node.kind == Kind::real) return node.real;
  if (node.kind == Kind::integer) return static_cast<double>(node.integer);
  return std::nullopt;
}

std::optional<bool> Values::as_boolean(ValueId id) const {
  const Node& node = nodes_[id];
  if (node.kind == Kind::boolean || node.kind == Kind::integer) return node.integer != 0;
  return std::nullopt;
}

std::optional<std::string_view> Values::as_text(ValueId id) const {
  const Node& node = nodes_[id];
  if (node.kind != Kind::text && node.kind != Kind::bytes) return std::nullopt;
  return std::string_view{node.copied ? copies_ : source_}.substr(node.offset, node.count);
}

void Values::visit_elements(ValueId id, const std::function<bool(ValueId)>& visit) const {
  const std::uint64_t most = visits_at_least + visits_per_byte * source_.size();
  // The list does not change while it is read, so its chunks end.
  for (std::uint32_t chunk = nodes_[id].chunks.first; chunk != 0; chunk = chunks_[chunk + 1])
    for (std::uint32_t i = 0; i < chunks_[chunk]; ++i) {
      if (++visits_ > most) throw DumpError("refers to the same lists too often");
      if (!visit(chunks_[chunk + 2 + i])) return;
    }
}

void Values::elements(ValueId id, const std::function<bool(ValueId)>& visit) const {
  if (is_list(id)) visit_elements(id, visit);
}

void Values::members(ValueId id,
                     const std::function<void(std::string_view, ValueId)>& visit) const {
  if (!is_dict(id)) return;
  std::optional<ValueId> key;
  visit_elements(id, [&](ValueId each) {
    if (!key) {
      key = each;
      return true;
    }
    if (const auto text = as_text(*key)) {
      visit(*text, each);
    } else if (const auto number = as_integer(*key)) {
      visit(std::to_string(*number), each);
    }
    key.reset();
    return true;
  });
}

}  // namespace lockstep::flight
