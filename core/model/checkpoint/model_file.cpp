#include "core/model/checkpoint/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/input_file.h"
#include "core/base/json_reader.h"
#include "core/base/printable.h"
#include "core/model/checkpoint/checkpoint_folder.h"

namespace lockstep {

namespace {

using Use = JsonReader::Field::Use;

/// Reads the keys of transformers' configurations.
class ConfigReader {
 public:
  /// `path` is the checkpoint's path, for messages.
  ConfigReader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  /// Throws JsonError for a value of the wrong type, and UsageError for a model that Lockstep does
  /// not support.
  ModelDescription description() {
    std::string type = "gpt2";
    JsonReader first{text_};
    first.object({{"model_type", [&] { type = first.string(); }, Use::optional}});
    first.end();
    if (type != "gpt2" && type != "llama")
      throw UsageError{
          fmt::format("--load {}: its config.json has model_type {}, but Lockstep has only gpt2 "
                      "and llama; load another model",
                      path_, excerpt(type))};
    return type == "llama" ? llama() : gpt2();
  }

 private:
  ModelDescription gpt2() {
    ModelDescription model{.tied = true};  // the default in transformers
    std::optional<int> mlp_width;
    in_.object({size("n_layer", model.layers),
                size("n_embd", model.hidden),
                size("n_head", model.heads),
                size("n_positions", model.sequence),
                size("vocab_size", model.vocabulary),
                size_or_null("n_inner", mlp_width),
                {"tie_word_embeddings", [&] { model.tied = in_.boolean(); }, Use::optional},
                ours("activation_function", "\"gelu_new\""),
                ours("layer_norm_epsilon", "1e-5"),
                ours("scale_attn_weights", "true"),
                ours("scale_attn_by_inverse_layer_idx", "false"),
                ours("add_cross_attention", "false"),
                ours("pruned_heads", "{}"),
                ours("quantization_config", "null")});
    in_.end();
    if (mlp_width && model.hidden && *mlp_width != std::int64_t{4} * *model.hidden)
      refuse("n_inner", std::to_string(*mlp_width),
             fmt::format("4 * n_embd = {}", std::int64_t{4} * *model.hidden));
    return model;
  }

  ModelDescription llama() {
    ModelDescription model{.tied = false};
    // The defaults of transformers' LlamaConfig for missing keys.
    std::optional<int> kv_heads, mlp_width = 11008, head_width;
    LlamaConfig settings{.theta = 10000, .epsilon = 1e-6};
    std::optional<Rope> older, newer;
    Window window;
    in_.object({size("num_hidden_layers", model.layers),
                size("hidden_size", model.hidden),
                size("num_attention_heads", model.heads),
                size("max_position_embeddings", model.sequence),
                size("vocab_size", model.vocabulary),
                size_or_null("num_key_value_heads", kv_heads),
                size("intermediate_size", mlp_width),
                size_or_null("head_dim", head_width),
                {"tie_word_embeddings", [&] { model.tied = in_.boolean(); }, Use::optional},
                {"rms_norm_eps", [&] { settings.epsilon = positive(); }, Use::optional},
                {"rope_theta", [&] { settings.theta = positive(); }, Use::optional},
                {"rope_scaling", [&] { older = rope(); }, Use::optional},
                {"rope_parameters", [&] { newer = rope(); }, Use::optional},
                size_or_null("sliding_window", window.size),
                {"use_sliding_window", [&] { window.is_on = in_.boolean(); }, Use::optional},
                {"layer_types", [&] { read_layer_types(window); }, Use::optional},
                ours("partial_rotary_factor", "1.0"),
                ours("hidden_act", "\"silu\""),
                ours("attention_bias", "false"),
                ours("mlp_bias", "false"),
                ours("quantization_config", "null")});
    in_.end();
    if (window.is_on && window.some_layer) model.window = window.size;
    if (!kv_heads) kv_heads = model.heads;
    if (head_width && model.hidden && model.heads &&
        std::int64_t{*head_width} * *model.heads != *model.hidden)
      throw UsageError{fmt::format(
          "--load {}: its config.json has head_dim {}, but Lockstep's heads have hidden_size / "
          "num_attention_heads = {} / {} columns; load another model",
          path_, *head_width, *model.hidden, *model.heads)};
    if (older || newer) set_rotary(settings, older ? *older : *newer);
    settings.kv_heads = kv_heads.value_or(0);
    settings.longest_sequence = model.sequence.value_or(0);
    settings.mlp_width = *mlp_width;
    model.llama = settings;
    return model;
  }

  /// The sliding window of attention.
  struct Window {
    std::optional<int> size;
    bool is_on = true;
    bool some_layer = true;  ///< whether a layer uses it
  };

  /// Reads "layer_types": a list of the kinds of attention, or null. Only layers of the kind
  /// "sliding_attention" use the window.
  void read_layer_types(Window& window) {
    if (in_.kind() == JsonReader::Kind::null) return void(in_.skip());
    window.some_layer = false;
    in_.elements([&] {
      const std::string type = in_.string();
      if (type == "sliding_attention")
        window.some_layer = true;
      else if (type != "full_attention")
        refuse("layer_types", '"' + type + '"', "\"full_attention\"");
    });
  }

  /// The values of "rope_parameters" or of "rope_scaling", its older name.
  struct Rope {
    std::optional<std::string> type, older_type;
    std::optional<double> theta, factor, low_factor, high_factor, original;
  };

  /// Returns nothing for null.
  std::optional<Rope> rope() {
    if (in_.kind() == JsonReader::Kind::null) {
      in_.skip();
      return {};
    }
    Rope rope;
    const auto number = [&](const char* key, std::optional<double>& value) {
      return JsonReader::Field{key, [&] { value = positive(); }, Use::optional};
    };
    in_.object({{"rope_type", [&] { rope.type = in_.string(); }, Use::optional},
                {"type", [&] { rope.older_type = in_.string(); }, Use::optional},
                number("rope_theta", rope.theta),
                number("factor", rope.factor),
                number("low_freq_factor", rope.low_factor),
                number("high_freq_factor", rope.high_factor),
                number("original_max_position_embeddings", rope.original),
                ours("partial_rotary_factor", "1.0")});
    return rope;
  }

  /// As in transformers, a theta in `rope` precedes the "rope_theta" beside it.
  void set_rotary(LlamaConfig& settings, const Rope& rope) const {
    settings.theta = rope.theta.value_or(settings.theta);
    const std::string type = rope.type.value_or(rope.older_type.value_or("default"));
    if (type == "default") return;
    if (type != "llama3")
      throw UsageError{fmt::format(
          "--load {}: its config.json has rope_type {}, but Lockstep has only default and llama3; "
          "load another model",
          path_, excerpt(type))};
    for (const auto& [key, value] : {std::pair{"factor", rope.factor},
                                     {"low_freq_factor", rope.low_factor},
                                     {"high_freq_factor", rope.high_factor},
                                     {"original_max_position_embeddings", rope.original}})
      if (!value)
        throw UsageError{
            fmt::format("--load {}: its config.json has rope_type llama3 without {}; add this key",
                        path_, key)};
    if (*rope.high_factor <= *rope.low_factor)
      throw UsageError{
          fmt::format("--load {}: its config.json has high_freq_factor {}, which must be above "
                      "low_freq_factor {}; correct this file",
                      path_, *rope.high_factor, *rope.low_factor)};
    settings.scaling = RotaryScaling{.factor = *rope.factor,
                                     .low_frequency_factor = *rope.low_factor,
                                     .high_frequency_factor = *rope.high_factor,
                                     .original_sequence = *rope.original};
  }

  [[noreturn]] void refuse(const char* key, std::string_view theirs, std::string_view ours) const {
    throw UsageError{
        fmt::format("--load {}: its config.json has {} {}, but Lockstep's model has {}; load "
                    "another model",
                    path_, key, excerpt(theirs), ours)};
  }

  double positive() {
    JsonReader again = in_;
    const double value = in_.number();
    if (!(value > 0 && value < 1e12)) again.unfit(again.skip(), "a number above 0, below 1e12");
    return value;
  }
  JsonReader::Field size(const char* key, std::optional<int>& value) {
    return {
        key,
        [this, &value] { value = static_cast<int>(in_.whole(1, std::numeric_limits<int>::max())); },
        Use::optional};
  }
  /// A size for which null means that it follows from others.
  JsonReader::Field size_or_null(const char* key, std::optional<int>& value) {
    return {key,
            [this, read = size(key, value).read] {
              in_.kind() == JsonReader::Kind::null ? void(in_.skip()) : read();
            },
            Use::optional};
  }
  /// A key whose value, if present, must be the one that Lockstep's models use.
  JsonReader::Field ours(const char* key, const char* value) {
    return {key,
            [this, key, value] {
              const bool is_number = in_.kind() == JsonReader::Kind::number;
              JsonReader again = in_;
              const std::string_view theirs = in_.skip();
              JsonReader expected{value};
              if (is_number ? expected.kind() != JsonReader::Kind::number ||
                                  again.number() != expected.number()
                            : theirs != value)
                refuse(key, theirs, value);
            },
            Use::optional};
  }

  std::string_view text_;
  const std::string& path_;
  JsonReader in_{text_};
};

/// Throws UsageError if all of these sizes are present and they are inconsistent.
void check_sizes(const ModelDescription& model) {
  if (model.layers && model.hidden && model.heads && model.sequence && model.vocabulary)
    GptConfig{.layers = *model.layers,
              .hidden = *model.hidden,
              .heads = *model.heads,
              .sequence = *model.sequence,
              .vocabulary = *model.vocabulary,
              .llama = model.llama}
        .validate();
}

}  // namespace

ModelDescription described_model(const std::string& path) {
  if (path.ends_with(".safetensors")) return {};
  const std::string file = folder_to_load(path) + "/config.json";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {};
  const auto unfit = [&](const std::string& why) {
    return UsageError{fmt::format(
        "--load {}: its config.json is damaged: {}; correct this file, or load a single "
        ".safetensors file",
        path, why)};
  };
  ModelDescription model;
  try {
    const std::string text = content_of(file);
    model = ConfigReader{text, path}.description();
  } catch (const InputError& unreadable) {
    throw unfit(unreadable.what());
  } catch (const JsonError& malformed) {
    throw unfit(malformed.what());
  }
  try {
    check_sizes(model);
  } catch (const UsageError& misfit) {
    throw unfit(misfit.what());
  }
  return model;
}

namespace {

using json = nlohmann::ordered_json;

json gpt2_config(const GptConfig& config) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", config.vocabulary},
          {"n_positions", config.sequence},
          {"n_embd", config.hidden},
          {"n_layer", config.layers},
          {"n_head", config.heads},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", 1e-5},
          {"tie_word_embeddings", config.tied},
          {"resid_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr},
          {"torch_dtype", "float32"}};
}

json llama_config(const GptConfig& config) {
  const LlamaConfig& llama = *config.llama;
  json scaling = nullptr;
  if (llama.scaling)
    scaling = {{"rope_type", "llama3"},
               {"factor", llama.scaling->factor},
               {"low_freq_factor", llama.scaling->low_frequency_factor},
               {"high_freq_factor", llama.scaling->high_frequency_factor},
               {"original_max_position_embeddings",
                static_cast<std::int64_t>(llama.scaling->original_sequence)}};
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", config.vocabulary},
          {"max_position_embeddings", std::max(config.sequence, llama.longest_sequence)},
          {"hidden_size", config.hidden},
          {"intermediate_size", llama.mlp_width},
          {"num_hidden_layers", config.layers},
          {"num_attention_heads", config.heads},
          {"num_key_value_heads", llama.kv_heads},
          {"hidden_act", "silu"},
          {"rms_norm_eps", llama.epsilon},
          {"rope_theta", llama.theta},
          {"rope_scaling", scaling},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"tie_word_embeddings", config.tied},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr},
          {"torch_dtype", "float32"}};
}

}  // namespace

std::string config_json(const GptConfig& config) {
  return (config.llama ? llama_config(config) : gpt2_config(config)).dump(2) + "\n";
}

}  // namespace lockstep
