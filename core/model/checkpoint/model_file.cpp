#include "core/model/checkpoint/model_file.h"

#include <fmt/format.h>

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

/// Reads the keys of transformers' GPT2Config. Throws JsonError for a value of the wrong type, and
/// UsageError for another model than GPT-2.
ModelDescription description_from(std::string_view text, const std::string& path) {
  JsonReader in{text};
  ModelDescription model{.tied = true};  // the default in transformers
  const auto size = [&](const char* key, std::optional<int>& value) {
    return JsonReader::Field{
        key, [&] { value = static_cast<int>(in.whole(1, std::numeric_limits<int>::max())); },
        Use::optional};
  };
  const auto ours = [&](const char* key, const char* value) {
    return JsonReader::Field{
        key,
        [&in, &path, key, value] {
          const bool is_number = in.kind() == JsonReader::Kind::number;
          JsonReader again = in;
          const std::string_view theirs = in.skip();
          JsonReader expected{value};
          if (is_number ? expected.kind() != JsonReader::Kind::number ||
                              again.number() != expected.number()
                        : theirs != value)
            throw UsageError{fmt::format(
                "--load {}: its config.json has {} {}, but Lockstep's GPT-2 has {}; load another "
                "model",
                path, key, excerpt(theirs), value)};
        },
        Use::optional};
  };
  in.object({size("n_layer", model.layers),
             size("n_embd", model.hidden),
             size("n_head", model.heads),
             size("n_positions", model.sequence),
             size("vocab_size", model.vocabulary),
             {"tie_word_embeddings", [&] { model.tied = in.boolean(); }, Use::optional},
             ours("model_type", "\"gpt2\""),
             ours("activation_function", "\"gelu_new\""),
             ours("layer_norm_epsilon", "1e-5"),
             ours("scale_attn_weights", "true"),
             ours("scale_attn_by_inverse_layer_idx", "false"),
             ours("add_cross_attention", "false")});
  in.end();
  return model;
}

/// Throws UsageError if these sizes are all there and do not fit together.
void check_sizes(const ModelDescription& model) {
  if (model.layers && model.hidden && model.heads && model.sequence && model.vocabulary)
    GptConfig{.layers = *model.layers,
              .hidden = *model.hidden,
              .heads = *model.heads,
              .sequence = *model.sequence,
              .vocabulary = *model.vocabulary}
        .validate();
}

}  // namespace

ModelDescription described_model(const std::string& path) {
  if (path.ends_with(".safetensors")) return {};
  const std::string file = folder_to_load(path) + "/config.json";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {};
  const auto unfit = [&](const std::string& why) {
    return UsageError{
        fmt::format("--load {}: its config.json is damaged: {}; mend this file, or load a single "
                    ".safetensors file",
                    path, why)};
  };
  ModelDescription model;
  try {
    model = description_from(content_of(file), path);
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

std::string config_json(const GptConfig& config) {
  const nlohmann::ordered_json document = {{"architectures", {"GPT2LMHeadModel"}},
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
  return document.dump(2) + "\n";
}

}  // namespace lockstep
