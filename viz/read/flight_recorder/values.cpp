#include "viz/read/flight_recorder/values.h"

#include <fmt/format.h>

#include <limits>

#include "core/base/number.h"

namespace lockstep::flight {
namespace {

/// Reading a real dump visits each value once or, if it is shared, a few times.
constexpr std::uint64_t visits_at_least = 4'000'000, visits_per_byte = 4;

}  // namespace

Values::Values(std::size_t source_bytes) : source_bytes_(source_bytes) {
  if (source_bytes > std::numeric_limits<std::uint32_t>::max())
    throw DumpError("has more than 4 GB");
  nodes_.push_back({{0}, 0, Kind::none});
  nodes_.push_back({{0}, 0, Kind::boolean});
  nodes_.push_back({{1}, 0, Kind::boolean});
  chunks_.push_back(0);  // so that no chunk is at 0
}

void Values::check_memory(std::size_t more) const {
  if (memory() + more > most_memory(source_bytes_))
    throw DumpError(fmt::format("has more values than a dump of {} bytes needs ({})", source_bytes_,
                                nodes_.size()));
}

ValueId Values::add(const Node& node) {
  check_memory();
  nodes_.push_back(node);
  return static_cast<ValueId>(nodes_.size() - 1);
}

ValueId Values::integer(std::int64_t value) {
  return add({{.integer = value}, 0, Kind::integer});
}

ValueId Values::real(double value) {
  return add({{.real = value}, 0, Kind::real});
}

ValueId Values::text(std::string_view text, Kind kind) {
  if (texts_.empty()) texts_.reserve(source_bytes_);  // the texts of a file are no longer than it
  const std::size_t begin = texts_.size();
  texts_ += text;
  return add({{.offset = begin}, static_cast<std::uint32_t>(text.size()), kind});
}

ValueId Values::container(Kind kind) {
  return add({{.chunks = {0, 0}}, 0, kind});
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
  if (const auto text = as_text(id)) return number_from<std::int64_t>(*text);
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
  return std::string_view{texts_}.substr(node.offset, node.count);
}

void Values::visit_elements(ValueId id, const std::function<void(ValueId)>& visit) const {
  const std::uint64_t most = visits_at_least + visits_per_byte * source_bytes_;
  // Nothing is appended during a visit, so the list of chunks ends.
  for (std::uint32_t chunk = nodes_[id].chunks.first; chunk != 0; chunk = chunks_[chunk + 1])
    for (std::uint32_t i = 0; i < chunks_[chunk]; ++i) {
      if (++visits_ > most) throw DumpError("refers to the same lists too often");
      visit(chunks_[chunk + 2 + i]);
    }
}

void Values::elements(ValueId id, const std::function<void(ValueId)>& visit) const {
  if (is_list(id)) visit_elements(id, visit);
}

void Values::members(ValueId id,
                     const std::function<void(std::string_view, ValueId)>& visit) const {
  if (!is_dict(id)) return;
  std::optional<ValueId> key;
  visit_elements(id, [&](ValueId each) {
    if (!key) {
      key = each;
      return;
    }
    if (const auto text = as_text(*key)) {
      visit(*text, each);
    } else if (const auto number = as_integer(*key)) {
      visit(std::to_string(*number), each);
    }
    key.reset();
  });
}

}  // namespace lockstep::flight
