#include "core/flight_recorder/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/base/printable.h"
#include "core/flight_recorder/json_values.h"
#include "core/flight_recorder/pickle.h"
#include "core/flight_recorder/rank_list.h"

namespace lockstep::flight {
namespace {

using ValueKind = Values::Kind;

/// A dump has one dictionary per entry, and each takes more bytes than this.
constexpr std::size_t most_entries = 50'000, bytes_per_entry = 96;
constexpr std::size_t most_groups = 20'000;
constexpr std::size_t longest_text = 120;    // of a name
constexpr std::size_t longest_shapes = 100;  // as text
constexpr std::size_t most_shapes = 1 << 20;

/// The keys of a dump. torch's JSON is sorted, so it begins with one of the first.
constexpr std::array<std::string_view, 7> keys{"comm_lib_version", "entries",   "nccl_comm_state",
                                               "nccl_version",     "pg_config", "pg_status",
                                               "version"};

const char* name_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::none:
      return "None";
    case ValueKind::boolean:
      return "a boolean";
    case ValueKind::integer:
      return "a whole number";
    case ValueKind::real:
      return "a number";
    case ValueKind::text:
    case ValueKind::bytes:
      return "a text";
    case ValueKind::list:
    case ValueKind::tuple:
      return "a list";
    case ValueKind::dict:
      return "a dictionary";
  }
  return "a value";
}

class DumpReader {
 public:
  explicit DumpReader(Pickle document) : document_(std::move(document)) {
    dump_.texts = std::make_shared<std::set<std::string, std::less<>>>();
  }

  Dump read() {
    const ValueId root = document_.root;
    if (!values().is_dict(root))
      throw DumpError(fmt::format(
          "is no flight-recorder dump: its outermost value is {}, but must be a dictionary",
          name_of(values().kind(root))));
    bool known = false;
    values().members(root, [&](std::string_view key, ValueId value) {
      known = known || std::ranges::find(keys, key) != keys.end();
      if (key == "version") dump_.version = std::string{text(value)};
      if (key == "pg_config") read_groups(value);
      if (key == "pg_status") read_status(value);
      if (key == "entries") read_entries(value);
    });
    if (!known)
      throw DumpError("is no flight-recorder dump: it has neither 'entries' nor 'pg_config'");
    std::ranges::stable_sort(dump_.entries, {}, &Entry::record);
    return std::move(dump_);
  }

 private:
  const Values& values() const { return document_.values; }

  [[noreturn]] void unfit(ValueId value, const char* wanted) const {
    std::string shown = name_of(values().kind(value));
    if (const auto text = values().as_text(value)) shown = fmt::format("'{}'", excerpt(*text, 40));
    throw DumpError(fmt::format("{}'{}' is {}, but must be {}", where_, field_, shown, wanted));
  }
  bool is_none(ValueId value) const { return values().kind(value) == ValueKind::none; }

  std::int64_t whole(ValueId value) const {
    if (is_none(value)) return -1;
    if (const auto number = values().as_integer(value)) return *number;
    unfit(value, "a whole number");
  }
  bool boolean(ValueId value) const {
    if (is_none(value)) return false;
    if (const auto yes = values().as_boolean(value)) return *yes;
    unfit(value, "True or False");
  }
  std::string_view text(ValueId value) {
    if (is_none(value)) return {};
    if (const auto found = values().as_text(value)) return keep(*found);
    if (const auto number = values().as_integer(value)) return keep(std::to_string(*number));
    unfit(value, "a text");
  }
  /// Returns a copy that lives as long as the dump, safe to print.
  std::string_view keep(std::string_view text) {
    if (text.size() > longest_text) return keep(shortened(text));
    if (const auto found = dump_.texts->find(text); found != dump_.texts->end()) return *found;
    return *dump_.texts->insert(excerpt(text, 4 * longest_text)).first;
  }
  /// Returns the beginning of a long text with a checksum of the whole, so that different texts
  /// stay different.
  static std::string shortened(std::string_view text) {
    return fmt::format("{}... ({:x})", text.substr(0, longest_shapes),
                       std::hash<std::string_view>{}(text));
  }

  void read_groups(ValueId config) {
    at("pg_config");
    if (is_none(config)) return;
    if (!values().is_dict(config)) unfit(config, "a dictionary of process groups");
    values().members(config, [&](std::string_view key, ValueId value) {
      GroupConfig group{.name = std::string{keep(key)}, .description = {}, .ranks = {}};
      where_ = fmt::format("process group '{}': ", excerpt(key, 40));
      field_ = "pg_config";
      if (!values().is_dict(value)) unfit(value, "a dictionary");
      values().members(value, [&](std::string_view name, ValueId each) {
        field_ = name;
        if (name == "name" && !is_none(each)) group.name = std::string{text(each)};
        if (name == "desc") group.description = std::string{text(each)};
        if (name == "ranks") group.ranks = ranks(each);
        listed_ += group.ranks.size();
        if (listed_ > static_cast<std::size_t>(most_ranks) + values().source().size())
          throw DumpError("lists more ranks than its size allows");
      });
      if (dump_.groups.size() >= most_groups) throw DumpError("has too many process groups");
      dump_.groups.push_back(std::move(group));
    });
  }

  /// torch writes the ranks of a group as the text of a list: "[0, 1]".
  std::vector<int> ranks(ValueId value) const {
    if (is_none(value)) return {};
    if (const auto written = values().as_text(value)) {
      if (auto list = parse_rank_list(*written)) return *std::move(list);
    } else if (values().is_list(value)) {
      std::vector<int> list;
      values().elements(value, [&](ValueId each) {
        const auto rank = values().as_integer(each);
        if (!rank || *rank < 0 || *rank >= most_ranks) unfit(each, "a rank");
        list.push_back(static_cast<int>(*rank));
        return true;
      });
      if (list.size() <= static_cast<std::size_t>(most_ranks)) return list;
    }
    unfit(value, "a list of ranks, such as '[0, 1]'");
  }

  void read_status(ValueId status) {
    at("pg_status");
    if (is_none(status)) return;
    if (!values().is_dict(status)) unfit(status, "a dictionary of process groups");
    values().members(status, [&](std::string_view key, ValueId value) {
      where_ = fmt::format("status of process group '{}': ", excerpt(key, 40));
      field_ = "pg_status";
      if (!values().is_dict(value)) unfit(value, "a dictionary");
      GroupStatus group;
      values().members(value, [&](std::string_view name, ValueId each) {
        field_ = name;
        if (name == "last_enqueued_collective") group.enqueued = whole(each);
        if (name == "last_started_collective") group.started = whole(each);
        if (name == "last_completed_collective") group.completed = whole(each);
      });
      std::int64_t id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc{} || end != key.data() + key.size()) return;
      if (dump_.status.size() >= most_groups) throw DumpError("has too many process groups");
      dump_.status[id] = group;
    });
  }

  void read_entries(ValueId entries) {
    at("entries");
    if (is_none(entries)) return;
    if (!values().is_list(entries)) unfit(entries, "a list");
    const std::size_t most = most_entries + values().source().size() / bytes_per_entry;
    if (values().size(entries) > most)
      throw DumpError(fmt::format("has {} entries, too many for its size", values().size(entries)));
    dump_.entries.reserve(values().size(entries));
    values().elements(entries, [&](ValueId each) {
      where_ = fmt::format("entry {}: ", dump_.entries.size());
      field_ = "entries";
      if (!values().is_dict(each)) unfit(each, "a list of dictionaries");
      Entry entry;
      values().members(each, [&](std::string_view key, ValueId value) {
        field_ = key;
        read_field(entry, key, value);
      });
      if (entry.name.empty())
        throw DumpError(fmt::format("entry {} has no profiling_name", dump_.entries.size()));
      dump_.entries.push_back(entry);
      return true;
    });
  }

  void read_field(Entry& entry, std::string_view key, ValueId value) {
    if (key == "record_id") entry.record = whole(value);
    if (key == "pg_id") entry.pg_id = whole(value);
    if (key == "collective_seq_id" || key == "seq_id") entry.sequence = whole(value);
    if (key == "p2p_seq_id") entry.p2p = whole(value);
    if (key == "time_created_ns") entry.created_ns = whole(value);
    if (key == "time_discovered_completed_ns") entry.completed_ns = whole(value);
    if (key == "profiling_name") entry.name = text(value);
    if (key == "is_p2p") entry.is_p2p = boolean(value);
    if (key == "retired") entry.retired = boolean(value);
    if (key == "state") entry.state = state(value);
    if (key == "process_group") read_group_of(entry, value);
    if (key == "pg_name") entry.group = text(value);
    if (key == "input_sizes") entry.input.sizes = shapes(value);
    if (key == "output_sizes") entry.output.sizes = shapes(value);
    if (key == "input_dtypes") entry.input.dtypes = shapes(value);
    if (key == "output_dtypes") entry.output.dtypes = shapes(value);
  }

  State state(ValueId value) {
    const std::string_view name = text(value);
    if (name.empty()) return State::unknown;
    if (name == "scheduled") return State::scheduled;
    if (name == "started") return State::started;
    if (name == "completed") return State::completed;
    unfit(value, "scheduled, started or completed");
  }

  /// The name of a group, or the pair of its name and description.
  void read_group_of(Entry& entry, ValueId value) {
    if (!values().is_list(value)) {
      entry.group = text(value);
      return;
    }
    if (values().size(value) > 2) unfit(value, "a process group's name and description");
    bool first = true;
    values().elements(value, [&](ValueId each) {
      (first ? entry.group : entry.description) = text(each);
      first = false;
      return true;
    });
  }

  /// Returns lists of numbers or of texts as one text.
  std::string_view shapes(ValueId value) {
    if (is_none(value)) return {};
    if (!values().is_list(value)) unfit(value, "a list");
    std::string all;
    append_shapes(all, value, 0);
    return keep(all);
  }
  void append_shapes(std::string& all, ValueId value, int depth) {
    constexpr int deepest = 2;
    if (all.size() > most_shapes)
      throw DumpError(fmt::format("{}'{}' is too long a list", where_, field_));
    if (const auto text = values().as_text(value)) {
      all += text->substr(0, longest_text);
    } else if (const auto number = values().as_integer(value)) {
      all += std::to_string(*number);
    } else if (values().is_list(value) && depth < deepest) {
      all += '[';
      bool first = true;
      values().elements(value, [&](ValueId each) {
        if (!first) all += ", ";
        first = false;
        append_shapes(all, each, depth + 1);
        return true;
      });
      all += ']';
    } else {
      unfit(value, "a list of sizes or types");
    }
  }

  void at(std::string_view field) {
    where_.clear();
    field_ = field;
  }

  Pickle document_;
  Dump dump_;
  std::string where_;  ///< for messages: "entry 3: "
  std::string_view field_;
  std::size_t listed_ = 0;  ///< ranks of all groups
};

}  // namespace

bool is_dump(std::string_view beginning) {
  if (is_pickle(beginning)) return true;
  const auto brace = beginning.find_first_not_of(" \t\r\n");
  if (brace == std::string_view::npos || beginning[brace] != '{') return false;
  const auto quote = beginning.find_first_not_of(" \t\r\n", brace + 1);
  if (quote == std::string_view::npos || beginning[quote] != '"') return false;
  const std::string_view rest = beginning.substr(quote + 1);
  return std::ranges::any_of(keys, [&](std::string_view key) {
    return rest.starts_with(key) && rest.substr(key.size()).starts_with('"');
  });
}

Dump read_dump(std::string content) {
  if (content.empty()) throw DumpError("is empty");
  return DumpReader{is_pickle(content) ? read_pickle(std::move(content))
                                       : read_json(std::move(content))}
      .read();
}

}  // namespace lockstep::flight
