// The collectives of libraries: algorithms that know which members share a node, two trees, several
// rings, and sums in the switch. Values are compared with a serial oracle, bytes with formulas by
// the class of link, and times on the CPU with those on the meta device and with replays.

#include <doctest/doctest.h>

#include <numeric>
#include <random>
#include <set>

#include "core/comm/between_nodes.h"
#include "core/comm/choose_algorithm.h"
#include "core/comm/double_tree.h"
#include "core/comm/rings.h"
#include "core/device/host_copy.h"
#include "core/operations/operations_file.h"
#include "core/replay/critical_path.h"
#include "core/replay/replay.h"
#include "kernels/element.h"
#include "lessons/01_collectives/prediction.h"
#include "tests/support/collective_checks.h"
#include "tests/support/complaints.h"
#include "tests/support/meta_checks.h"
#include "tests/support/narrow_collective_checks.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

enum class Kind { hierarchical, double_tree, rings, two_hop };
constexpr Kind kinds[] = {Kind::hierarchical, Kind::double_tree, Kind::rings, Kind::two_hop};
constexpr const char* kind_names[] = {"hierarchical", "double_tree", "rings", "two_hop"};

/// A random collective of a random group on a cluster with random nodes.
struct RandomCase {
  explicit RandomCase(unsigned seed) : random(seed) {
    kind = kinds[seed % 4];
    const int node = 1 + below(4);
    cluster.nodes = 64;
    cluster.ranks_per_node = node;
    cluster.within = {1.3e-6 * below(3), below(4) == 0 ? 1e30 : 3.7e9};
    cluster.between = {1.1e-5, 1.23e8};
    ranks = node * (1 + below(9 / node));
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    switch (below(3)) {
      case 0:  // whole nodes, in any order
        members = all;
        break;
      case 1: {  // the same places of some nodes
        const int least = below(node), most = least + below(node - least);
        for (const int rank : all)
          if (rank % node >= least && rank % node <= most) members.push_back(rank);
        break;
      }
      default:
        std::shuffle(all.begin(), all.end(), random);
        members.assign(all.begin(), all.begin() + 1 + below(ranks));
    }
    const int sizes[] = {0, 1, 5, 64, 300, 1009, 40'000};
    elements = sizes[below(7)];
    if (kind == Kind::two_hop) elements *= std::ssize(members);
    dtype = below(3) == 0 ? DType::bf16 : DType::f32;
  }

  int below(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }
  int size() const { return static_cast<int>(members.size()); }
  bool has(int rank) const { return std::ranges::find(members, rank) != members.end(); }
  /// Returns the group's blocks of equal length on one node each, or 0, by the definition.
  int per_node() const {
    for (int block = 1; block < size(); ++block) {
      if (size() % block != 0) continue;
      std::set<int> nodes;
      bool equal = true;
      for (int i = 0; i < size(); i += block) {
        const auto node = [&](int k) {
          return members[static_cast<std::size_t>(k)] / cluster.ranks_per_node;
        };
        equal = equal && nodes.insert(node(i)).second;
        for (int k = i; k < i + block; ++k) equal = equal && node(k) == node(i);
      }
      if (equal) return block;
    }
    return 0;
  }

  std::mt19937 random;
  Kind kind;
  Cluster cluster;
  int ranks = 0;
  std::vector<int> members;
  std::int64_t elements = 0;
  DType dtype = DType::f32;
};

std::uint16_t narrow(float value) {
  return element::to_bf16(value);
}

/// Elements of f32 or bf16.
struct Elements {
  Elements(DType dtype_, std::vector<float> values) : dtype(dtype_), f32(std::move(values)) {
    for (const float each : f32) bf16.push_back(narrow(each));
  }
  View view() {
    const std::vector<std::int64_t> shape{std::ssize(f32)};
    return dtype == DType::f32 ? View{f32.data(), {std::ssize(f32)}}
                               : View{bf16.data(), {std::ssize(bf16)}, DType::bf16};
  }
  bool same_bits(const Elements& other) const {
    return dtype == DType::f32 ? std::memcmp(f32.data(), other.f32.data(), 4 * f32.size()) == 0
                               : bf16 == other.bf16;
  }

  DType dtype;
  std::vector<float> f32;
  std::vector<std::uint16_t> bf16;
};

/// A member's elements: small integers, whose sums are exact, or noise.
Elements input(const RandomCase& c, int member, bool noise) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < c.elements; ++i)
    values.push_back(noise ? std::sin(static_cast<float>(i * 31 + member * 7 + 1))
                           : static_cast<float>((member * 5 + i * 3) % 16));
  return {c.dtype, values};
}
Elements expected(const RandomCase& c, int member) {
  std::vector<float> values(static_cast<std::size_t>(c.elements));
  const std::int64_t part = c.elements / c.size();
  for (std::int64_t i = 0; i < c.elements; ++i)
    for (int from = 0; from < c.size(); ++from)
      if (c.kind != Kind::two_hop)
        values[static_cast<std::size_t>(i)] += static_cast<float>((from * 5 + i * 3) % 16);
      else if (i / part == from)
        values[static_cast<std::size_t>(i)] =
            static_cast<float>((from * 5 + (member * part + i % part) * 3) % 16);
  return {c.dtype, values};
}

/// One rank's group in a case, or its rings. Every rank of the run creates one.
struct Made {
  Made(Rank& rank, const RandomCase& c) {
    const int taken = c.kind == Kind::rings
                          ? Rings::channels_taken(c.members, c.cluster.ranks_per_node)
                          : Group::channels_taken;
    const int channels = rank.transport->open_channels(taken);
    if (!c.has(rank.id)) return;
    if (c.kind == Kind::rings)
      rings.emplace(rank.endpoint, c.members, "some", channels);
    else
      group.emplace(rank.endpoint, c.members, "some", channels);
  }
  void run(const RandomCase& c, View data, View more) {
    if (c.kind == Kind::rings) return rings->all_reduce(data).wait();
    if (c.kind == Kind::two_hop) return group->two_hop_all_to_all(data, more).wait();
    group
        ->all_reduce(data,
                     c.kind == Kind::double_tree ? Algorithm::double_tree : Algorithm::hierarchical)
        .wait();
  }
  std::optional<Group> group;
  std::optional<Rings> rings;
};

/// Messages and elements that a member sends, by class of link.
struct ByLink {
  std::int64_t messages_within = 0, within = 0, messages_between = 0, between = 0;
  bool operator==(const ByLink&) const = default;
};
std::string words(const ByLink& each) {
  return fmt::format("{} messages of {} elements within, {} of {} between", each.messages_within,
                     each.within, each.messages_between, each.between);
}

/// The formulas. A ring of N sends 2n - two chunks in 2(N - 1) messages.
std::int64_t ring_sum(std::int64_t n, int N, int r) {
  return N == 1 ? 0 : oracle::ring(n, N, r);
}
std::optional<ByLink> by_formula(const RandomCase& c, int member) {
  const int N = c.size(), g = c.per_node(), r = member;
  const std::int64_t n = c.elements;
  if (N == 1) return ByLink{};
  if (g == 0 || c.kind == Kind::double_tree) return {};  // see below
  const int k = N / g, node = r / g, place = r % g;
  switch (c.kind) {
    case Kind::hierarchical:
      return ByLink{2 * (g - 1), ring_sum(n, g, place), 2 * (k - 1),
                    ring_sum(oracle::chunk(n, g, place), k, node)};
    case Kind::two_hop:
      return ByLink{g - 1, (g - 1) * n / g, k - 1, (k - 1) * n / k};
    case Kind::rings: {
      const int rings = static_cast<int>(std::clamp<std::int64_t>(n / N, 1, g));
      ByLink sent;
      for (int i = 0; i < rings; ++i) {
        const int position = oracle::wrap(place - i, g);  // in its node's part of ring i
        const std::int64_t elements = ring_sum(oracle::chunk(n, rings, i), N, node * g + position);
        const bool last = position == g - 1;
        (last ? sent.between : sent.within) += elements;
        (last ? sent.messages_between : sent.messages_within) += 2 * (N - 1);
      }
      return sent;
    }
    default:
      return {};
  }
}

/// Returns what a rank has sent, according to its trace.
ByLink seen_in_trace(Rank& rank, const RandomCase& c) {
  ByLink sent;
  const auto lanes = rank.trace.lanes();
  for (const TraceEvent& event : rank.trace.drain()) {
    if (event.kind != TraceEvent::Kind::span || event.span.category != Category::communication ||
        lanes[static_cast<std::size_t>(event.lane)].find("send") == std::string::npos)
      continue;
    const bool near =
        rank.id / c.cluster.ranks_per_node == event.span.peer / c.cluster.ranks_per_node;
    (near ? sent.within : sent.between) +=
        event.span.bytes / static_cast<std::int64_t>(size_of(c.dtype));
    (near ? sent.messages_within : sent.messages_between) += 1;
  }
  return sent;
}

}  // namespace

TEST_CASE("libraries: members are on nodes in equal blocks, or count as on one node") {
  const std::vector<std::tuple<std::vector<int>, int, int>> cases{
      {{0, 1, 2, 3}, 4, 0},    {{0, 1, 2, 3}, 2, 2}, {{0, 1, 2, 3}, 1, 1}, {{2, 3, 0, 1}, 2, 2},
      {{1, 3, 5}, 2, 1},       {{0, 2, 1, 3}, 2, 0}, {{0, 1, 2}, 2, 0},    {{5}, 2, 0},
      {{0, 1, 4, 5, 2}, 4, 0}, {{1, 2, 5, 6}, 4, 2}};
  for (const auto& [ranks, node, per_node] : cases) {
    CAPTURE(fmt::format("{} by {}", fmt::join(ranks, " "), node));
    CHECK(members_per_node(ranks, node) == per_node);
  }
}

TEST_CASE("libraries: 300 random collectives give the oracle's values, bits, bytes and times") {
  std::map<std::string, int> with_nodes;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    const RandomCase c{seed};
    CAPTURE(seed);
    CAPTURE(std::string{kind_names[static_cast<int>(c.kind)]});
    CAPTURE(c.elements);
    CAPTURE(fmt::format("members {} in nodes of {}", fmt::join(c.members, " "),
                        c.cluster.ranks_per_node));
    CHECK(members_per_node(c.members, c.cluster.ranks_per_node) == c.per_node());
    with_nodes[kind_names[static_cast<int>(c.kind)]] += c.per_node() > 1;

    std::vector<std::vector<Elements>> noise(2);  // [repeat][member]
    for (auto& all : noise)
      for (int member = 0; member < c.size(); ++member) all.push_back(input(c, member, true));
    const std::string wrong = on_threads(modelled_options(c.ranks, c.cluster), [&](Rank& rank) {
      Made made{rank, c};
      if (!c.has(rank.id)) return;
      const auto member =
          static_cast<int>(std::ranges::find(c.members, rank.id) - c.members.begin());
      Elements data = input(c, member, false), more = input(c, member, false);
      made.run(c, data.view(), more.view());
      if (!(c.kind == Kind::two_hop ? more : data).same_bits(expected(c, member)))
        throw RunError("other values");
      if (c.kind == Kind::two_hop && !data.same_bits(input(c, member, false)))
        throw RunError("the elements sent have changed");
      if (c.kind != Kind::two_hop)
        for (auto& all : noise) made.run(c, all[static_cast<std::size_t>(member)].view(), {});
      if (rank.memory.current().of(MemoryCategory::communication) != 0)
        throw RunError("scratch that is not given back");
    });
    CHECK(wrong == "");
    for (const auto& all : noise)
      for (const Elements& each : all)
        if (c.kind != Kind::two_hop) CHECK(each.same_bits(noise[0][0]));

    const auto once = [&](Rank& rank, const Note& note) {
      Made made{rank, c};
      if (!c.has(rank.id)) return;
      const auto tensor = [&] {
        Tensor made_here{rank.memory, {c.elements}, MemoryCategory::communication, c.dtype};
        fill_with_zeros(rank.device, made_here);
        return made_here;
      };
      Tensor data = tensor(), more = tensor();
      made.run(c, data, more);
      note();
    };
    CHECK(cpu_against_meta(modelled_options(c.ranks, c.cluster), once) == "");

    OperationBook book{c.ranks};
    ThreadFabric fabric{c.ranks, 60};
    Options options = on_meta(modelled_options(c.ranks, c.cluster));
    ThreadRanks ranks{options, fabric, GpuPlan{}, &book};
    std::vector<Picoseconds> ends(static_cast<std::size_t>(c.ranks));
    ranks.run([&](Rank& rank) {
      once(rank, [&] { ends[static_cast<std::size_t>(rank.id)] = rank.compute.now(); });
      rank.operations->end_section(0);
    });
    CHECK(fabric.failure() == "");
    for (const auto& rank : ranks.all()) {
      if (!c.has(rank->id)) continue;
      const auto member =
          static_cast<int>(std::ranges::find(c.members, rank->id) - c.members.begin());
      const ByLink seen = seen_in_trace(*rank, c);
      if (const auto said = by_formula(c, member)) {
        CAPTURE(words(seen));
        CAPTURE(words(*said));
        CHECK(seen == *said);
      } else if (c.kind == Kind::double_tree) {
        CHECK(seen.within + seen.between ==
              elements_sent(Algorithm::double_tree, c.elements, c.size(), member));
      }
    }
    RunOperations run = book.take();
    run.modelled = {c.cluster};
    const RunOperations read = parse_operations(text_of(run), "file");
    CHECK(text_of(read) == text_of(run));
    const Scenario scenario{read.modelled};
    const Replay replay{read, scenario};
    for (int rank = 0; rank < c.ranks; ++rank)
      if (c.size() > 1 && c.has(rank))
        CHECK(replay.section(rank, 0).end == ends[static_cast<std::size_t>(rank)]);
  }
  for (const auto& [kind, count] : with_nodes) CHECK_MESSAGE(count > 15, kind);
}

TEST_CASE("libraries: the two trees span all members, and at most one has children in both") {
  for (int N = 2; N <= 70; ++N) {
    CAPTURE(N);
    const int depth = BinaryTree::depth_of(N);
    CHECK((1 << depth) >= N);
    CHECK((1 << (depth - 1)) < N);
    int parents_in_both = 0;
    for (int r = 0; r < N; ++r) {
      const BinaryTree trees[] = {{r, N, false}, {r, N, true}};
      parents_in_both += !trees[0].children.empty() && !trees[1].children.empty();
      for (const bool second : {false, true}) {
        const BinaryTree& tree = trees[second];
        CHECK(tree.children.size() <= 2);
        CHECK(tree.depth <= depth);
        if (tree.depth == 0) CHECK(tree.parent == -1);
        for (const int child : tree.children) {
          CHECK(BinaryTree(child, N, second).parent == r);
          CHECK(BinaryTree(child, N, second).depth == tree.depth + 1);
        }
        if (tree.parent < 0) continue;
        const auto siblings = BinaryTree(tree.parent, N, second).children;
        CHECK(std::ranges::count(siblings, r) == 1);
      }
    }
    CHECK(parents_in_both <= (N > 2 ? 1 : 0));
    int roots = 0;
    for (int r = 0; r < N; ++r) roots += BinaryTree(r, N, true).parent < 0;
    CHECK(roots == 1);
  }
}

TEST_CASE("libraries: a double tree takes (m + 2D - 1)(α + 2nβ/m) on a power of two") {
  // A round's longest chain is one message: each round takes α once, and the time of four pieces on
  // a lane.
  Cluster cluster;
  cluster.within = {2e-6, 1e9};
  for (const int N : {4, 8, 16})
    for (const std::int64_t n : {64, 32'000, 1'000'000}) {
      const int m = double_tree_pieces(n, DType::f32, N), D = BinaryTree::depth_of(N);
      const double round = 2e-6 + 2 * 4 * static_cast<double>(n) / m / 1e9;
      const auto most = picoseconds((m + 2 * D - 1) * round * 1.001);
      const Picoseconds least = picoseconds(2 * 4 * static_cast<double>(n) / 1e9);
      const Picoseconds taken = predict_all_reduce(Algorithm::double_tree, n, N, cluster).total();
      CHECK(taken <= most);
      CHECK(taken >= least);
    }
}

TEST_CASE("libraries: the switch adds in α + nβ after the last member is ready, on meta only") {
  Cluster cluster;
  cluster.ranks_per_node = 4;
  cluster.nodes = 2;
  cluster.flops = 1e12;
  cluster.in_switch = Link{3e-6, 4e9};
  constexpr std::int64_t n = 1000;
  ThreadRun run{on_meta(modelled_options(8, cluster))};
  std::vector<Picoseconds> ends(8);
  CHECK(run([&](Rank& rank) {
          const int node = rank.id / 4;
          std::vector<int> members{4 * node, 4 * node + 1, 4 * node + 2, 4 * node + 3};
          Group group{rank.endpoint, members, "node",
                      rank.transport->open_channels(Group::channels_taken)};
          rank.compute.launch({.name = "work"}, {.flops = 1e6 * (rank.id + 1)},
                              [](const Kernels&, Queue) {});
          Work first = group.all_reduce(View{nullptr, {n}}, Algorithm::in_switch);
          Work second = group.all_reduce(View{nullptr, {n}}, Algorithm::in_switch);
          first.wait();
          CHECK(rank.compute.now() == 1'000'000 * (4 * node + 4) + 3'000'000 + 1'000'000);
          second.wait();  // follows the first one on the group's stream
          ends[static_cast<std::size_t>(rank.id)] = rank.compute.now();
        }) == "");
  for (const auto& rank : run.ranks) {
    CHECK(ends[static_cast<std::size_t>(rank->id)] ==
          1'000'000 * (4 * (rank->id / 4) + 4) + 2 * 4'000'000);
    CHECK(rank->transport->bytes_sent()[Operation::all_reduce] == 2 * 4 * n);
  }

  const auto refused = [&](bool meta, const Cluster& on, int ranks) {
    const Options options = modelled_options(ranks, on);
    return on_threads(meta ? on_meta(options) : options, [&](Rank& rank) {
      std::vector<float> values(8);
      rank.world.all_reduce(meta ? View{nullptr, {8}} : view(values), Algorithm::in_switch).wait();
    });
  };
  CHECK(refused(true, cluster, 4) == "");
  CHECK(refused(false, cluster, 4).find("a cost only") != std::string::npos);
  CHECK(refused(true, cluster, 8).find("several nodes") != std::string::npos);
  cluster.in_switch.reset();
  CHECK(refused(true, cluster, 4).find("has no 'in_switch'") != std::string::npos);
}

TEST_CASE("libraries: a replay times sums in the switch, and finds their critical path") {
  OperationBook book{2};
  for (int rank = 0; rank < 2; ++rank) {
    OperationLog log{book, rank};
    const int group = log.open_group({"tp", 5, {0, 1}});
    log.kernel({.name = "work", .category = Category::kernel},
               {.flops = rank == 0 ? 100.0 : 300.0});
    const Collective sum{
        .operation = Operation::all_reduce, .algorithm = Algorithm::in_switch, .elements = 10};
    const auto first = log.collective(group, sum), second = log.collective(group, sum);
    log.wait(first);
    log.wait(second);
    log.end_section(0);
  }
  RunOperations run = book.take();
  run.modelled.cluster = {.name = "switch", .flops = 1e12, .in_switch = Link{7e-9, 1e12}};
  run = parse_operations(text_of(run), "file");
  const Scenario scenario{run.modelled};
  const Replay replay{run, scenario};
  // 40 ps up, and 7000 ps until all are down; the second starts when the first is over.
  CHECK(replay.section(0, 0).end == 300 + 2 * 7040);
  CHECK(replay.section(1, 0).end == 300 + 2 * 7040);
  Picoseconds on_path = 0, last = 0;
  for (const PathPart& part : critical_path(replay, 0)) {
    CHECK(part.start == last);
    last = part.end;
    on_path += part.end - part.start;
  }
  CHECK(on_path == 300 + 2 * 7040);

  Scenario without{{Cluster{.name = "plain", .flops = 1e12}}};
  CHECK(complaint_of<UsageError>([&] {
          Replay{run, without};
        }).find("has no 'in_switch'") != std::string::npos);
  for (const auto& [before, after] :
       {std::pair{"\"algorithm\":\"in_switch\"", "\"algorithm\":\"rings\""},
        {"\"elements\":10", "\"elements\":10,\"per_node\":2"}}) {
    std::string text = text_of(run);
    text.replace(text.find(before), std::strlen(before), after);
    CHECK(complaint_of<UsageError>([&] { parse_operations(text, "file"); }).find("fit") !=
          std::string::npos);
  }
}

TEST_CASE("libraries: the chosen algorithm is within 15 % of the fastest by exact prediction") {
  std::mt19937 random{5};
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::map<Algorithm, int> chosen;
  for (int round = 0; round < 300; ++round) {
    const int g = 1 << below(4), k = 1 << below(4);
    if (g * k == 1) continue;
    Cluster cluster;
    cluster.nodes = 64;
    cluster.ranks_per_node = g;
    cluster.within = {1e-6 * (1 + below(9)), 1e9 * (1 + below(300))};
    cluster.between = {2e-6 + cluster.within.latency_seconds,
                       cluster.within.bandwidth / (1 + below(12))};
    if (below(3) == 0) cluster.in_switch = Link{3e-6, cluster.within.bandwidth};
    std::vector<int> ranks(static_cast<std::size_t>(g * k));
    std::iota(ranks.begin(), ranks.end(), 0);
    const std::int64_t n = std::int64_t{g * k} << below(16);
    const Algorithm choice = choose_algorithm(4 * n, ranks, cluster, true);
    ++chosen[choice];
    Picoseconds best = std::numeric_limits<Picoseconds>::max();
    Algorithm fastest{};
    for (const Algorithm each : candidates(ranks, cluster, true))
      if (const auto time = predict_all_reduce(each, n, g * k, cluster).total(); time < best) {
        best = time;
        fastest = each;
      }
    CAPTURE(cluster.json());
    CAPTURE(n);
    CAPTURE(g);
    CAPTURE(k);
    CAPTURE(name_of(choice));
    CAPTURE(name_of(fastest));
    CHECK(static_cast<double>(predict_all_reduce(choice, n, g * k, cluster).total()) <=
          1.15 * static_cast<double>(best));
  }
  CHECK(chosen.size() >= 5);
}

namespace {

/// Nodes with such slow links to other nodes that a library's collectives are hierarchical.
Cluster far_nodes(int per_node) {
  Cluster cluster{.name = "far nodes",
                  .nodes = 64,
                  .ranks_per_node = per_node,
                  .within = {1e-9, 1e12},
                  .between = {1e-9, 1e9}};
  cluster.library_collectives = true;
  return cluster;
}

}  // namespace

TEST_CASE("reduce-scatter and all-gather between nodes leave the sums and the chunks of a ring") {
  std::mt19937 random{11};
  for (int trial = 0; trial < 60; ++trial) {
    const auto from = [&](int low, int high) {
      return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
    };
    const int g = from(2, 4), k = from(2, 4), N = g * k;
    const std::int64_t n = static_cast<std::int64_t>(N) * from(1, 40);
    const DType dtype = trial % 3 == 0 ? DType::bf16 : DType::f32;
    Options options = modelled_options(N, far_nodes(g));
    std::vector<int> ranks(static_cast<std::size_t>(N));
    std::iota(ranks.begin(), ranks.end(), 0);
    const Collective chosen = with_default_algorithm(
        {.operation = Operation::reduce_scatter, .dtype = dtype, .elements = n}, ranks,
        far_nodes(g));
    REQUIRE(chosen.algorithm == Algorithm::hierarchical);
    CHECK(chosen.per_node == g);
    const std::string wrong = on_all(options, [&](Rank& rank) -> std::string {
      Tensor data{rank.memory, {n}, MemoryCategory::communication, dtype};
      std::vector<float> values(static_cast<std::size_t>(n));
      // Small whole numbers, whose sums are exact even in bf16.
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>((i + static_cast<std::size_t>(rank.id) * 3) % 5);
      from_host(rank.device, values, data);
      const std::int64_t before = total(rank.transport->bytes_sent());
      rank.world.reduce_scatter(data).wait();
      const std::int64_t sent = total(rank.transport->bytes_sent()) - before;
      const auto size = static_cast<std::int64_t>(size_of(dtype));
      if (sent != size * (n - n / N)) return fmt::format("rank {} sent {} B; ", rank.id, sent);
      const auto expected = [&](std::size_t i) {
        float sum = 0;
        for (std::size_t r = 0; r < static_cast<std::size_t>(N); ++r)
          sum += static_cast<float>((i + r * 3) % 5);
        return sum;
      };
      const std::vector<float> sums = to_host(rank.device, data);
      const auto each = static_cast<std::size_t>(n / N);
      const std::size_t first = each * static_cast<std::size_t>(rank.id);
      for (std::size_t i = first; i < first + each; ++i)
        if (sums[i] != expected(i)) return fmt::format("rank {}: sum {}; ", rank.id, i);
      rank.world.all_gather(data).wait();
      const std::vector<float> all = to_host(rank.device, data);
      for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i] != expected(i)) return fmt::format("rank {}: gathered {}; ", rank.id, i);
      return "";
    });
    CHECK_MESSAGE(wrong == "", "k ", k, " g ", g, " n ", n, ": ", wrong);
  }
}
