#include "viz/read/kineto/reader.h"

#include <simdjson.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/base/printable.h"
#include "viz/read/kineto/json_fields.h"
#include "viz/read/kineto/labels.h"
#include "viz/read/kineto/numbers.h"
#include "viz/read/kineto/trace_builder.h"
#include "viz/read/timeline/parse.h"

namespace lockstep::kineto {

namespace json = simdjson::ondemand;

namespace {

constexpr std::size_t looked_at = 1 << 16;  // bytes in which is_kineto() searches
constexpr std::size_t most_group_ranks = 1 << 20;

/// Returns the ranks of "[0, 1]", as on-demand profiles write them; none if the list is shortened
/// ("[0, 1, ..., 63]") or malformed.
std::vector<int> ranks_in(std::string_view text) {
  if (!text.starts_with('[') || !text.ends_with(']')) return {};
  text = text.substr(1, text.size() - 2);
  std::vector<int> ranks;
  for (const auto part : std::views::split(text, ',')) {
    const auto rank = number_from<int>(trimmed({part.begin(), part.end()}));
    if (!rank || *rank < 0 || ranks.size() == most_group_ranks) return {};
    ranks.push_back(*rank);
  }
  return ranks;
}

/// Reads the document field by field. TraceBuilder interprets the events.
class Reader {
 public:
  explicit Reader(Trace& trace) : trace_(trace), builder_(trace) {}

  void read(json::document& document) {
    json::object top = document.get_object();
    bool events = false;
    for (json::field field : top) {
      const std::string_view key = key_of(field);
      JsonValue& value = field.value();
      if (key == "traceEvents") {
        json::array list;
        if (value.get_array().get(list))
          throw UsageError(excerpt(trace_.file) + ": traceEvents is not a list");
        read_events(list);
        events = true;
      } else if (key == "distributedInfo") {
        read_distributed(value);
      } else if (key == "baseTimeNanoseconds") {
        trace_.base_ns = number_of(value).value_or(0);
      } else if (key == "host_name" || key == "hostname") {
        trace_.host = text_of(value).substr(0, longest_name);
      }
    }
    if (!events) throw UsageError(excerpt(trace_.file) + ": has no traceEvents");
    builder_.finish();
  }

 private:
  void read_distributed(JsonValue& value) {
    json::object info;
    if (value.get_object().get(info)) return;
    for (json::field field : info) {
      const std::string_view key = key_of(field);
      JsonValue& entry = field.value();
      json::array groups;
      if (key == "rank") {
        trace_.rank = index_of(entry);
      } else if (key == "world_size") {
        trace_.world_size = index_of(entry);
      } else if (key == "pg_config" && !entry.get_array().get(groups)) {
        for (JsonValue group : groups) read_group(group);
      }
    }
  }

  void read_group(JsonValue& value) {
    json::object fields;
    if (value.get_object().get(fields)) return;
    ProcessGroup group;
    for (json::field field : fields) {
      const std::string_view key = key_of(field);
      JsonValue& entry = field.value();
      json::array ranks;
      if (key == "pg_name") {
        group.name = text_of(entry).substr(0, longest_name);
      } else if (key == "pg_desc") {
        group.description = text_of(entry).substr(0, longest_name);
      } else if (key == "pg_size") {
        group.size = std::max(index_of(entry), 0);
      } else if (key == "ranks" && !entry.get_array().get(ranks)) {
        for (JsonValue rank : ranks)
          if (const int number = index_of(rank);
              number >= 0 && group.ranks.size() < most_group_ranks)
            group.ranks.push_back(number);
      } else if (key == "ranks") {
        group.ranks = ranks_in(text_of(entry));
      }
    }
    trace_.groups.push_back(std::move(group));
  }

  void read_events(json::array& list) {
    for (JsonValue each : list) {
      json::object object;
      if (each.get_object().get(object)) {
        builder_.add_malformed();
        continue;
      }
      EventFields fields;
      for (json::field field : object) read_field(field, fields);
      builder_.add(fields);
    }
  }

  void read_field(json::field& field, EventFields& to) {
    const std::string_view key = key_of(field);
    JsonValue& value = field.value();
    if (key == "ph") {
      to.phase = text_of(value);
    } else if (key == "name") {
      to.name = text_of(value);
    } else if (key == "cat") {
      to.cat = text_of(value);
    } else if (key == "ts") {
      to.ts = value.raw_json_token();
    } else if (key == "dur") {
      to.dur = value.raw_json_token();
    } else if (key == "pid") {
      to.pid = trimmed(value.raw_json_token());
    } else if (key == "tid") {
      to.tid = trimmed(value.raw_json_token());
      to.thread = number_of(value);
    } else if (key == "id") {
      to.id = number_of(value).value_or(-1);
    } else if (json::object args; key == "args" && !value.get_object().get(args)) {
      for (json::field arg : args) read_arg(arg, to);
    }
  }

  void read_arg(json::field& field, EventFields& to) {
    const std::string_view key = key_of(field);
    JsonValue& value = field.value();
    const auto communication = [&]() -> Communication& {
      return to.communication ? *to.communication : to.communication.emplace();
    };
    if (key == "correlation") {
      to.event.correlation = number_of(value).value_or(-1);
    } else if (key == "bytes") {
      to.event.bytes = size_of(value);
    } else if (key == "name") {
      to.label = text_of(value);
    } else if (key == "Collective name") {
      communication().operation = builder_.id_of(text_of(value));
    } else if (key == "Process Group Name") {
      communication().group = builder_.id_of(text_of(value));
    } else if (key == "Process Group Description") {
      communication().description = builder_.id_of(text_of(value));
    } else if (key == "Process Group Ranks") {
      communication().members = builder_.id_of(written_text(value));
    } else if (key == "Group size") {
      communication().group_size = index_of(value);
    } else if (key == "Seq") {
      communication().sequence = number_of(value).value_or(-1);
    } else if (key == "Comms Id") {
      communication().comms_id = builder_.id_of(written_text(value));
    } else if (key == "In msg nelems") {
      communication().elements_in = size_of(value);
    } else if (key == "Out msg nelems") {
      communication().elements_out = size_of(value);
    } else if (key == "dtype") {
      communication().dtype = builder_.id_of(text_of(value));
    } else if (key == "Src Rank") {
      communication().source = index_of(value);
    } else if (key == "Dst Rank") {
      communication().destination = index_of(value);
    } else if (key == "Input Dims") {
      use_element(value, 0, [&](JsonValue& first) { to.elements = elements_in(first); });
    } else if (key == "Input type") {
      use_element(value, 0,
                  [&](JsonValue& first) { to.element_bytes = element_size(text_of(first)); });
    } else if (key == "Concrete Inputs") {
      // c10d::send(tensors, group, destination, tag), c10d::recv_(tensors, group, source, tag)
      use_element(value, 2, [&](JsonValue& peer) { to.event.peer = index_of(peer); });
    }
  }

  Trace& trace_;
  TraceBuilder builder_;
};

}  // namespace

bool is_kineto(std::string_view document) {
  const std::string_view start = document.substr(0, looked_at);
  const auto has = [&](std::string_view key) { return start.find(key) != std::string_view::npos; };
  const std::string_view text = trimmed(start);
  return text.starts_with('{') && (has("\"schemaVersion\"") || has("\"deviceProperties\"") ||
                                   has("\"distributedInfo\"") || has("\"baseTimeNanoseconds\""));
}

Trace read_trace(std::string document, const std::string& file) {
  Trace trace;
  trace.file = file;
  try {
    json::parser parser;
    document.reserve(document.size() + simdjson::SIMDJSON_PADDING);
    json::document parsed = parser.iterate(document.data(), document.size(), document.capacity());
    Reader{trace}.read(parsed);
  } catch (const simdjson::simdjson_error& error) {
    throw UsageError(excerpt(file) + ": is not a complete JSON document (" + error.what() +
                     "); perhaps PyTorch did not finish writing it");
  }
  return trace;
}

}  // namespace lockstep::kineto
