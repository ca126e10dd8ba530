#include "viz/read/flight_recorder/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/number.h"
#include "core/base/printable.h"
#include "viz/read/flight_recorder/json_values.h"
#include "viz/read/flight_recorder/pickle.h"
#include "viz/read/flight_recorder/rank_list.h"

namespace lockstep::flight {
namespace {

/// A dump contains a dictionary per entry, which takes more bytes than this.
constexpr std::size_t most_entries = 50'000, bytes_per_entry = 96;
constexpr std::size_t most_groups = 20'000;
constexpr std::size_t longest_text = 120;
constexpr std::size_t shortened_text = 100;  // of a longer text, before its checksum
constexpr std::size_t most_shapes = 1 << 20;

/// The keys of a dump. torch sorts the keys of its JSON, so a file begins with one of them.
constexpr std::array<std::string_view, 7> keys{"comm_lib_version", "entries",   "nccl_comm_state",
                                               "nccl_version",     "pg_config", "pg_status",
                                               "version"};

/// Describes a value of this kind, for messages.
const char* name_of(Values::Kind kind) {
  constexpr std::array names{"None",   "a boolean", "a whole number", "a number",    "a text",
                             "a text", "a list",    "a list",         "a dictionary"};
  return names.at(static_cast<std::size_t>(kind));
}

class DumpReader {
 public:
  explicit DumpReader(Document document) : document_(std::move(document)) {}

  Dump read() {
    const ValueId root = document_.root;
    if (!values_.is_dict(root))
      throw DumpError(fmt::format(
          "is not a flight-recorder dump: its outermost value is {}, but must be a dictionary",
          name_of(values_.kind(root))));
    bool known = false;
    values_.members(root, [&](std::string_view key, ValueId value) {
      known = known || std::ranges::find(keys, key) != keys.end();
      at("", key);
      if (key == "version") dump_.version = std::string{text(value)};
      if (is_none(value)) return;
      if (key == "pg_config") read_groups(value);
      if (key == "pg_status") read_status(value);
      if (key == "entries") read_entries(value);
    });
    if (!known)
      throw DumpError("is not a flight-recorder dump: it has neither 'entries' nor 'pg_config'");
    std::ranges::stable_sort(dump_.entries, {}, &Entry::record);
    return std::move(dump_);
  }

 private:
  void read_groups(ValueId config) {
    require_dict(config, "a dictionary of process groups");
    values_.members(config, [&](std::string_view key, ValueId value) {
      at(fmt::format("process group '{}': ", excerpt(key, 40)), "pg_config");
      require_dict(value, "a dictionary");
      GroupConfig group{.name = std::string{keep(key)}, .description = {}, .ranks = {}};
      values_.members(value, [&](std::string_view field, ValueId each) {
        field_ = field;
        if (field == "name" && !is_none(each)) group.name = std::string{text(each)};
        if (field == "desc") group.description = std::string{text(each)};
        if (field == "ranks") group.ranks = ranks(each);
        listed_ += group.ranks.size();
        if (listed_ > static_cast<std::size_t>(most_ranks) + values_.source_bytes())
          throw DumpError("lists more ranks than its size allows");
      });
      if (dump_.groups.size() >= most_groups) throw DumpError("has too many process groups");
      dump_.groups.push_back(std::move(group));
    });
  }

  void read_status(ValueId status) {
    require_dict(status, "a dictionary of process groups");
    values_.members(status, [&](std::string_view key, ValueId value) {
      at(fmt::format("status of process group '{}': ", excerpt(key, 40)), "pg_status");
      require_dict(value, "a dictionary");
      GroupStatus group;
      values_.members(value, [&](std::string_view field, ValueId each) {
        field_ = field;
        if (field == "last_enqueued_collective") group.enqueued = whole(each);
        if (field == "last_started_collective") group.started = whole(each);
        if (field == "last_completed_collective") group.completed = whole(each);
      });
      const auto id = number_from<std::int64_t>(key);
      if (!id) return;
      if (dump_.status.size() >= most_groups) throw DumpError("has too many process groups");
      dump_.status[*id] = group;
    });
  }

  void read_entries(ValueId entries) {
    require_list(entries, "a list");
    const std::size_t count = values_.size(entries);
    if (count > most_entries + values_.source_bytes() / bytes_per_entry)
      throw DumpError(fmt::format("has {} entries, too many for its size", count));
    dump_.entries.reserve(count);
    values_.elements(entries, [&](ValueId each) {
      at(fmt::format("entry {}: ", dump_.entries.size()), "entries");
      require_dict(each, "a list of dictionaries");
      Entry entry;
      values_.members(each, [&](std::string_view key, ValueId value) {
        field_ = key;
        read_field(entry, key, value);
      });
      if (entry.name.empty())
        throw DumpError(fmt::format("entry {} has no profiling_name", dump_.entries.size()));
      dump_.entries.push_back(entry);
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

  /// Reads the name of a group, or the pair of its name and description.
  void read_group_of(Entry& entry, ValueId value) {
    if (!values_.is_list(value)) {
      entry.group = text(value);
      return;
    }
    if (values_.size(value) > 2) unfit(value, "a process group's name and description");
    bool first = true;
    values_.elements(value, [&](ValueId each) {
      (first ? entry.group : entry.description) = text(each);
      first = false;
    });
  }

  /// Names the object whose fields are read next ("entry 3: "), and its first field, for messages.
  void at(std::string object, std::string_view field) {
    object_ = std::move(object);
    field_ = field;
  }
  bool is_none(ValueId value) const { return values_.kind(value) == Values::Kind::none; }

  [[noreturn]] void unfit(ValueId value, const char* wanted) const {
    std::string shown = name_of(values_.kind(value));
    if (const auto text = values_.as_text(value)) shown = fmt::format("'{}'", excerpt(*text, 40));
    throw DumpError(fmt::format("{}'{}' is {}, but must be {}", object_, field_, shown, wanted));
  }

  void require_dict(ValueId value, const char* wanted) const {
    if (!values_.is_dict(value)) unfit(value, wanted);
  }

  void require_list(ValueId value, const char* wanted) const {
    if (!values_.is_list(value)) unfit(value, wanted);
  }

  std::int64_t whole(ValueId value) const {
    if (is_none(value)) return -1;
    if (const auto number = values_.as_integer(value)) return *number;
    unfit(value, "a whole number");
  }

  bool boolean(ValueId value) const {
    if (is_none(value)) return false;
    if (const auto yes = values_.as_boolean(value)) return *yes;
    unfit(value, "True or False");
  }

  /// Returns a text that lives as long as the dump, safe to print.
  std::string_view text(ValueId value) {
    if (is_none(value)) return {};
    if (const auto found = values_.as_text(value)) return keep(*found);
    if (const auto number = values_.as_integer(value)) return keep(std::to_string(*number));
    unfit(value, "a text");
  }

  std::string_view keep(std::string_view text) {
    std::string shortened;
    if (text.size() > longest_text) {
      // The checksum of the whole text keeps different texts different.
      shortened = fmt::format("{}... ({:x})", text.substr(0, shortened_text),
                              std::hash<std::string_view>{}(text));
      text = shortened;
    }
    if (const auto found = dump_.texts->find(text); found != dump_.texts->end()) return *found;
    return *dump_.texts->insert(excerpt(text, 4 * longest_text)).first;
  }

  CollectiveState state(ValueId value) {
    const std::string_view name = text(value);
    if (name.empty()) return CollectiveState::unknown;
    if (name == "scheduled") return CollectiveState::scheduled;
    if (name == "started") return CollectiveState::started;
    if (name == "completed") return CollectiveState::completed;
    unfit(value, "scheduled, started or completed");
  }

  /// Reads ranks from a list or, as torch writes them, from the text of a list: "[0, 1]".
  std::vector<int> ranks(ValueId value) const {
    if (is_none(value)) return {};
    if (const auto written = values_.as_text(value)) {
      if (auto list = parse_rank_list(*written)) return *std::move(list);
    } else if (values_.is_list(value)) {
      std::vector<int> list;
      values_.elements(value, [&](ValueId each) {
        const auto rank = values_.as_integer(each);
        if (!rank || *rank < 0 || *rank >= most_ranks) unfit(each, "a rank");
        list.push_back(static_cast<int>(*rank));
      });
      if (list.size() <= static_cast<std::size_t>(most_ranks)) return list;
    }
    unfit(value, "a list of ranks, such as '[0, 1]'");
  }

  /// Returns lists of numbers or of texts as one text.
  std::string_view shapes(ValueId value) {
    if (is_none(value)) return {};
    require_list(value, "a list");
    std::string all;
    append_shapes(all, value, 0);
    return keep(all);
  }

  void append_shapes(std::string& all, ValueId value, int depth) const {
    constexpr int deepest = 2;
    if (all.size() > most_shapes)
      throw DumpError(fmt::format("{}'{}' is too long a list", object_, field_));
    if (const auto text = values_.as_text(value)) {
      all += text->substr(0, longest_text);
    } else if (const auto number = values_.as_integer(value)) {
      all += std::to_string(*number);
    } else if (values_.is_list(value) && depth < deepest) {
      all += '[';
      bool first = true;
      values_.elements(value, [&](ValueId each) {
        if (!first) all += ", ";
        first = false;
        append_shapes(all, each, depth + 1);
      });
      all += ']';
    } else {
      unfit(value, "a list of sizes or types");
    }
  }

  Document document_;
  const Values& values_ = document_.values;
  Dump dump_{.texts = std::make_shared<Texts>()};
  std::string object_;      ///< for messages: "entry 3: "
  std::string_view field_;  ///< likewise: "state"
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

Dump read_dump(std::string_view content) {
  if (content.empty()) throw DumpError("is empty");
  return DumpReader{is_pickle(content) ? read_pickle(content) : read_json(content)}.read();
}

}  // namespace lockstep::flight
