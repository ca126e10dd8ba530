#include "core/time/cluster_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/base/json_reader.h"
#include "core/base/printable.h"

namespace lockstep {

namespace {

/// Returns a wrong value for an error message. The text of an array or an object could be very
/// long, and computing it takes a stack as deep as the value.
std::string shown(const nlohmann::json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return excerpt(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

/// Reads numbers from a JSON object and records which keys were read, so that an unknown key can be
/// reported as an error.
class Reader {
 public:
  Reader(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {
    if (!object.is_object()) throw UsageError(where_ + ": wants a JSON object");
  }

  double number(const char* key, double least, bool null_is_infinite = false) {
    known_.push_back(key);
    if (!object_.contains(key)) throw UsageError(fmt::format("{}: '{}' is missing", where_, key));
    const nlohmann::json& value = object_.at(key);
    if (null_is_infinite && value.is_null()) return std::numeric_limits<double>::infinity();
    if (!value.is_number() || !(value.get<double>() >= least))
      throw UsageError(fmt::format("{}: '{}' is {}; wants a number {} {}{}", where_, key,
                                   shown(value), least > 0 ? "of at least" : "not below", least,
                                   null_is_infinite ? ", or null for infinite" : ""));
    return value.get<double>();
  }
  int whole(const char* key) {
    const double value = number(key, 1);
    if (value != std::floor(value) || value > most_ranks)
      throw UsageError(fmt::format("{}: '{}' is {}; wants a whole number of at most {}", where_,
                                   key, shown(object_.at(key)), most_ranks));
    return static_cast<int>(value);
  }
  /// Reads a duration of at most one day, which exceeds any real latency and keeps sums of
  /// picoseconds from overflowing.
  double seconds(const char* key) {
    const double value = number(key, 0);
    if (value > longest_seconds)
      throw UsageError(fmt::format("{}: '{}' is {}; wants a number of at most {} seconds", where_,
                                   key, shown(object_.at(key)), longest_seconds));
    return value;
  }
  Link link(const char* key) {
    Reader inner = inside(key);
    if (const auto protocols = inner.protocols(); !protocols.empty()) {
      for (const char* other : {"latency_seconds", "bandwidth", "segments"})
        if (inner.object_.contains(other))
          throw UsageError(fmt::format(
              "{}: '{}' has no place beside 'protocols', each of which has its own α and β",
              inner.where_, other));
      inner.no_others();
      return {.protocols = protocols};
    }
    Link link{inner.seconds("latency_seconds"), inner.number("bandwidth", 1, true)};
    link.segments = inner.segments();
    inner.no_others();
    return link;
  }
  std::optional<Link> optional_link(const char* key) {
    if (object_.contains(key)) return link(key);
    known_.push_back(key);
    return {};
  }
  /// Reads the memory of a rank's device; missing or null is unlimited.
  std::optional<std::int64_t> memory() {
    constexpr const char* key = "memory";
    if (!has_value(key)) return {};
    const nlohmann::json& value = object_.at(key);
    const double bytes = value.is_number() ? value.get<double>() : 0;
    if (bytes < 1 || bytes != std::floor(bytes) || bytes > most_bytes)
      throw UsageError(fmt::format(
          "{}: '{}' is {}; wants a whole number of bytes, 1 to {}, or null for unlimited", where_,
          key, shown(value), most_bytes));
    known_.push_back(key);
    return static_cast<std::int64_t>(bytes);
  }
  /// Reads the segments of a link, which may have none.
  std::vector<Link::Segment> segments() {
    constexpr const char* key = "segments";
    known_.push_back(key);
    std::vector<Link::Segment> found;
    if (!object_.contains(key)) return found;
    if (!object_.at(key).is_array())
      throw UsageError(fmt::format("{}: '{}' wants a list", where_, key));
    for (const nlohmann::json& each : object_.at(key)) {
      Reader inner{each, fmt::format("{}: '{}'", where_, key)};
      const double bytes = inner.number("from_bytes", 1);
      if (bytes != std::floor(bytes) || bytes > most_bytes ||
          (!found.empty() && bytes <= static_cast<double>(found.back().from_bytes)))
        throw UsageError(
            fmt::format("{}: '{}': 'from_bytes' is {}; wants whole numbers that ascend, at most {}",
                        where_, key, shown(each.at("from_bytes")), most_bytes));
      found.push_back({static_cast<std::int64_t>(bytes), inner.seconds("latency_seconds"),
                       inner.number("bandwidth", 1, true)});
      inner.no_others();
    }
    return found;
  }
  /// Reads the protocols of a link, which may have none.
  std::vector<Link::Protocol> protocols() {
    constexpr const char* key = "protocols";
    known_.push_back(key);
    std::vector<Link::Protocol> found;
    if (!object_.contains(key)) return found;
    bool any_size = false;
    if (!object_.at(key).is_array())
      throw UsageError(fmt::format("{}: '{}' wants a list", where_, key));
    for (const nlohmann::json& each : object_.at(key)) {
      Reader inner{each, fmt::format("{}: '{}'", where_, key)};
      found.push_back({inner.text("name"), inner.seconds("latency_seconds"),
                       inner.number("bandwidth", 1, true)});
      inner.known_.push_back("up_to_bytes");
      if (each.contains("up_to_bytes")) {
        const double bytes = inner.number("up_to_bytes", 1);
        if (bytes != std::floor(bytes) || bytes > most_bytes)
          throw UsageError(
              fmt::format("{}: '{}': 'up_to_bytes' is {}; wants a whole number of at most {}",
                          where_, key, shown(each.at("up_to_bytes")), most_bytes));
        found.back().up_to_bytes = static_cast<std::int64_t>(bytes);
      } else {
        any_size = true;
      }
      inner.no_others();
    }
    if (!any_size)
      throw UsageError(fmt::format(
          "{}: '{}' wants at least one protocol for messages of any size, without 'up_to_bytes'",
          where_, key));
    return found;
  }
  /// Reads the measured rates, if there are any.
  std::optional<Rates> rates() {
    known_.push_back("rates");
    if (!object_.contains("rates")) return {};
    Reader inner = inside("rates");
    Rates rates{.products = inner.table("products"), .attention = inner.table("attention")};
    rates.memory_share = inner.number("memory_share", 1e-6);
    inner.no_others();
    return rates;
  }
  /// Reads the shared links of a cluster, if there are any.
  std::optional<SharedLinks> shared(int ranks_per_node) {
    known_.push_back("shared");
    if (!object_.contains("shared")) return {};
    Reader inner = inside("shared");
    SharedLinks shared;
    if (inner.has("port")) shared.port = inner.number("port", 1, true);
    if (inner.has_value("cards")) {
      Reader reader = inner.inside("cards");
      SharedLinks::Cards cards{.per_node = reader.whole("per_node"),
                               .bandwidth = reader.number("bandwidth", 1, true)};
      cards.of_rank = reader.cards_of_ranks(ranks_per_node, cards.per_node);
      reader.no_others();
      shared.cards = cards;
    }
    if (inner.has("uplink")) shared.uplink = inner.number("uplink", 1, true);
    if (inner.has_value("leaves")) {
      Reader reader = inner.inside("leaves");
      SharedLinks::Leaves leaves{.nodes = reader.whole("nodes")};
      leaves.oversubscription = reader.factor("oversubscription", 1, 1000);
      if (reader.has("by_rail")) leaves.by_rail = reader.yes_or_no("by_rail");
      reader.no_others();
      if (!shared.cards && std::isinf(shared.uplink))
        throw UsageError(fmt::format(
            "{}: 'leaves' divide what is below them; give 'cards', or an 'uplink'", inner.where_));
      if (leaves.by_rail && !shared.cards)
        throw UsageError(
            fmt::format("{}: 'leaves' by rail connect 'cards', which are missing", inner.where_));
      shared.leaves = leaves;
    }
    if (inner.has("kernels_beside_collectives"))
      shared.kernels_beside_collectives = inner.factor("kernels_beside_collectives", 1, 100);
    inner.no_others();
    return shared;
  }
  /// Reads whether the cluster uses the collectives of a library.
  bool library_collectives() {
    if (!has("collectives")) return false;
    const std::string whose = text("collectives");
    if (whose != "library" && whose != "ring")
      throw UsageError(fmt::format("{}: 'collectives' is {}; wants \"ring\" or \"library\"", where_,
                                   excerpt(whose)));
    return whose == "library";
  }
  /// Reads the groups of ranks whose devices differ from the cluster's, if there are any.
  std::vector<RankGroup> groups(const Cluster& cluster) {
    constexpr const char* key = "groups";
    std::vector<RankGroup> found;
    if (!has_value(key)) return found;
    known_.push_back(key);
    if (!object_.at(key).is_array())
      throw UsageError(fmt::format("{}: '{}' wants a list of objects", where_, key));
    std::set<int> taken;
    for (const nlohmann::json& each : object_.at(key)) {
      Reader inner{each, fmt::format("{}: '{}'", where_, key)};
      RankGroup group{.name = inner.text("name"),
                      .ranks = inner.ranks(cluster.nodes * cluster.ranks_per_node, taken),
                      .flops = cluster.flops,
                      .memory_bandwidth = cluster.memory_bandwidth,
                      .memory = cluster.memory,
                      .launch_seconds = cluster.launch_seconds,
                      .rates = cluster.rates};
      if (inner.has("flops")) group.flops = inner.number("flops", 1, true);
      if (inner.has("memory_bandwidth"))
        group.memory_bandwidth = inner.number("memory_bandwidth", 1, true);
      if (inner.has("memory")) group.memory = inner.memory();
      if (inner.has("launch_seconds")) group.launch_seconds = inner.seconds("launch_seconds");
      if (inner.has("rates")) group.rates = inner.has_value("rates") ? inner.rates() : std::nullopt;
      inner.no_others();
      found.push_back(std::move(group));
    }
    return found;
  }
  std::string text(const char* key) {
    known_.push_back(key);
    if (!object_.contains(key) || !object_.at(key).is_string())
      throw UsageError(fmt::format("{}: '{}' wants a string", where_, key));
    const std::string text = object_.at(key).get<std::string>();
    if (excerpt(text, longest_text) != text)
      throw UsageError(fmt::format("{}: '{}' is {}; wants printable text of at most {} bytes",
                                   where_, key, excerpt(text), longest_text));
    return text;
  }
  void no_others() const {
    for (const auto& [key, value] : object_.items())
      if (std::find(known_.begin(), known_.end(), key) == known_.end())
        throw UsageError(fmt::format("{}: unknown key '{}'; known are {}", where_, excerpt(key),
                                     fmt::join(known_, ", ")));
  }

 private:
  /// Whether an optional key is present.
  bool has(const char* key) {
    if (object_.contains(key)) return true;
    known_.push_back(key);
    return false;
  }
  double factor(const char* key, double least, double most) {
    const double value = number(key, least);
    if (value > most)
      throw UsageError(fmt::format("{}: '{}' is {}; wants a number of at most {}", where_, key,
                                   shown(object_.at(key)), most));
    return value;
  }
  /// Whether an optional key is present and not null.
  bool has_value(const char* key) {
    if (!object_.contains(key) || !object_.at(key).is_null()) return has(key);
    known_.push_back(key);
    return false;
  }
  bool yes_or_no(const char* key) {
    known_.push_back(key);
    if (!object_.at(key).is_boolean())
      throw UsageError(
          fmt::format("{}: '{}' is {}; wants true or false", where_, key, shown(object_.at(key))));
    return object_.at(key).get<bool>();
  }
  /// Reads which card each rank of a node uses. By default, neighbours share a card.
  std::vector<int> cards_of_ranks(int ranks, int cards) {
    constexpr const char* key = "of_rank";
    std::vector<int> of_rank;
    if (!has(key)) {
      for (std::int64_t rank = 0; rank < ranks; ++rank)
        of_rank.push_back(static_cast<int>(rank * cards / ranks));
      return of_rank;
    }
    for (const nlohmann::json& each : list(key)) {
      if (!each.is_number_unsigned() ||
          each.get<std::uint64_t>() >= static_cast<std::uint64_t>(cards))
        throw UsageError(fmt::format("{}: '{}' has {}; wants the cards' numbers, 0 to {}", where_,
                                     key, shown(each), cards - 1));
      of_rank.push_back(each.get<int>());
    }
    if (of_rank.size() != static_cast<std::size_t>(ranks))
      throw UsageError(fmt::format("{}: '{}' has {} numbers; a node has {} ranks", where_, key,
                                   of_rank.size(), ranks));
    return of_rank;
  }
  /// Reads the ranks of a group, and adds them to those of other groups, `taken`.
  std::vector<int> ranks(int count, std::set<int>& taken) {
    constexpr const char* key = "ranks";
    std::vector<int> found;
    for (const nlohmann::json& each : list(key)) {
      if (!each.is_number_unsigned() ||
          each.get<std::uint64_t>() >= static_cast<std::uint64_t>(count))
        throw UsageError(fmt::format("{}: '{}' has {}; wants numbers of ranks, 0 to {}", where_,
                                     key, shown(each), count - 1));
      const int rank = each.get<int>();
      if (!taken.insert(rank).second)
        throw UsageError(
            fmt::format("{}: '{}' has {}, which is there twice; a rank belongs to one "
                        "group",
                        where_, key, rank));
      found.push_back(rank);
    }
    if (found.empty())
      throw UsageError(fmt::format("{}: '{}' is empty; wants at least one rank", where_, key));
    std::ranges::sort(found);
    return found;
  }
  /// Returns a reader of the object at `key`.
  Reader inside(const char* key) {
    known_.push_back(key);
    if (!object_.contains(key)) throw UsageError(fmt::format("{}: '{}' is missing", where_, key));
    return Reader{object_.at(key), fmt::format("{}: '{}'", where_, key)};
  }
  const nlohmann::json& list(const char* key) {
    known_.push_back(key);
    if (!object_.contains(key) || !object_.at(key).is_array())
      throw UsageError(fmt::format("{}: '{}' wants a list of numbers", where_, key));
    return object_.at(key);
  }
  /// Reads ascending sizes, at least one.
  std::vector<std::int64_t> sizes(const char* key) {
    std::vector<std::int64_t> found;
    for (const nlohmann::json& each : list(key)) {
      const double size = each.is_number() ? each.get<double>() : 0;
      if (size < 1 || size != std::floor(size) || size > most_bytes ||
          (!found.empty() && size <= static_cast<double>(found.back())))
        throw UsageError(fmt::format("{}: '{}' has {}; wants whole numbers that ascend, at most {}",
                                     where_, key, shown(each), most_bytes));
      found.push_back(static_cast<std::int64_t>(size));
    }
    if (found.empty())
      throw UsageError(fmt::format("{}: '{}' is empty; wants at least one size", where_, key));
    return found;
  }
  RateTable table(const char* key) {
    Reader inner = inside(key);
    RateTable table{.m = inner.sizes("m"), .n = inner.sizes("n"), .k = inner.sizes("k")};
    for (const nlohmann::json& each : inner.list("flops")) {
      if (!each.is_number() || !(each.get<double>() >= 1) || !std::isfinite(each.get<double>()))
        throw UsageError(fmt::format("{}: 'flops' has {}; wants numbers of at least 1",
                                     inner.where_, shown(each)));
      table.flops.push_back(each.get<double>());
    }
    if (const std::size_t shapes = table.m.size() * table.n.size() * table.k.size();
        table.flops.size() != shapes)
      throw UsageError(fmt::format("{}: 'flops' has {} rates; m, n and k give {} shapes",
                                   inner.where_, table.flops.size(), shapes));
    inner.no_others();
    return table;
  }

  static constexpr int most_ranks = 1 << 15;  // the product of two such numbers fits in an int
  static constexpr std::size_t longest_text = 200;
  static constexpr double longest_seconds = 86'400;
  static constexpr std::int64_t most_bytes = std::int64_t{1} << 50;

  const nlohmann::json& object_;
  std::string where_;
  std::vector<std::string> known_;
};

Cluster cluster_of(const nlohmann::json& document, const std::string& where) {
  Reader reader{document, where};
  Cluster cluster{.name = reader.text("name"),
                  .nodes = reader.whole("nodes"),
                  .ranks_per_node = reader.whole("ranks_per_node"),
                  .flops = reader.number("flops", 1, true),
                  .memory_bandwidth = reader.number("memory_bandwidth", 1, true),
                  .memory = reader.memory(),
                  .launch_seconds = reader.seconds("launch_seconds"),
                  .within = reader.link("within"),
                  .between = reader.link("between"),
                  .rates = reader.rates(),
                  .in_switch = reader.optional_link("in_switch")};
  cluster.shared = reader.shared(cluster.ranks_per_node);
  cluster.library_collectives = reader.library_collectives();
  cluster.groups = reader.groups(cluster);
  reader.no_others();
  return cluster;
}

/// The document takes up to 80 times the memory of its text.
constexpr std::size_t longest_file = 1 << 19;

/// Throws JsonError if the text is not JSON, or if an object contains a key twice: the document
/// would keep the last value.
void check_keys(JsonReader& in) {
  if (in.kind() == JsonReader::Kind::list) {
    in.elements([&] { check_keys(in); });
  } else if (in.kind() == JsonReader::Kind::object) {
    std::set<std::string> keys;
    in.members([&](const std::string& key) {
      if (!keys.insert(key).second) in.fail("is there twice");
      check_keys(in);
    });
  } else if (in.kind() == JsonReader::Kind::number) {
    in.number();  // refuses those that are too large for a double
  } else {
    in.skip();
  }
}

}  // namespace

// Infinity is written as null, because JSON has no infinity.
std::string Cluster::json() const {
  using Object = nlohmann::ordered_json;
  const auto text = [](const Link& link) {
    if (!link.protocols.empty()) {
      Object all;
      for (const auto& [named, latency, bandwidth, up_to_bytes] : link.protocols) {
        Object one{{"name", named}, {"latency_seconds", latency}, {"bandwidth", bandwidth}};
        if (up_to_bytes != Link::Protocol{}.up_to_bytes) one["up_to_bytes"] = up_to_bytes;
        all["protocols"].push_back(one);
      }
      return all;
    }
    Object object{{"latency_seconds", link.latency_seconds}, {"bandwidth", link.bandwidth}};
    for (const auto& [from_bytes, latency, bandwidth] : link.segments)
      object["segments"].push_back(
          {{"from_bytes", from_bytes}, {"latency_seconds", latency}, {"bandwidth", bandwidth}});
    return object;
  };
  Object object{{"name", name},
                {"nodes", nodes},
                {"ranks_per_node", ranks_per_node},
                {"flops", flops},
                {"memory_bandwidth", memory_bandwidth},
                {"launch_seconds", launch_seconds},
                {"within", text(within)},
                {"between", text(between)}};
  if (memory) object["memory"] = *memory;
  const auto table = [](const RateTable& by_shape) {
    const auto& [m, n, k, rate] = by_shape;
    return Object{{"m", m}, {"n", n}, {"k", k}, {"flops", rate}};
  };
  const auto all_rates = [&](const Rates& of) {
    return Object{{"products", table(of.products)},
                  {"attention", table(of.attention)},
                  {"memory_share", of.memory_share}};
  };
  if (rates) object["rates"] = all_rates(*rates);
  if (shared) {
    Object& all = object["shared"] = {{"port", shared->port}, {"uplink", shared->uplink}};
    if (const auto& cards = shared->cards)
      all["cards"] = {{"per_node", cards->per_node},
                      {"bandwidth", cards->bandwidth},
                      {"of_rank", cards->of_rank}};
    if (const auto& leaves = shared->leaves)
      all["leaves"] = {{"nodes", leaves->nodes},
                       {"by_rail", leaves->by_rail},
                       {"oversubscription", leaves->oversubscription}};
    if (shared->kernels_beside_collectives != 1)
      all["kernels_beside_collectives"] = shared->kernels_beside_collectives;
  }
  if (in_switch) object["in_switch"] = text(*in_switch);
  if (library_collectives) object["collectives"] = "library";
  for (const RankGroup& group : groups) {
    Object one{{"name", group.name},   {"ranks", group.ranks},
               {"flops", group.flops}, {"memory_bandwidth", group.memory_bandwidth},
               {"memory", nullptr},    {"launch_seconds", group.launch_seconds},
               {"rates", nullptr}};
    if (group.memory) one["memory"] = *group.memory;
    if (group.rates) one["rates"] = all_rates(*group.rates);
    object["groups"].push_back(std::move(one));
  }
  return object.dump(1);
}

Cluster parse_cluster(const std::string& text, const std::string& where) {
  if (text.size() > longest_file)
    throw UsageError(
        fmt::format("{}: not a cluster file: it has more than {} bytes", where, longest_file));
  try {
    JsonReader in{text};
    check_keys(in);
    in.end();
    // ordered_json would compare each key with all others.
    return cluster_of(nlohmann::json::parse(text), where);
  } catch (const JsonError& error) {
    throw UsageError(fmt::format("{}: not a cluster file: {}", where, excerpt(error.what(), 200)));
  }
}

Cluster Cluster::load(const std::string& preset_or_file) {
  if (const auto found = cluster_preset(preset_or_file)) return *found;

  const std::string where = "--cluster " + preset_or_file;
  std::ifstream file{preset_or_file};
  if (!file)
    throw UsageError(fmt::format("{}: no such file, and no such preset; presets are {}", where,
                                 fmt::join(presets(), ", ")));
  std::error_code ignored;
  if (std::filesystem::is_directory(preset_or_file, ignored))
    throw UsageError(where + ": is a directory; give a cluster file, or a preset's name");
  std::string text(longest_file + 1, '\0');  // may be a pipe, whose size is not known
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_cluster(text, where);
}

}  // namespace lockstep
