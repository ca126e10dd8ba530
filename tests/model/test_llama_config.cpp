#include <fmt/format.h>

#include <map>

#include "tests/model/checkpoint_files.h"
#include "tests/support/complaints.h"

// The config.json of a Llama, in the spellings of several versions of transformers.

using namespace lockstep;
using namespace lockstep::test;
using lockstep::testing::unlike;
using nlohmann::json;

namespace {

/// An exported Llama, whose config.json a test changes.
struct ConfigFile {
  explicit ConfigFile(const GptConfig& config = tiny_llama()) {
    export_alone(Model{config}, "--export", folder / "run");
    good = json::parse(slurp(path + "/config.json"));
  }
  ModelDescription read(const json& changed) const {
    spill(path + "/config.json", changed.dump());
    return described_model(path);
  }
  ModelDescription with(const std::string& key, const json& value) const {
    json changed = good;
    changed[key] = value;
    return read(changed);
  }
  /// Returns the one-line error that refuses this value. It must name the file.
  std::string refusal(const std::string& key, const json& value) const {
    const std::string message = usage_error([&] { with(key, value); });
    CHECK(contains(message, "--load " + path));
    CHECK(contains(message, "config.json"));
    return message;
  }

  TemporaryFolder folder;
  std::string path = folder / "run";
  json good;
};

const json llama3_rope{{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 64}};

}  // namespace

TEST_CASE("config.json describes the Llama that was exported, and transformers' other spellings") {
  GptConfig config = tiny_llama(true);
  config.llama->theta = 500000;
  config.llama->epsilon = 3e-6;
  config.llama->longest_sequence = config.sequence;
  for (const bool scaled : {false, true}) {
    if (scaled)
      config.llama->scaling = RotaryScaling{.factor = 3,
                                            .low_frequency_factor = 0.5,
                                            .high_frequency_factor = 2.5,
                                            .original_sequence = 48};
    const ConfigFile file{config};
    const ModelDescription same{config.layers,     config.hidden, config.heads, config.sequence,
                                config.vocabulary, config.tied,   config.llama};
    CHECK(described_model(file.path) == same);
    // Writes the file as transformers 5 does.
    json newer = file.good;
    newer["rope_parameters"] = scaled ? newer["rope_scaling"] : json{{"rope_type", "default"}};
    newer["rope_parameters"]["rope_theta"] = 500000.0;
    for (const char* key : {"rope_scaling", "rope_theta"}) newer.erase(key);
    CHECK(file.read(newer) == same);
    newer["rope_theta"] = 10000.0;  // the theta inside counts
    CHECK(file.read(newer) == same);
    newer["rope_scaling"] = nullptr;
    CHECK(file.read(newer) == same);
    for (const char* null : {"head_dim", "rope_parameters"})
      CHECK_NOTHROW(file.with(null, nullptr));
    CHECK(file.with("head_dim", 4) == same);
  }
  const ConfigFile file{tiny_llama()};
  CHECK(file.with("num_key_value_heads", nullptr).llama->kv_heads == 2);
  json older = llama3_rope;
  older.erase("rope_type");
  older["type"] = "llama3";
  CHECK(file.with("rope_scaling", older).llama->scaling ==
        file.with("rope_scaling", llama3_rope).llama->scaling);
  CHECK(file.with("rope_scaling", llama3_rope).llama->scaling ==
        RotaryScaling{.original_sequence = 64});
  spill(file.path + "/config.json", R"({"model_type": "llama"})");
  CHECK(described_model(file.path) ==
        ModelDescription{.tied = false,
                         .llama = LlamaConfig{
                             .kv_heads = 0, .mlp_width = 11008, .theta = 10000, .epsilon = 1e-6}});
}

TEST_CASE("a config.json of a model that Lockstep's Llama is not is refused, and names the key") {
  const ConfigFile file;
  const auto rope_with = [](const std::string& key, const json& value) {
    json rope = llama3_rope;
    value.is_null() ? void(rope.erase(key)) : void(rope[key] = value);
    return rope;
  };
  CHECK(contains(file.refusal("model_type", "mistral"), "model_type mistral, but"));
  CHECK(
      contains(file.refusal("head_dim", 6),
               "head_dim 6, but Lockstep's heads have hidden_size / num_attention_heads = 8 / 2"));
  CHECK(contains(file.refusal("attention_bias", true), "attention_bias true, but"));
  CHECK(contains(file.refusal("mlp_bias", true), "mlp_bias true, but"));
  CHECK(contains(file.refusal("hidden_act", "gelu"), "hidden_act \"gelu\", but"));
  for (const json& wrong : {json(-10000.0), json(0), json("1e4"), json(nullptr)})
    CHECK(contains(file.refusal("rope_theta", wrong), "'rope_theta': " + wrong.dump() + " is not"));
  CHECK(contains(file.refusal("rms_norm_eps", -1e-5), "'rms_norm_eps': -1e-05 is not a number"));
  for (const char* rope : {"rope_scaling", "rope_parameters"}) {
    CHECK(contains(file.refusal(rope, rope_with("rope_type", "yarn")), "rope_type yarn, but"));
    CHECK(contains(file.refusal(rope, {{"type", "linear"}, {"factor", 2.0}}),
                   "rope_type linear, but"));
    CHECK(contains(file.refusal(rope, rope_with("rope_theta", -1)),
                   fmt::format("'{}.rope_theta': -1 is not a number above 0", rope)));
    for (const char* key :
         {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
      CHECK(contains(file.refusal(rope, rope_with(key, nullptr)),
                     fmt::format("rope_type llama3 without {}", key)));
      CHECK(contains(file.refusal(rope, rope_with(key, 0)),
                     fmt::format("'{}.{}': 0 is not a number above 0", rope, key)));
    }
    CHECK(contains(file.refusal(rope, rope_with("high_freq_factor", 1.0)),
                   "high_freq_factor 1, which must be above low_freq_factor 1"));
    CHECK(contains(file.refusal(rope, 3), fmt::format("'{}': 3 is not an object", rope)));
  }
  for (const json& wrong : {json(0), json("2"), json(1.5)})
    CHECK(contains(file.refusal("num_key_value_heads", wrong),
                   "'num_key_value_heads': " + wrong.dump() + " is not a whole number from 1"));
  CHECK(contains(file.refusal("num_key_value_heads", 4), "--kv-heads 4 with --heads 2"));
  CHECK(contains(file.refusal("num_attention_heads", 8), "an even number"));
}

TEST_CASE("a model that trains on shorter sequences keeps the longest one of its config.json") {
  GptConfig config = tiny_llama(true);
  config.llama->longest_sequence = 4096;
  const ConfigFile file{config};
  CHECK(file.good["max_position_embeddings"] == 4096);
  CHECK(described_model(file.path).sequence == 4096);
}

TEST_CASE("a field that changes what the model computes is refused with its value") {
  const ConfigFile gpt{tiny(true)};  // with 8 columns
  CHECK(unlike(gpt.refusal("n_inner", 16), {"n_inner 16", "4 * n_embd = 32"}) == "");
  CHECK(unlike(gpt.refusal("pruned_heads", {{"0", {1}}}), {"pruned_heads", "{}"}) == "");
  for (const auto& [key, same] : std::map<std::string, json>{{"n_inner", nullptr},
                                                             {"n_inner", 32},
                                                             {"pruned_heads", json::object()},
                                                             {"quantization_config", nullptr},
                                                             {"reorder_and_upcast_attn", true}})
    CHECK(gpt.with(key, same) == gpt.read(gpt.good));

  const ConfigFile llama;
  CHECK(unlike(llama.refusal("layer_types", {"full_attention", "chunked_attention"}),
               {"layer_types \"chunked_attention\"", "\"full_attention\""}) == "");
  CHECK(unlike(llama.refusal("rope_parameters",
                             {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}),
               {"partial_rotary_factor 0.5", "1.0"}) == "");
  for (const ConfigFile* file : {&gpt, &llama})
    CHECK(unlike(file->refusal("quantization_config", {{"bits", 4}}), {"quantization_config"}) ==
          "");
  for (const auto& [key, same] :
       std::map<std::string, json>{{"layer_types", nullptr},
                                   {"layer_types", {"full_attention", "full_attention"}},
                                   {"sliding_window", nullptr},
                                   {"pretraining_tp", 2},
                                   {"rope_parameters", {{"partial_rotary_factor", 1}}}})
    CHECK(llama.with(key, same) == llama.read(llama.good));
}

TEST_CASE("a sliding window limits the sequence, unless no layer uses it") {
  const ConfigFile file;
  const auto window = [&](const json& fields) {
    json changed = file.good;
    changed.update(fields);
    return file.read(changed).window;
  };
  CHECK(window({{"sliding_window", 16}}) == 16);
  CHECK(window({{"sliding_window", 16}, {"use_sliding_window", true}}) == 16);
  CHECK(window({{"sliding_window", 16}, {"use_sliding_window", false}}) == std::nullopt);
  CHECK(window({{"sliding_window", 16}, {"layer_types", {"full_attention"}}}) == std::nullopt);
  CHECK(window({{"sliding_window", 16},
                {"layer_types", {"sliding_attention", "full_attention"}}}) == 16);
}
