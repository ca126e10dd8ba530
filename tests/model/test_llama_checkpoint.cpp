#include <fmt/format.h>

#include <fstream>
#include <list>
#include <numeric>
#include <set>

#include "core/model/checkpoint/checkpoint_folder.h"
#include "kernels/element.h"
#include "lessons/06_tensor_parallel/tensor_parallel.h"
#include "tests/model/checkpoint_files.h"
#include "tests/model/sharded.h"

// Checkpoints of a Llama, whose files and model have different tensors: q, k and v are separate in
// the file, as are SwiGLU's gate and factor.

using namespace lockstep;
using namespace lockstep::test;
using lockstep::testing::NamedView;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// A Llama that 4 tensor-parallel ranks, 2 stages and any number of shards can hold. Its vocabulary
/// divides evenly among no ranks.
Layout llama_layout(int dp, int tp, int pp, bool zero = false) {
  const GptConfig model{.layers = 3,
                        .hidden = 32,
                        .heads = 8,
                        .sequence = 8,
                        .vocabulary = 37,
                        .llama = LlamaConfig{.kv_heads = 4, .mlp_width = 20}};
  Plan plan{model, Mesh{dp * tp * pp, {tp, 1, dp, pp}}};
  set_model(plan, model);
  set_builder(plan, std::make_shared<const TensorParallel>());
  return {plan, zero};
}

std::vector<Layout> llama_layouts() {
  return {llama_layout(1, 1, 1), llama_layout(1, 4, 1), llama_layout(2, 2, 1, true),
          llama_layout(1, 2, 2), llama_layout(3, 1, 2, true)};
}

void export_sharded(const Layout& layout, const std::string& path, const WholeState& whole,
                    std::uint64_t most_bytes = most_bytes_of_file) {
  CHECK(on_ranks(layout.plan.mesh.ranks(), [&](Transport& ranks) {
          RankState mine{layout.plan, ranks.rank(), layout.zero};
          mine.set(whole);
          CHECK(export_model(ranks, "--export", path, layout.plan, mine.state(1), most_bytes) ==
                "");
        }) == "");
}

/// The bytes of all files of a folder by name, or of a single file.
std::map<std::string, std::string> contents(const std::string& path) {
  if (!fs::is_directory(path)) return {{"", slurp(path)}};
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator{path})
    files[entry.path().filename().string()] = slurp(entry.path().string());
  return files;
}

/// A model's tensors under Hugging Face's names.
std::vector<NamedView> tensors_of(const Gpt& model) {
  std::vector<NamedView> tensors;
  for (const Parameter* parameter : model.parameters()) {
    if (parameter->stacked.empty()) tensors.push_back({parameter->name, parameter->value});
    std::int64_t row = 0;
    for (const StackedTensor& part : parameter->stacked) {
      const std::int64_t width = parameter->shape[1];
      tensors.push_back(
          {part.name, View{parameter->value.f32() + row * width, {part.rows, width}}});
      row += part.rows;
    }
  }
  return tensors;
}

NamedView& named(std::vector<NamedView>& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &NamedView::name);
  REQUIRE(found != tensors.end());
  return *found;
}

/// Loading this file into a model with this configuration must fail with one line that names the
/// file, and must leave the model unchanged. Returns that line.
std::string why_not_loaded(const std::string& path, const GptConfig& config) {
  Model model{config, 9};
  const auto before = values(model.gpt);
  const std::string message = usage_error([&] { model.load(path); });
  CHECK(contains(message, "--load " + path));
  CHECK(values(model.gpt) == before);
  return message;
}

}  // namespace

TEST_CASE("every mesh loads the Llama that every other has saved, bit for bit") {
  const TemporaryFolder folder;
  const std::vector<Layout> layouts = llama_layouts();
  const WholeState whole{layouts[0].plan, 5};
  for (std::size_t saver = 0; saver < layouts.size(); ++saver) {
    CAPTURE(saver);
    const std::string path = folder / fmt::format("mesh{}", saver);
    CHECK(save_sharded(layouts[saver], path, whole) == "");
    for (std::size_t loader = 0; loader < layouts.size(); ++loader) {
      CAPTURE(loader);
      CHECK(loads(layouts[loader], path, whole));
    }
  }
}

TEST_CASE(
    "every mesh exports the same Llama, in one file, several files, or a single tensor each") {
  const TemporaryFolder folder;
  const std::vector<Layout> layouts = llama_layouts();
  const Plan& plan = layouts[0].plan;
  const WholeState whole{plan, 5};
  std::uint64_t bytes = 0, largest = 0;
  std::set<std::string> names;
  for (const ParameterSpec& spec : plan.parameters()) {
    const auto these = static_cast<std::uint64_t>(spec.shape.elements()) * sizeof(float);
    bytes += these;
    largest = std::max(largest, these);
    if (spec.stacked.empty()) names.insert(spec.name);
    for (const StackedTensor& part : spec.stacked) names.insert(part.name);
  }
  struct Division {
    std::string name;
    std::uint64_t most_bytes;
    std::size_t files;
  };
  for (const auto& [name, most, count] : {Division{"folder", bytes, 1},
                                          {"two", bytes - 1, 2},
                                          {"apart", 1, plan.parameters().size()},
                                          {"one.safetensors", 1, 1}}) {
    CAPTURE(name);
    const std::string path = folder / name;
    std::map<std::string, std::string> first;
    for (const Layout& layout : layouts) {
      export_sharded(layout, path, whole, most);
      if (first.empty()) first = contents(path);
      CHECK(contents(path) == first);
      CHECK_FALSE(fs::exists(path + ".partial"));
    }
    std::set<std::string> written;
    std::size_t files = 0;
    for (const auto& [file, text] : first) {
      const std::string place = file.empty() ? path : path + "/" + file;
      if (!place.ends_with(".safetensors")) continue;
      ++files;
      SafetensorsFile opened{place};
      std::uint64_t in_file = 0;
      for (const SafetensorsFile::Entry& entry : opened.entries()) {
        CHECK(written.insert(entry.name).second);
        in_file += entry.end - entry.begin;
        if (count > 1)
          CHECK(json::parse(first.at("model.safetensors.index.json"))["weight_map"][entry.name] ==
                file);
      }
      if (count > 1) CHECK(in_file <= std::max(most, largest));
    }
    CHECK(files == count);
    CHECK(written == names);
    CHECK(first.contains("model.safetensors.index.json") == (count > 1));
    if (count > 1) {
      const json index = json::parse(first.at("model.safetensors.index.json"));
      CHECK(index["weight_map"].size() == names.size());
      CHECK(index["metadata"]["total_size"] == bytes);
    }
    for (const Layout& layout : layouts)
      for (int rank = 0; rank < layout.plan.mesh.ranks(); ++rank) {
        RankState mine{layout.plan, rank, layout.zero};
        check_checkpoint_fits(path, layout.plan);
        load_checkpoint(path, layout.plan, mine.one.device(), mine.pointers);
        for (const Parameter* part : mine.pointers)
          CHECK(same_bits(floats(part->value),
                          testing::cut_of(whole.values.at(part->order)[0], part->slice)));
      }
  }
}

TEST_CASE("a Llama's 16-bit files are widened, also if its tensors have different types") {
  const TemporaryFolder folder;
  const Model saved{tiny_llama(), 1};
  std::list<std::vector<std::uint16_t>> stored;
  for (const bool mixed : {false, true})
    for (const DType dtype : {DType::bf16, DType::f16}) {
      CAPTURE(mixed);
      std::vector<NamedView> tensors = tensors_of(saved.gpt);
      Model rounded{tiny_llama(), 1};
      std::vector<NamedView> expected = tensors_of(rounded.gpt);
      for (std::size_t i = 0; i < tensors.size(); i += mixed ? 2 : 1) {
        const View wide = tensors[i].view;
        const View narrow{stored.emplace_back(static_cast<std::size_t>(wide.elements())).data(),
                          wide.shape, dtype};
        cpu_kernels().convert(Queue{}, wide, narrow);
        for (std::size_t k = 0; k < stored.back().size(); ++k)
          expected[i].view.f32()[k] = dtype == DType::bf16 ? element::from_bf16(stored.back()[k])
                                                           : element::from_f16(stored.back()[k]);
        tensors[i].view = narrow;
      }
      write_safetensors(folder / "run.safetensors", tensors);
      check_checkpoint_fits(folder / "run.safetensors", tiny_llama());
      Model loaded{tiny_llama(), 2};
      loaded.load(folder / "run.safetensors");
      CHECK(values(loaded.gpt) == values(rounded.gpt));
      CHECK_FALSE(values(loaded.gpt) == values(saved.gpt));
    }
}

TEST_CASE("names without `model.`, and the rotary frequencies of older files, are accepted") {
  const TemporaryFolder folder;
  const Model saved{tiny_llama(true), 1};
  std::vector<NamedView> tensors = tensors_of(saved.gpt);
  for (NamedView& tensor : tensors) tensor.name = tensor.name.substr(std::string{"model."}.size());
  CHECK(tensors[1].name == "layers.0.input_layernorm.weight");
  std::vector<float> frequencies{1, 0.1F};
  tensors.push_back({"layers.0.self_attn.rotary_emb.inv_freq", View{frequencies.data(), {2}}});
  write_safetensors(folder / "run.safetensors", tensors);
  Model loaded{tiny_llama(true), 2};
  loaded.load(folder / "run.safetensors");
  CHECK(values(loaded.gpt) == values(saved.gpt));
}

TEST_CASE("a Llama's file that does not fit is refused, and the line names the tensor") {
  const TemporaryFolder folder;
  const std::string path = folder / "run.safetensors";
  const Model saved{tiny_llama(), 1};
  const auto refused = [&](const std::function<void(std::vector<NamedView>&)>& change,
                           const std::vector<std::string>& words) {
    std::vector<NamedView> tensors = tensors_of(saved.gpt);
    change(tensors);
    write_safetensors(path, tensors);
    const std::string message = why_not_loaded(path, tiny_llama());
    for (const std::string& word : words) {
      CAPTURE(message);
      CHECK(contains(message, word));
    }
  };
  for (const char* part : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                           "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj"}) {
    const std::string name = fmt::format("model.layers.1.{}.weight", part);
    refused([&](auto& tensors) { std::erase_if(tensors, [&](auto& t) { return t.name == name; }); },
            {"tensor " + name + " is missing", "a Llama with", "--kv-heads 1 --mlp-width 6"});
  }
  refused([](auto& tensors) { tensors.pop_back(); }, {"lm_head.weight is missing", "untied head"});
  const std::string k = "model.layers.0.self_attn.k_proj.weight";
  refused(
      [&](auto& tensors) {
        named(tensors, k).view.shape = {2, 8};
      },
      {"tensor " + k + " has shape [2, 8], not [4, 8]", "--heads 2 --kv-heads 1"});
  refused(
      [&](auto& tensors) {
        const View query = named(tensors, "model.layers.0.self_attn.q_proj.weight").view;
        tensors.push_back({"model.layers.0.self_attn.qkv_proj.weight", {query.data, {16, 8}}});
      },
      {"tensor model.layers.0.self_attn.q_proj.weight appears twice", "qkv_proj"});
  refused(
      [&](auto& tensors) {
        tensors.push_back({k.substr(6), named(tensors, k).view});
      },
      {k.substr(6) + " appears twice, with and without `model.`"});
  refused(
      [&](auto& tensors) {
        tensors.push_back({"model.layers.0.self_attn.k_proj.bias", tensors.back().view});
      },
      {"tensor model.layers.0.self_attn.k_proj.bias is not a parameter of this model"});

  // The file of the other family.
  write_safetensors(path, tensors_of(saved.gpt));
  CHECK(contains(why_not_loaded(path, tiny(false)),
                 "tensor model.embed_tokens.weight is a Llama's, but this model is a GPT-2; give "
                 "--model llama"));
  Model{tiny(false)}.save(path);
  CHECK(contains(why_not_loaded(path, tiny_llama()),
                 "tensor transformer.wte.weight is a GPT-2's, but this model is a Llama; give "
                 "--model gpt2"));
}

TEST_CASE("what a Llama's config.json says must be the model's") {
  const TemporaryFolder folder;
  GptConfig config = tiny_llama();
  export_alone(Model{config}, "--export", folder / "run");
  const auto message = [&](const std::function<void(GptConfig&)>& change) {
    GptConfig other = config;
    change(other);
    return why_not_loaded(folder / "run", other);
  };
  CHECK(contains(message([](GptConfig& c) { c.heads = 1; }),
                 "its model has 2 heads, but --heads is 1; use --heads 2"));
  CHECK(
      contains(message([](GptConfig& c) { c.llama->kv_heads = 2; }),
               "its model has 1 heads of keys and values, but --kv-heads is 2; use --kv-heads 1"));
  CHECK(contains(message([](GptConfig& c) { c.llama->mlp_width = 8; }),
                 "its model has 6 columns in its MLP, but --mlp-width is 8; use --mlp-width 6"));
  for (const auto& change : std::initializer_list<std::function<void(GptConfig&)>>{
           [](GptConfig& c) { c.llama->theta = 500; },
           [](GptConfig& c) { c.llama->epsilon = 1e-6; },
           [](GptConfig& c) { c.llama->scaling = RotaryScaling{}; }})
    CHECK(contains(message(change), "rope_theta"));
  CHECK(contains(message([](GptConfig& c) { c.layers = 3; }),
                 "tensor model.layers.2.input_layernorm.weight is missing"));
}

TEST_CASE("only parts of an exported model count as its files") {
  TemporaryFolder folder;
  std::ofstream{folder / "model-00001-of-00002.safetensors"} << "";
  CHECK(foreign_file(folder / "") == "");
  std::ofstream{folder / "model-best.safetensors"} << "";
  CHECK(foreign_file(folder / "") == "model-best.safetensors");
}
