#include <cstdlib>

#include "tests/model/checkpoint_files.h"
#include "tests/support/complaints.h"

using namespace lockstep;
using namespace lockstep::test;
using lockstep::testing::complaint_of;
using lockstep::testing::unlike;
using nlohmann::json;

namespace {

const std::string theirs = LOCKSTEP_SOURCE_DIR "/tests/golden/saved_by_transformers";

}  // namespace

TEST_CASE("a saved model is loaded bit for bit, as a folder and as a file") {
  const TemporaryFolder folder;
  for (bool tied : {false, true}) {
    for (const char* name : {"run", "deep/er/run", "one.safetensors"}) {
      const Model saved{tiny(tied), 1};
      export_alone(saved, "--export", folder / name);
      Model loaded{tiny(tied), 2};
      CHECK_FALSE(values(loaded.gpt) == values(saved.gpt));
      loaded.load(folder / name);
      CHECK(values(loaded.gpt) == values(saved.gpt));
    }
  }
  CHECK(json::parse(slurp(folder / "run/config.json"))["n_embd"] == 8);
  for (const auto& entry : std::filesystem::recursive_directory_iterator{folder.path()})
    CHECK(entry.path().extension() != ".partial");
}

TEST_CASE("a stage loads its part of the whole model's file") {
  const TemporaryFolder folder;
  GptConfig config = tiny(true);
  config.layers = 3;
  const Model saved{config, 1};
  saved.save(folder / "run");
  Stages stages{config, 3, 2};
  for (auto& stage : stages.models) {
    load_checkpoint(folder / "run", config, stage->device(), stage->parameters());
    for (const Named& value : values(*stage)) {
      const auto all = values(saved.gpt);
      CHECK(std::ranges::count(all, value) == 1);
    }
  }
}

TEST_CASE("a file that transformers wrote gives transformers' logits") {
  Model model{tiny(true)};
  model.load(theirs);
  SafetensorsFile expected{theirs + "/expected.safetensors"};
  std::vector<std::int32_t> tokens(12);
  Floats logits(12 * 16);
  const View tokens_view{tokens.data(), {2, 6}, DType::i32};
  expected.read("tokens", tokens_view);
  expected.read("logits", {logits.data(), {2, 6, 16}});
  const Floats ours = floats(model.gpt.logits(tokens_view));
  float most = 0;
  for (std::size_t i = 0; i < logits.size(); ++i)
    most = std::max(most, std::abs(ours[i] - logits[i]));
  CHECK(most < 1e-5F);
  MESSAGE("largest difference of a logit: " << most);
}

TEST_CASE("a model that transformers has saved in several files is read through its index") {
  const TemporaryFolder folder;
  const Model saved{tiny(false), 1};
  json index = {{"metadata", {{"total_size", 1}}}, {"weight_map", json::object()}};
  const auto& parameters = saved.gpt.parameters();
  for (std::size_t part = 0; part < 3; ++part) {
    std::vector<testing::NamedView> tensors;
    const std::string file = "model-0000" + std::to_string(part + 1) + "-of-00003.safetensors";
    for (std::size_t i = part; i < parameters.size(); i += 3) {
      tensors.push_back({parameters[i]->name, parameters[i]->value});
      index["weight_map"][parameters[i]->name] = file;
    }
    write_safetensors(folder / file, tensors);
  }
  spill(folder / "model.safetensors.index.json", index.dump());
  Model loaded{tiny(false), 2};
  loaded.load(folder.path());
  CHECK(values(loaded.gpt) == values(saved.gpt));
  std::filesystem::remove(folder / "model-00002-of-00003.safetensors");
  CHECK(contains(usage_error([&] { loaded.load(folder.path()); }),
                 "model-00002-of-00003.safetensors: no such file"));
  spill(folder / "model.safetensors.index.json", "{}");
  CHECK(contains(usage_error([&] { loaded.load(folder.path()); }), "index.json is damaged"));
}

TEST_CASE("a config.json of another model than GPT-2 is refused, and names the difference") {
  const TemporaryFolder folder;
  export_alone(Model{tiny(true)}, "--export", folder / "run");
  const json good = json::parse(slurp(folder / "run/config.json"));
  const GptConfig config = tiny(true);
  CHECK(described_model(folder / "run") == ModelDescription{config.layers, config.hidden,
                                                            config.heads, config.sequence,
                                                            config.vocabulary, config.tied});
  CHECK(described_model(folder / "run/model.safetensors") == ModelDescription{});
  CHECK(described_model(folder / "none") == ModelDescription{});
  for (const auto& [key, value] : {std::pair{"activation_function", json("relu")},
                                   {"layer_norm_epsilon", json(1e-6)},
                                   {"scale_attn_by_inverse_layer_idx", json(true)}}) {
    json other = good;
    other[key] = value;
    spill(folder / "run/config.json", other.dump());
    Model model{tiny(true), 2};
    CHECK(contains(usage_error([&] { model.load(folder / "run"); }), key));
  }
}

TEST_CASE("names without `transformer.` and transformers' buffers are accepted") {
  CorruptFile file;
  json renamed;
  for (const auto& [name, value] : file.header.items())
    renamed[name.starts_with("transformer.") ? name.substr(12) : name] = value;
  const auto end = file.data.size();
  renamed["h.0.attn.bias"] = {
      {"dtype", "BOOL"}, {"shape", {1, 1, 2, 2}}, {"data_offsets", {end, end + 4}}};
  renamed["h.0.attn.masked_bias"] = {
      {"dtype", "F16"}, {"shape", json::array()}, {"data_offsets", {end + 4, end + 6}}};
  spill(file.path, with_length(renamed.dump(), file.data + "abcdef"));
  Model model{tiny(false), 2};
  model.load(file.path);
  CHECK(values(model.gpt) == values(Model{tiny(false), 1}.gpt));
}

TEST_CASE("a tied model takes a head that is the token table, and no other") {
  CorruptFile file;
  CHECK(contains(file.message(tiny(true)), "leave out --tied"));
  const auto table = file["wte.weight"]["data_offsets"],
             head = file.header["lm_head.weight"]["data_offsets"];
  const std::size_t bytes = table[1].get<std::size_t>() - table[0].get<std::size_t>();
  file.data.replace(head[0].get<std::size_t>(), bytes,
                    file.data.substr(table[0].get<std::size_t>(), bytes));
  spill(file.path, with_length(file.header.dump(), file.data));
  Model tied{tiny(true), 2};
  tied.load(file.path);
  CHECK(values(tied.gpt).front() == values(Model{tiny(false), 1}.gpt).front());
}

TEST_CASE("config.json provides the number of heads, which shapes do not") {
  const TemporaryFolder folder;
  Model{tiny(false)}.save(folder / "run");
  GptConfig other = tiny(false);
  other.heads = other.heads == 1 ? 2 : 1;
  Model model{other, 3};
  const auto before = values(model.gpt);
  CHECK(contains(usage_error([&] { model.load(folder / "run"); }), "--heads"));
  CHECK(values(model.gpt) == before);
}

TEST_CASE("a path that cannot be written gives one line, and leaves nothing behind") {
  const TemporaryFolder folder;
  const Model model{tiny(false)};
  const std::string absent = folder / "absent/model.safetensors";
  const std::string message = usage_error([&] { export_alone(model, "--save", absent); });
  CHECK(contains(message, "--save " + absent));
  std::filesystem::create_directory(folder / "folder.safetensors");
  spill(folder / "folder.safetensors/full", "");
  CHECK(contains(usage_error([&] { export_alone(model, "--save", folder / "folder.safetensors"); }),
                 "--save"));
  CHECK_FALSE(std::filesystem::exists(folder / "folder.safetensors.partial"));
  // A file occupies the folder's path.
  spill(folder / "file", "");
  CHECK(unlike(complaint_of<RunError>([&] { export_alone(model, "--export", folder / "file"); }),
               {"--export", "file.partial"}) == "");
}

// Run by tests/golden/check_transformers.py.
TEST_CASE("exchange with transformers" * doctest::skip()) {
  const char* named = std::getenv("LOCKSTEP_EXCHANGE");
  REQUIRE(named != nullptr);
  const std::string folder = named;
  for (const std::string kind :
       {"gpt2_tied", "gpt2_untied", "llama_tied", "llama_untied", "llama_scaled"}) {
    const GptConfig config = config_of(folder + "/theirs_" + kind);
    std::vector<std::int32_t> tokens(40);
    const View view{tokens.data(), {2, 20}, DType::i32};
    SafetensorsFile{folder + "/tokens.safetensors"}.read("tokens", view);

    Model ours{config, 3};
    for (Parameter* parameter : ours.gpt.parameters())  // as if trained: biases are not zero
      for (std::int64_t i = 0; i < parameter->value.elements(); ++i)
        parameter->value.f32()[i] += 0.1F * std::sin(static_cast<float>(i));
    export_alone(ours, "--export", folder + "/ours_" + kind, config.llama ? 50'000 : UINT64_MAX);
    write_safetensors(folder + "/ours_" + kind + "_logits.safetensors",
                      {{"logits", ours.gpt.logits(view)}});

    Model read{config, 4};
    read.load(folder + "/theirs_" + kind);
    write_safetensors(folder + "/theirs_" + kind + "_logits.safetensors",
                      {{"logits", read.gpt.logits(view)}});
  }
}
