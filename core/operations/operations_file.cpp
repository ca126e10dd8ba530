#include "core/operations/operations_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/input_file.h"
#include "core/base/json_reader.h"
#include "core/base/printable.h"
#include "core/time/cluster_file.h"

namespace lockstep {

namespace {

using Kind = RecordedOperation::Kind;
using Use = JsonReader::Field::Use;

constexpr const char* first_key = "lockstep_operations";
constexpr int version = 1;
// Bounds that no run reaches, and below which no sum overflows.
constexpr std::int64_t most_ranks = 1 << 17;
constexpr std::size_t most_choices = 100;
constexpr std::size_t bytes_of_shortest_list = 100;
constexpr std::int64_t most_bytes = std::int64_t{1} << 50;
constexpr std::int64_t most_count = std::int64_t{1} << 40;  // so that the counts' sum fits
constexpr Picoseconds longest = 1'000'000'000'000'000'000;  // eleven days

// -- writing --------------------------------------------------------------------------------------

std::string quoted(const std::string& text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == ' ';
  };
  if (std::ranges::all_of(text, plain)) return '"' + text + '"';  // almost all of them
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Appends to a text.
class Text {
 public:
  template <class... T>
  Text& add(fmt::format_string<T...> format, T&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<T>(values)...);
    return *this;
  }
  /// Adds a member unless it has its default, -1.
  Text& member(const char* key, std::int64_t value) {
    return value == -1 ? *this : add(",\"{}\":{}", key, value);
  }
  template <class List>
  Text& list(const List& values) {
    const char* comma = "[";
    for (const auto& value : values) add("{}{}", std::exchange(comma, ","), value);
    return add("{}", values.empty() ? "[]" : "]");
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void add(Text& text, const Collective& collective) {
  text.add(",\"dtype\":\"{}\"", name_of(collective.dtype)).member("root", collective.root);
  if (collective.operation == Operation::all_reduce)
    text.add(",\"algorithm\":\"{}\"", name_of(collective.algorithm));
  if (collective.operation == Operation::all_to_all)
    text.add(",\"counts\":").list(collective.counts);
  else
    text.add(",\"elements\":{}", collective.elements);
}

void add(Text& text, const RecordedOperation& each) {
  const Cost& cost = each.cost;
  switch (each.kind) {
    case Kind::kernel:
      text.add("{{\"kernel\":{},\"in\":\"{}\"", quoted(each.name), name_of(each.category))
          .member("stage", each.stage)
          .member("layer", each.layer)
          .add(",\"flops\":{},\"bytes\":{}", cost.flops, cost.bytes);
      if (cost.kind != KernelKind::memory)
        text.add(",\"{}\":[{},{},{}]", cost.kind == KernelKind::product ? "product" : "attention",
                 cost.m, cost.n, cost.k);
      break;
    case Kind::begin:
      text.add("{{\"begin\":{},\"category\":\"{}\"", quoted(each.name), name_of(each.category))
          .member("stage", each.stage)
          .member("microbatch", each.microbatch);
      break;
    case Kind::end:
      text.add("{{\"end\":\"{}\"", name_of(each.category)).member("stage", each.stage);
      break;
    case Kind::send:
    case Kind::receive:
      text.add("{{\"{}\":{},\"{}\":{},\"stream\":{},\"channel\":{},\"axis\":{}",
               each.kind == Kind::send ? "send" : "receive", each.bytes,
               each.kind == Kind::send ? "to" : "from", each.peer, each.stream, each.channel,
               quoted(each.axis))
          .member("stage", each.stage)
          .member("microbatch", each.microbatch);
      break;
    case Kind::collective:
      text.add("{{\"collective\":\"{}\",\"group\":{}", name_of(each.collective.operation),
               each.group);
      add(text, each.collective);
      break;
    case Kind::wait:
      text.add("{{\"wait\":{}", each.back);
      break;
    case Kind::together:
      text.add("{{\"together\":true");
      break;
  }
  text.add("}}");
}

// -- reading --------------------------------------------------------------------------------------

/// Returns the value whose name_of() is the next string.
template <class Value, class Values>
Value named(JsonReader& in, const Values& values) {
  const std::string name = in.string();
  for (const Value value : values)
    if (name == name_of(value)) return value;
  in.unfit(fmt::format("\"{}\"", excerpt(name)), "one of its names");
}

Category category_from(JsonReader& in) {
  std::vector<Category> all;
  for (int i = 0; i < category_count; ++i) all.push_back(static_cast<Category>(i));
  return named<Category>(in, all);
}

int index_from(JsonReader& in) {
  return static_cast<int>(in.whole(0, most_ranks));
}

double amount_from(JsonReader& in) {
  const double amount = in.number();
  if (!(amount >= 0 && amount <= 1e30)) in.fail("must be from 0 to 1e30");
  return amount;
}

void shape_from(JsonReader& in, KernelKind kind, Cost& cost) {
  std::vector<std::int64_t> sizes;
  in.elements([&] {
    sizes.push_back(in.whole(0, most_bytes));
    if (sizes.size() > 3) in.fail("has more than 3 sizes");
  });
  if (sizes.size() != 3) in.fail("wants 3 sizes");
  cost.kind = kind;
  std::tie(cost.m, cost.n, cost.k) = std::tie(sizes[0], sizes[1], sizes[2]);
}

const char* kept(JsonReader& in, RunOperations& run) {
  return run.names.insert(in.string()).first->c_str();
}

RecordedOperation operation_from(JsonReader& in, RunOperations& run) {
  RecordedOperation each{.name = "", .axis = ""};
  int kinds = 0;
  const auto is = [&](Kind kind) {
    each.kind = kind;
    ++kinds;
  };
  const auto message = [&](Kind kind) {
    is(kind);
    each.bytes = in.whole(0, most_bytes);
  };
  const auto peer = [&] { each.peer = static_cast<int>(in.whole(-most_ranks, most_ranks)); };
  constexpr DType floating[] = {DType::f32, DType::bf16, DType::f16};
  const auto field = [](std::string_view key, std::function<void()> read) {
    return JsonReader::Field{key, std::move(read), Use::optional};
  };
  in.object({
      field("kernel", [&] { is(Kind::kernel), each.name = kept(in, run); }),
      field("begin", [&] { is(Kind::begin), each.name = kept(in, run); }),
      field("end", [&] { is(Kind::end), each.category = category_from(in); }),
      field("send", [&] { message(Kind::send); }),
      field("receive", [&] { message(Kind::receive); }),
      field("collective",
            [&] {
              is(Kind::collective);
              each.collective.operation = named<Operation>(in, all_operations);
              if (each.collective.operation == Operation::send) in.fail("is not a collective");
            }),
      field("wait", [&] { is(Kind::wait), each.back = in.whole(1); }),
      field("together", [&] { is(Kind::together), in.boolean(); }),
      field("in", [&] { each.category = category_from(in); }),
      field("category", [&] { each.category = category_from(in); }),
      field("stage", [&] { each.stage = index_from(in); }),
      field("microbatch", [&] { each.microbatch = index_from(in); }),
      field("layer", [&] { each.layer = index_from(in); }),
      field("flops", [&] { each.cost.flops = amount_from(in); }),
      field("bytes", [&] { each.cost.bytes = amount_from(in); }),
      field("product", [&] { shape_from(in, KernelKind::product, each.cost); }),
      field("attention", [&] { shape_from(in, KernelKind::attention, each.cost); }),
      field("to", peer),
      field("from", peer),
      field("stream", [&] { each.stream = index_from(in); }),
      field("channel", [&] { each.channel = index_from(in); }),
      field("axis", [&] { each.axis = kept(in, run); }),
      field("group", [&] { each.group = index_from(in); }),
      field("algorithm",
            [&] { each.collective.algorithm = named<Algorithm>(in, all_reduce_algorithms); }),
      field("dtype", [&] { each.collective.dtype = named<DType>(in, floating); }),
      field("root", [&] { each.collective.root = index_from(in); }),
      field("elements", [&] { each.collective.elements = in.whole(0, most_bytes); }),
      field("counts",
            [&] {
              each.collective.counts.reserve(in.count());
              in.elements([&] { each.collective.counts.push_back(in.whole(0, most_count)); });
            }),
  });
  if (kinds != 1)
    in.fail(
        "has an operation that is not exactly one of kernel, begin, end, send, "
        "receive, collective, wait and together");
  if ((each.kind == Kind::send || each.kind == Kind::receive) &&
      (each.stream < 0 || each.channel < 0 || each.peer == 0))
    in.fail("has a message without stream, channel or peer");
  if (each.kind == Kind::collective && each.group < 0) in.fail("has a collective without group");
  return each;
}

std::vector<std::uint32_t> indices_from(JsonReader& in, std::size_t count) {
  std::vector<std::uint32_t> list;
  list.reserve(in.count());
  in.elements([&] {
    list.push_back(static_cast<std::uint32_t>(in.whole(0, static_cast<std::int64_t>(count) - 1)));
  });
  return list;
}

RunOperations::GroupMembers group_from(JsonReader& in) {
  RunOperations::GroupMembers group;
  in.object({{"name", [&] { group.name = in.string(); }},
             {"channel", [&] { group.channel = index_from(in); }},
             {"ranks", [&] {
                group.ranks.reserve(in.count());
                in.elements([&] { group.ranks.push_back(index_from(in)); });
              }}});
  std::vector<int> sorted = group.ranks;
  std::ranges::sort(sorted);
  if (sorted.size() < 2 || std::ranges::adjacent_find(sorted) != sorted.end())
    in.fail("has a group that does not have at least two different ranks");
  return group;
}

RunOperations::RankOperations rank_from(JsonReader& in, const RunOperations& run) {
  RunOperations::RankOperations rank;
  in.object({{"groups", [&] { rank.groups = indices_from(in, run.groups.size()); }},
             {"sections", [&] {
                rank.sections.reserve(in.count());
                in.elements([&] {
                  std::vector<std::int64_t> pair;
                  in.elements([&] {
                    pair.push_back(in.whole(-1, std::numeric_limits<std::int32_t>::max()));
                    if (pair.size() > 2) in.fail("has a section that is not [step, list]");
                  });
                  if (pair.size() != 2 || pair[1] < 0 ||
                      pair[1] >= static_cast<std::int64_t>(run.lists.size()))
                    in.fail("has a section that is not [step, list]");
                  rank.sections.push_back(
                      {static_cast<int>(pair[0]), static_cast<std::uint32_t>(pair[1])});
                });
              }}});
  return rank;
}

FixedTimes times_from(JsonReader& in) {
  FixedTimes times;
  in.members([&](const std::string& name) {
    for (int i = 0; i < category_count; ++i)
      if (name == name_of(static_cast<Category>(i)))
        return times.set(static_cast<Category>(i), in.whole(0, longest));
    in.fail(fmt::format("has {}, which is no kind of action", excerpt(name)));
  });
  return times;
}

std::map<int, double> slow_from(JsonReader& in) {
  std::map<int, double> slow;
  in.members([&](const std::string& rank) {
    const bool fits = !rank.empty() && rank.size() < 7 &&
                      std::ranges::all_of(rank, [](char c) { return c >= '0' && c <= '9'; });
    const double factor = in.number();
    if (!fits || std::stoi(rank) >= most_ranks || !(factor > 0 && factor <= most_slow))
      in.fail("wants {\"rank\": factor}");
    slow[std::stoi(rank)] = factor;
  });
  return slow;
}

/// What a list does to a rank's count of issued operations, and how far back it waits before any of
/// its own.
struct Reach {
  std::int64_t issued = 0;
  std::int64_t before = 0;  ///< issued before the list, as far as its waits refer to them
};

/// Throws UsageError unless all ranks, groups and earlier operations to which the lists refer
/// exist.
void check(const RunOperations& run, const std::string& where) {
  const auto ranks = static_cast<int>(run.ranks.size());
  for (const auto& group : run.groups)
    if (std::ranges::any_of(group.ranks, [&](int rank) { return rank >= ranks; }))
      throw UsageError(fmt::format("{}: a group has a rank that does not exist", where));
  for (const auto& [rank, factor] : run.modelled.slow)
    if (rank >= ranks)
      throw UsageError(fmt::format("{}: 'slow' has a rank that does not exist", where));
  std::vector<Reach> reaches;
  for (const auto& list : run.lists) {
    Reach& reach = reaches.emplace_back();
    for (const std::uint32_t index : list) {
      const RecordedOperation& each = run.operations[index];
      if (each.is_issued()) ++reach.issued;
      if (each.kind == Kind::wait) reach.before = std::max(reach.before, each.back - reach.issued);
    }
  }
  // The distinct messages and collectives of each list, so that it is checked against a rank in
  // little time.
  std::vector<std::vector<std::uint32_t>> distinct;
  for (const auto& list : run.lists) {
    auto& issued = distinct.emplace_back();
    std::ranges::copy_if(list, std::back_inserter(issued),
                         [&](std::uint32_t index) { return run.operations[index].is_issued(); });
    std::ranges::sort(issued);
    issued.erase(std::unique(issued.begin(), issued.end()), issued.end());
    issued.shrink_to_fit();
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& [groups, sections] = run.ranks[static_cast<std::size_t>(rank)];
    for (const std::uint32_t group : groups)
      if (std::ranges::find(run.groups[group].ranks, rank) == run.groups[group].ranks.end())
        throw UsageError(fmt::format("{}: rank {} has a group of others", where, rank));
    std::int64_t issued = 0;
    std::set<std::uint32_t> checked;
    for (const auto& [step, list] : sections) {
      if (reaches[list].before > issued)
        throw UsageError(
            fmt::format("{}: rank {} waits for an operation that it has not issued", where, rank));
      issued += reaches[list].issued;
      if (!checked.insert(list).second) continue;
      for (const std::uint32_t index : distinct[list]) {
        const RecordedOperation& each = run.operations[index];
        if (each.kind != Kind::collective) {
          if (rank + each.peer < 0 || rank + each.peer >= ranks)
            throw UsageError(
                fmt::format("{}: rank {} has a message with rank {}; there are ranks 0 to {}",
                            where, rank, rank + each.peer, ranks - 1));
          continue;
        }
        if (each.group >= static_cast<int>(groups.size()))
          throw UsageError(fmt::format("{}: rank {} has no group {}", where, rank, each.group));
        const auto members = run.groups[groups[static_cast<std::size_t>(each.group)]].ranks.size();
        const Collective& collective = each.collective;
        const bool has_root = collective.operation == Operation::broadcast ||
                              collective.operation == Operation::gather;
        if (has_root ? collective.root < 0 || collective.root >= static_cast<int>(members)
                     : collective.operation == Operation::all_to_all &&
                           collective.counts.size() != 2 * members)
          throw UsageError(fmt::format("{}: rank {} has {} in a group of {} that does not fit it",
                                       where, rank, name_of(collective.operation), members));
      }
    }
  }
}

}  // namespace

std::string text_of(const RunOperations& run) {
  Text text;
  text.add("{{\"{}\":{},\"run\":{},\"lesson\":{},\n\"cluster\":{},\n\"time\":{{", first_key,
           version, quoted(run.run), quoted(run.lesson), run.modelled.cluster.json());
  const char* comma = "";
  for (int i = 0; i < category_count; ++i)
    if (const auto time = run.modelled.times.of(static_cast<Category>(i)))
      text.add("{}\"{}\":{}", std::exchange(comma, ","), name_of(static_cast<Category>(i)), *time);
  text.add("}},\"slow\":{{");
  comma = "";
  for (const auto& [rank, factor] : run.modelled.slow)
    text.add("{}\"{}\":{}", std::exchange(comma, ","), rank, factor);
  std::vector<std::string> choices;
  for (const std::string& choice : run.choices) choices.push_back(quoted(choice));
  text.add("}},\"choices\":").list(choices);
  text.add(",\n\"operations\":[");
  comma = "\n";
  for (const RecordedOperation& each : run.operations) {
    text.add("{}", std::exchange(comma, ",\n"));
    add(text, each);
  }
  text.add("],\n\"lists\":[");
  comma = "\n";
  for (const auto& list : run.lists) text.add("{}", std::exchange(comma, ",\n")).list(list);
  text.add("],\n\"groups\":[");
  comma = "\n";
  for (const auto& group : run.groups)
    text.add("{}{{\"name\":{},\"channel\":{},\"ranks\":", std::exchange(comma, ",\n"),
             quoted(group.name), group.channel)
        .list(group.ranks)
        .add("}}");
  text.add("],\n\"ranks\":[");
  comma = "\n";
  for (const auto& [groups, sections] : run.ranks) {
    text.add("{}{{\"groups\":", std::exchange(comma, ",\n")).list(groups).add(",\"sections\":[");
    const char* inner = "";
    for (const auto& [step, list] : sections)
      text.add("{}[{},{}]", std::exchange(inner, ","), step, list);
    text.add("]}}");
  }
  text.add("]}}\n");
  return text.take();
}

RunOperations parse_operations(const std::string& text, const std::string& where) {
  RunOperations run;
  try {
    JsonReader in{text};
    // The operations and lists of a run differ from one another, and so take more text than the
    // shortest ones.
    const auto check_length = [&](std::size_t bytes_each) {
      if (in.count() * bytes_each > 3 * text.size() + (std::size_t{32} << 20))
        in.fail("has more elements than fit the file's length");
    };
    in.object(
        {{first_key,
          [&] {
            if (const std::int64_t found = in.whole(1); found != version)
              throw UsageError(
                  fmt::format("{}: has version {} of the format; this Lockstep reads version {}",
                              where, found, version));
          }},
         {"run", [&] { run.run = in.string(); }},
         {"lesson", [&] { run.lesson = in.string(); }},
         {"cluster", [&] { run.modelled.cluster = parse_cluster(std::string{in.skip()}, where); }},
         {"time", [&] { run.modelled.times = times_from(in); }},
         {"slow", [&] { run.modelled.slow = slow_from(in); }},
         {"choices",
          [&] {
            in.elements([&] {
              run.choices.push_back(in.string());
              if (run.choices.size() > most_choices) in.fail("has too many elements");
            });
          }},
         {"operations",
          [&] {
            check_length(sizeof(RecordedOperation));
            run.operations.reserve(in.count());
            in.elements([&] { run.operations.push_back(operation_from(in, run)); });
          }},
         {"lists",
          [&] {
            check_length(bytes_of_shortest_list);
            in.elements([&] { run.lists.push_back(indices_from(in, run.operations.size())); });
          }},
         {"groups", [&] { in.elements([&] { run.groups.push_back(group_from(in)); }); }},
         {"ranks", [&] { in.elements([&] { run.ranks.push_back(rank_from(in, run)); }); }}});
    in.end();
  } catch (const JsonError& error) {
    throw UsageError(fmt::format("{}: not a file of operations: {}", where, error.what()));
  }
  check(run, where);
  return run;
}

RunOperations read_operations(const std::string& folder_or_file) {
  std::error_code error;
  std::filesystem::path file = folder_or_file;
  if (std::filesystem::is_directory(file, error)) {
    file /= "operations.json";
    if (!std::filesystem::exists(file, error))
      throw UsageError(
          fmt::format("{}: has no operations.json; only runs on the modelled clock record their "
                      "operations: repeat the run with --clock modelled, and not with --trace none",
                      folder_or_file));
  }
  try {
    return parse_operations(content_of(file.string()), file.string());
  } catch (const InputError& failure) {
    throw UsageError(fmt::format("{}: {}", file.string(), failure.what()));
  }
}

bool is_operations_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(path, error))) return false;
  if (std::filesystem::file_size(path, error) == 0) return true;
  const std::string wanted = fmt::format("{{\"{}\":", first_key);
  std::string begin(wanted.size(), '\0');
  std::ifstream{path, std::ios::binary}.read(begin.data(),
                                             static_cast<std::streamsize>(begin.size()));
  return begin == wanted;
}

}  // namespace lockstep
