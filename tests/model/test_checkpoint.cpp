#include "core/model/checkpoint.h"

#include <bit>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "core/model/safetensors.h"
#include "tests/model/fixture.h"

using namespace lockstep;
using namespace lockstep::test;
using nlohmann::json;

namespace {

const std::string theirs = LOCKSTEP_SOURCE_DIR "/tests/golden/saved_by_transformers";

GptConfig tiny(bool tied) {
  return {.layers = 1, .hidden = 8, .heads = 2, .sequence = 6, .vocabulary = 16, .tied = tied};
}

struct Model {
  explicit Model(const GptConfig& config, std::uint64_t seed = 1)
      : gpt(config, one.device(), StageLayers::whole(config), seed) {}
  void load(const std::string& path) {
    load_checkpoint(path, gpt.config(), one.device(), gpt.parameters());
  }
  void save(const std::string& path) const {
    save_checkpoint(path, gpt.config(), gpt.device(), gpt.parameters());
  }
  OneDevice one;
  Gpt gpt;
};

std::string slurp(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream{path, std::ios::binary}.rdbuf();
  return text.str();
}

void spill(const std::string& path, const std::string& text) {
  std::ofstream{path, std::ios::binary} << text;
}

std::string with_length(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + data;
}

/// A saved file whose header the test can corrupt.
struct Spoilt {
  Spoilt() {
    Model{tiny(false)}.save(path);
    const std::string text = slurp(path);
    std::uint64_t length = 0;
    std::memcpy(&length, text.data(), 8);
    header = json::parse(text.substr(8, length));
    data = text.substr(8 + length);
  }
  /// Returns the error message from loading the corrupted file. It must name the file, and loading
  /// must leave the model unchanged.
  std::string message(GptConfig config = tiny(false)) {
    spill(path, with_length(header.dump(), data));
    return message_of_file(config);
  }
  std::string message_of_file(GptConfig config = tiny(false)) {
    Model model{config, 9};
    const auto before = values(model.gpt);
    const std::string text = usage_error([&] { model.load(path); });
    CHECK(contains(text, "--load " + path));
    CHECK(values(model.gpt) == before);
    return text;
  }
  json& operator[](const std::string& name) { return header["transformer." + name]; }

  TemporaryFolder folder;
  std::string path = folder / "model.safetensors";
  json header;
  std::string data;
};

}  // namespace

TEST_CASE("a saved model is loaded bit for bit, as a folder and as a file") {
  const TemporaryFolder folder;
  for (bool tied : {false, true}) {
    for (const char* name : {"run", "deep/er/run", "one.safetensors"}) {
      const Model saved{tiny(tied), 1};
      saved.save(folder / name);
      Model loaded{tiny(tied), 2};
      CHECK_FALSE(values(loaded.gpt) == values(saved.gpt));
      loaded.load(folder / name);
      CHECK(values(loaded.gpt) == values(saved.gpt));
    }
  }
  CHECK(json::parse(slurp(folder / "run/config.json"))["n_embd"] == 8);
  for (const auto& entry : std::filesystem::recursive_directory_iterator{folder.path})
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

TEST_CASE("names without `transformer.` and transformers' buffers are accepted") {
  Spoilt file;
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
  Spoilt file;
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

TEST_CASE("a corrupted file gives one line that says what is wrong, and nothing is read") {
  Spoilt file;
  SUBCASE("absent") {
    std::filesystem::remove(file.path);
    CHECK(contains(file.message_of_file(), "no such file"));
  }
  SUBCASE("a folder") {
    std::filesystem::remove(file.path);
    std::filesystem::create_directory(file.path);
    CHECK(contains(file.message_of_file(), "is not a file"));
  }
  SUBCASE("too short for a length") {
    spill(file.path, "abc");
    CHECK(contains(file.message_of_file(), "3 bytes"));
  }
  SUBCASE("empty") {
    spill(file.path, "");
    CHECK(contains(file.message_of_file(), "0 bytes"));
  }
  SUBCASE("a header length above the limit") {
    spill(file.path, std::string(8, '\xff') + "{}");
    CHECK(contains(file.message_of_file(), "the limit is 100000000"));
  }
  SUBCASE("truncated in the header") {
    const std::string text = slurp(file.path);
    spill(file.path, text.substr(0, 100));
    CHECK(contains(file.message_of_file(), "truncated"));
  }
  SUBCASE("truncated in the data") {
    const std::string text = slurp(file.path);
    spill(file.path, text.substr(0, text.size() - 1));
    CHECK(contains(file.message_of_file(), "outside"));
  }
  SUBCASE("not JSON") {
    spill(file.path, with_length("{\"a\": nonsense", file.data));
    CHECK(contains(file.message_of_file(), "not a JSON object"));
  }
  SUBCASE("not an object") {
    spill(file.path, with_length("[1, 2]", file.data));
    CHECK(contains(file.message_of_file(), "not a JSON object"));
  }
  SUBCASE("a tensor without offsets") {
    file["ln_f.bias"].erase("data_offsets");
    CHECK(contains(file.message(), "ln_f.bias: its dtype, shape or data_offsets"));
  }
  SUBCASE("a tensor that is a number") {
    file["ln_f.bias"] = 3;
    CHECK(contains(file.message(), "ln_f.bias: its dtype, shape or data_offsets"));
  }
  SUBCASE("offsets that are negative") {
    file["ln_f.bias"]["data_offsets"] = {-32, 0};
    CHECK(contains(file.message(), "ln_f.bias: its dtype, shape or data_offsets"));
  }
  SUBCASE("offsets backwards") {
    file["ln_f.bias"]["data_offsets"] = {64, 32};
    CHECK(contains(file.message(), "ln_f.bias: its data at [64, 32)"));
  }
  SUBCASE("offsets outside") {
    file["ln_f.bias"]["data_offsets"] = {1u << 20, (1u << 20) + 32};
    CHECK(contains(file.message(), "outside"));
  }
  SUBCASE("data that do not fit the shape") {
    const auto begin = file["ln_f.bias"]["data_offsets"][0].get<std::uint64_t>();
    file["ln_f.bias"]["data_offsets"] = {begin, begin + 28};
    CHECK(contains(file.message(), "ln_f.bias: 28 bytes of data do not match F32 of shape [8]"));
  }
  SUBCASE("a shape whose product overflows to what fits") {
    // 2^62 * 4 + 32 bytes wraps around to 32 in 64 bits.
    file["ln_f.bias"]["shape"] = {(std::int64_t{1} << 62) + 8};
    CHECK(contains(file.message(), "do not match"));
  }
  SUBCASE("a negative extent") {
    file["ln_f.bias"]["shape"] = {-8};
    CHECK(contains(file.message(), "do not match"));
  }
  SUBCASE("a shape that is no whole number") {
    file["ln_f.bias"]["shape"] = {8.5};
    CHECK(contains(file.message(), "ln_f.bias: its dtype, shape or data_offsets"));
  }
  SUBCASE("tensors that overlap") {
    file["ln_f.bias"]["data_offsets"] = file["ln_f.weight"]["data_offsets"];
    const std::string text = file.message();
    CHECK(contains(text, "overlap"));
    CHECK(contains(text, "ln_f.bias"));
    CHECK(contains(text, "ln_f.weight"));
  }
  SUBCASE("an unknown dtype") {
    file["ln_f.bias"]["dtype"] = "F31";
    CHECK(contains(file.message(), "ln_f.bias: unknown dtype F31"));
  }
  SUBCASE("another dtype") {
    file["ln_f.bias"]["dtype"] = "I32";
    CHECK(contains(file.message(), "ln_f.bias is I32, not F32"));
  }
  SUBCASE("another shape") {
    file["ln_f.bias"]["shape"] = {2, 4};
    CHECK(contains(file.message(), "ln_f.bias has shape [2, 4], not [8]"));
  }
  SUBCASE("a missing tensor") {
    file.header.erase("transformer.h.0.mlp.c_fc.bias");
    CHECK(contains(file.message(), "transformer.h.0.mlp.c_fc.bias is missing"));
  }
  SUBCASE("an unknown tensor") {
    file["h.0.extra"] = {{"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
    CHECK(contains(file.message(), "h.0.extra is not a parameter of this model"));
  }
  SUBCASE("a tensor under both its names") {
    file.header["h.0.ln_1.bias"] = {{"dtype", "F32"},
                                    {"shape", {8}},
                                    {"data_offsets", {file.data.size(), file.data.size() + 32}}};
    file.data += std::string(32, '\0');
    CHECK(contains(file.message(), "appears twice"));
  }
  SUBCASE("a name over several lines") {
    file.header["a\nb"] = {{"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
    CHECK(contains(file.message(), "control characters"));
  }
  SUBCASE("a file of another configuration") {
    GptConfig wider = tiny(false);
    wider.hidden = 16;
    const std::string text = file.message(wider);
    CHECK(contains(text, "has shape"));
    CHECK(contains(text, "--hidden 16"));
    GptConfig deeper = tiny(false);
    deeper.layers = 2;
    CHECK(contains(file.message(deeper), "transformer.h.1.ln_1.weight is missing"));
  }
  SUBCASE("a tied file for an untied model") {
    file.header.erase("lm_head.weight");
    const std::string text = file.message();
    CHECK(contains(text, "lm_head.weight is missing"));
    CHECK(contains(text, "an untied head"));
  }
}

TEST_CASE("random damage never does worse than a UsageError") {
  Spoilt file;
  const std::string good = slurp(file.path);
  std::mt19937 random{13};
  Model model{tiny(false)};
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips)
      bad[random() % 2000] = static_cast<char>(random());
    if (random() % 4 == 0) bad.resize(random() % bad.size());
    spill(file.path, bad);
    try {
      model.load(file.path);
    } catch (const UsageError&) {
    }
  }
}

TEST_CASE("a path that cannot be written gives one line, and leaves nothing behind") {
  const TemporaryFolder folder;
  const Model model{tiny(false)};
  const std::string absent = folder / "absent/model.safetensors";
  const std::string message = usage_error([&] { model.save(absent); });
  CHECK(contains(message, "--save " + absent));
  std::filesystem::create_directory(folder / "folder.safetensors");
  spill(folder / "folder.safetensors/full", "");
  CHECK(contains(usage_error([&] { model.save(folder / "folder.safetensors"); }), "--save"));
  CHECK_FALSE(std::filesystem::exists(folder / "folder.safetensors.partial"));
  // A file occupies the folder's path.
  spill(folder / "file", "");
  CHECK(contains(usage_error([&] { model.save(folder / "file"); }), "--save"));
}

// Run by tests/golden/check_transformers.py.
TEST_CASE("exchange with transformers" * doctest::skip()) {
  const char* named = std::getenv("LOCKSTEP_EXCHANGE");
  REQUIRE(named != nullptr);
  const std::string folder = named;
  for (bool tied : {false, true}) {
    const std::string kind = tied ? "tied" : "untied";
    GptConfig config{
        .layers = 3, .hidden = 40, .heads = 4, .sequence = 20, .vocabulary = 64, .tied = tied};
    std::vector<std::int32_t> tokens(40);
    const View view{tokens.data(), {2, 20}, DType::i32};
    SafetensorsFile{folder + "/tokens.safetensors"}.read("tokens", view);

    Model ours{config, 3};
    for (Parameter* parameter : ours.gpt.parameters())  // as if trained: biases are not zero
      for (std::int64_t i = 0; i < parameter->value.elements(); ++i)
        parameter->value.f32()[i] += 0.1F * std::sin(static_cast<float>(i));
    ours.save(folder + "/ours_" + kind);
    write_safetensors(folder + "/ours_" + kind + "_logits.safetensors",
                      {{"logits", ours.gpt.logits(view)}});

    Model read{config, 4};
    read.load(folder + "/theirs_" + kind);
    write_safetensors(folder + "/theirs_" + kind + "_logits.safetensors",
                      {{"logits", read.gpt.logits(view)}});
  }
}
