#include <fmt/format.h>

#include <numeric>

#include "tests/model/checkpoint_files.h"
#include "tests/model/sharded.h"
#include "tests/support/complaints.h"
#include "tests/support/portion.h"

// A checkpoint that the ranks of one mesh save, each rank its part, loads on the ranks of another
// mesh.

using namespace lockstep;
using namespace lockstep::test;
using lockstep::testing::complaint_of;
using lockstep::testing::random_plan;
using lockstep::testing::random_split;
using lockstep::testing::SplitModel;
using lockstep::testing::unlike;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// A model that 4 tensor-parallel ranks, 3 stages and any number of shards can hold. Its vocabulary
/// divides evenly among no ranks.
Layout layout_of(int dp, int tp, int pp, bool zero = false) {
  const GptConfig model{
      .layers = 6, .hidden = 16, .heads = 4, .sequence = 8, .vocabulary = 37, .tied = true};
  Plan plan{model, Mesh{dp * tp * pp, {tp, 1, dp, pp}}};
  set_model(plan, model);
  set_builder(plan, std::make_shared<const SplitModel>(0));
  return {plan, zero};
}

std::vector<Layout> six_meshes() {
  return {layout_of(1, 1, 1),       layout_of(1, 4, 1),       layout_of(1, 1, 3),
          layout_of(3, 1, 1, true), layout_of(2, 2, 2, true), layout_of(2, 2, 3)};
}

std::vector<std::string> shards_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator{folder})
    if (is_shard_file(entry.path().filename().string()))
      names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace

TEST_CASE("every mesh loads what every other has saved: values, moments and steps, bit for bit") {
  const TemporaryFolder folder;
  const std::vector<Layout> meshes = six_meshes();
  const WholeState whole{meshes[0].plan, 5};
  int pairs = 0;
  for (std::size_t saver = 0; saver < meshes.size(); ++saver) {
    CAPTURE(saver);
    const std::string path = folder / fmt::format("mesh{}", saver);
    CHECK(save_sharded(meshes[saver], path, whole) == "");
    for (std::size_t loader = 0; loader < meshes.size(); ++loader) {
      CAPTURE(loader);
      CHECK(loads(meshes[loader], path, whole));
      ++pairs;
    }
  }
  CHECK(pairs == 36);
}

TEST_CASE("no byte is written twice, and each rank writes only elements that it holds") {
  const TemporaryFolder folder;
  for (const Layout& layout : six_meshes()) {
    const WholeState whole{layout.plan, 5};
    REQUIRE(save_sharded(layout, folder / "run", whole) == "");
    std::int64_t elements = 0, all = 0;
    for (const ParameterSpec& spec : layout.plan.parameters()) all += 3 * spec.shape.elements();
    const int ranks = layout.plan.mesh.ranks();
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string path = folder / ("run/" + shard_file(rank, ranks));
      if (!fs::exists(path)) continue;  // a replica of lower ranks
      const RankState held{layout.plan, rank, layout.zero};
      SafetensorsFile file{path};
      for (const SafetensorsFile::Entry& entry : file.entries()) {
        const std::int64_t count = std::accumulate(entry.shape.begin(), entry.shape.end(),
                                                   std::int64_t{1}, std::multiplies<>{});
        elements += count;
        const std::string name = entry.name.substr(0, entry.name.find('['));
        CHECK(std::ranges::any_of(held.pointers, [&](const Parameter* part) {
          return name.starts_with(part->name) && part->slice.elements() >= count;
        }));
      }
    }
    CHECK(elements == all);
  }
}

TEST_CASE("any plan loads what any other has saved, with experts and chunks of stages") {
  std::mt19937 random{31};
  const TemporaryFolder folder;
  for (int round = 0; round < testing::portion_of(40, 15); ++round) {
    CAPTURE(round);
    Plan saver = random_plan(random);
    GptConfig model = saver.model();
    model.dtype = DType::f32;
    model.frozen = {};
    set_model(saver, model);
    Plan loader = random_plan(random);
    while (loader.stages() > model.layers || model.heads % loader.mesh.size(Axis::tp) != 0)
      loader = random_plan(random);
    set_model(loader, model);
    set_builder(loader, saver.builder());
    loader.split = random_split(random, model.layers, loader.stages());
    const WholeState whole{saver, static_cast<std::uint64_t>(round)};
    const std::string path = folder / "run";
    CHECK(save_sharded({saver, round % 2 == 0}, path, whole) == "");
    CHECK(loads({loader, round % 3 == 0}, path, whole));
  }
}

TEST_CASE("every mesh exports the same file, which is the model on one device") {
  const TemporaryFolder folder;
  const std::vector<Layout> meshes = six_meshes();
  const WholeState whole{meshes[0].plan, 5};
  std::string first;
  for (const Layout& layout : meshes)
    for (const char* name : {"folder", "file.safetensors"}) {
      const std::string path = folder / name;
      CHECK(on_ranks(layout.plan.mesh.ranks(), [&](Transport& ranks) {
              RankState mine{layout.plan, ranks.rank(), layout.zero};
              mine.set(whole);
              CHECK(export_model(ranks, "--export", path, layout.plan, mine.state(1)) == "");
            }) == "");
      const std::string bytes = slurp(fs::is_directory(path) ? path + "/model.safetensors" : path);
      if (first.empty()) first = bytes;
      CHECK(bytes == first);
      CHECK_FALSE(fs::exists(path + ".partial"));
      RankState solo{meshes[0].plan, 0, false};
      load_checkpoint(path, meshes[0].plan, solo.one.device(), solo.pointers);
      for (const Parameter* part : solo.pointers)
        CHECK(same_bits(floats(part->value), whole.values.at(part->order)[0]));
      CHECK_FALSE(trained_steps(path, meshes[0].plan));
    }
}

TEST_CASE("replicas that differ, gaps and values that are not numbers leave the old checkpoint") {
  const TemporaryFolder folder;
  const std::string path = folder / "run";
  const Layout layout = layout_of(2, 2, 1);
  const WholeState whole{layout.plan, 5};
  REQUIRE(save_sharded(layout, path, whole) == "");
  const WholeState other{layout.plan, 6};
  CHECK(unlike(save_sharded(layout, path, other, 20,
                            [](int rank, RankState& mine) {
                              if (rank == 3) mine.parts[4].value.f32()[2] += 1;
                            }),
               {"replicas differ: rank 3 and a lower rank",
                "transformer.h.0.attn.c_attn.weight"}) == "");
  CHECK(unlike(save_sharded(layout, path, other, 20,
                            [](int, RankState& mine) { mine.pointers.pop_back(); }),
               {"no rank has transformer.ln_f.bias"}) == "");
  for (const float bad : {std::nanf(""), HUGE_VALF})
    CHECK(unlike(save_sharded(layout, path, other, 20,
                              [&](int rank, RankState& mine) {
                                if (rank == 1) mine.parts[2].value.f32()[0] = bad;
                              }),
                 {"transformer.h.0.ln_1.weight has an element that is"}) == "");
  CHECK(loads(layout, path, whole));
  CHECK_FALSE(fs::exists(path + ".partial"));
}

TEST_CASE("a missing, truncated or foreign shard is refused, and the line names file and tensor") {
  const TemporaryFolder folder;
  const std::string run = folder / "run", other = folder / "other";
  const Layout layout = layout_of(2, 2, 1, true);
  REQUIRE(save_sharded(layout, run, {layout.plan, 5}) == "");
  REQUIRE(save_sharded(layout, other, {layout.plan, 6}) == "");
  const std::vector<std::string> shards = shards_in(run);
  REQUIRE(shards.size() == 4);
  const auto refused = [&](const std::vector<std::string>& words) {
    const Layout one = layout_of(1, 1, 1);
    for (const bool values : {true, false}) {
      std::vector<std::string> all{"--load " + run};
      all.insert(all.end(), words.begin(), words.end());
      RankState mine{one.plan, 0, false};
      CHECK(unlike(complaint_of<UsageError>([&] {
                     check_checkpoint_fits(run, one.plan, values);
                     // Without the check of all values, loading either finds the fault or loads the
                     // faulty value.
                     if (!values) load_checkpoint(run, one.plan, mine.one.device(), mine.pointers);
                     if (!values) check_checkpoint_fits(run, one.plan);
                   }),
                   all) == "");
    }
  };
  std::string manifest = slurp(run + "/manifest.json");
  const auto change = [&](const std::function<void(json&)>& edit) {
    json document = json::parse(manifest);
    edit(document);
    spill(run + "/manifest.json", document.dump());
  };
  for (const std::string& shard : shards) {
    const std::string path = run + "/" + shard, good = slurp(path);
    fs::remove(path);
    refused({shard + " (tensor transformer.", "others) is missing"});
    for (const std::size_t size : {std::size_t{0}, good.size() / 2, good.size() - 1}) {
      spill(path, good.substr(0, size));
      refused({shard + " (tensor transformer.", fmt::format("has {} bytes", size)});
    }
    // The same rank's shard of another run has the same size and the same header.
    spill(path, slurp(other + "/" + shard));
    refused({"tensor transformer.", "] of " + shard + " has the CRC-32"});
    std::string damaged = good;
    damaged[damaged.size() - 100] ^= 1;
    spill(path, damaged);
    refused({"tensor transformer.", "] of " + shard + " has the CRC-32"});
    spill(path, good);
  }
  // Swaps two shards.
  const std::string a = run + "/" + shards[0], b = run + "/" + shards[1];
  const std::string first = slurp(a), second = slurp(b);
  spill(a, second);
  spill(b, first);
  refused({"rank-0000", "tensor transformer."});
  spill(a, first);
  spill(b, second);

  const std::string table = "transformer.wte.weight";
  change([&](json& document) { document["tensors"][table]["boxes"].erase(0); });
  refused({"manifest.json is damaged"});
  change([&](json& document) { document["tensors"][table]["boxes"][0]["begin"][0] = -1; });
  refused({"manifest.json is damaged"});
  change([&](json& document) {
    document["tensors"][table]["boxes"][1] = document["tensors"][table]["boxes"][0];
  });
  refused({"manifest.json is damaged"});
  change([&](json& document) { document["tensors"][table]["boxes"][0]["file"] = "../a"; });
  refused({"manifest.json is damaged"});
  change([&](json& document) { document["tensors"].erase(table); });
  refused({table + " is missing"});
  change([&](json& document) { document["tensors"][table]["shape"][0] = 38; });
  refused({"manifest.json is damaged"});
  change([&](json& document) {
    document["tensors"]["transformer.h.0.extra"] = document["tensors"][table];
  });
  refused({"transformer.h.0.extra is not a parameter of this model"});
  spill(run + "/manifest.json", manifest);
  CHECK(loads(layout, run, {layout.plan, 5}));
}

TEST_CASE("random damage to a sharded checkpoint never does worse than an error of one line") {
  const TemporaryFolder folder;
  const std::string run = folder / "run";
  const Layout layout = layout_of(1, 2, 1), one = layout_of(1, 1, 1);
  REQUIRE(save_sharded(layout, run, {layout.plan, 5}) == "");
  std::mt19937 random{8};
  std::vector<std::string> names = shards_in(run);
  names.emplace_back("manifest.json");
  int refused = 0;
  const int rounds = testing::portion_of(1500, 400);
  for (int round = 0; round < rounds; ++round) {
    const std::string path = run + "/" + names[random() % names.size()], good = slurp(path);
    std::string bad = good;
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips)
      bad[random() % std::min<std::size_t>(bad.size(), 4000)] = static_cast<char>(random());
    if (random() % 8 == 0) bad.resize(random() % bad.size());
    spill(path, bad);
    try {
      check_checkpoint_fits(run, one.plan);
      RankState mine{one.plan, 0, false};
      load_checkpoint(run, one.plan, mine.one.device(), mine.pointers);
      load_moments(run, *mine.optimizer);
    } catch (const UsageError& error) {
      ++refused;
      CHECK(std::string{error.what()}.find('\n') == std::string::npos);
    }
    spill(path, good);
  }
  CHECK(refused > rounds * 4 / 5);
}
