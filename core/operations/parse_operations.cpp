#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "core/base/error.h"
#include "core/base/json_reader.h"
#include "core/base/printable.h"
#include "core/operations/operations_file.h"
#include "core/operations/operations_format.h"
#include "core/time/cluster_file.h"

namespace lockstep {

namespace {

using Kind = RecordedOperation::Kind;
using Use = JsonReader::Field::Use;

// Bounds that no run reaches, and below which no sum overflows.
constexpr std::int64_t most_ranks = 1 << 17;
constexpr std::size_t most_choices = 100;
constexpr std::size_t bytes_of_shortest_list = 100;
constexpr std::int64_t most_bytes = std::int64_t{1} << 50;
constexpr std::int64_t most_count = std::int64_t{1} << 40;  // so that the counts' sum fits
constexpr Picoseconds longest = 1'000'000'000'000'000'000;  // eleven days

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
  constexpr Collective::Choice choices[] = {Collective::Choice::by_cost,
                                            Collective::Choice::by_cost_or_switch};
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
      field("algorithm", [&] { each.collective.algorithm = named<Algorithm>(in, all_algorithms); }),
      field("dtype", [&] { each.collective.dtype = named<DType>(in, floating); }),
      field("choice", [&] { each.collective.choice = named<Collective::Choice>(in, choices); }),
      field("per_node",
            [&] { each.collective.per_node = static_cast<int>(in.whole(1, most_ranks)); }),
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

}  // namespace

RunOperations parse_operations(const std::string& text, const std::string& where) {
  RunOperations run;
  try {
    JsonReader in{text};
    // The operations and lists of a run are distinct, so most take more text than the shortest one.
    const auto check_length = [&](std::size_t bytes_each) {
      if (in.count() * bytes_each > 3 * text.size() + (std::size_t{32} << 20))
        in.fail("has more elements than fit the file's length");
    };
    in.object(
        {{operations_key,
          [&] {
            if (const std::int64_t found = in.whole(1); found != operations_version)
              throw UsageError(
                  fmt::format("{}: has version {} of the format; this Lockstep reads version {}",
                              where, found, operations_version));
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
  check_operations(run, where);
  return run;
}

}  // namespace lockstep
