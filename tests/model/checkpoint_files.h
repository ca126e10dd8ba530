#pragma once

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/comm/threads/thread_fabric.h"
#include "core/model/checkpoint/checkpoint.h"
#include "core/model/checkpoint/model_file.h"
#include "core/model/checkpoint/safetensors.h"
#include "tests/model/fixture.h"
#include "tests/support/whole_checkpoint.h"

namespace lockstep::test {

using testing::NamedMoment;
using testing::OptimizerState;
using testing::save_whole;
using testing::write_safetensors;

inline GptConfig tiny(bool tied) {
  return {.layers = 1, .hidden = 8, .heads = 2, .sequence = 6, .vocabulary = 16, .tied = tied};
}

inline GptConfig tiny_llama(bool tied = false) {
  return {.layers = 2,
          .hidden = 8,
          .heads = 2,
          .sequence = 6,
          .vocabulary = 16,
          .tied = tied,
          .llama = LlamaConfig{.kv_heads = 1, .mlp_width = 6}};
}

/// A model on its own device, with functions that save and load it.
struct Model {
  explicit Model(const GptConfig& config, std::uint64_t seed = 1)
      : gpt(config, one.device(), StageLayers::whole(config), seed) {}
  void load(const std::string& path) {
    load_checkpoint(path, gpt.config(), one.device(), gpt.parameters());
  }
  /// Saves the model in the older form, or as a file.
  void save(const std::string& path) const {
    save_whole(path, gpt.config(), gpt.device(), gpt.parameters());
  }
  OneDevice one;
  Gpt gpt;
};

/// Returns the model that a folder's config.json describes in full.
inline GptConfig config_of(const std::string& folder) {
  const ModelDescription described = described_model(folder);
  return {.layers = described.layers.value(),
          .hidden = described.hidden.value(),
          .heads = described.heads.value(),
          .sequence = described.sequence.value(),
          .vocabulary = described.vocabulary.value(),
          .tied = described.tied.value(),
          .llama = described.llama};
}

/// Exports a model that is on one rank.
inline void export_alone(const Model& model, const std::string& flag, const std::string& path,
                         std::uint64_t most_bytes = most_bytes_of_file) {
  ThreadFabric fabric{1};
  const std::unique_ptr<Transport> rank = fabric.endpoint(0);
  const AdamW optimizer{model.gpt.parameters(), model.gpt.device()};
  export_model(*rank, flag, path, model.gpt.config(),
               {model.gpt.device(), model.gpt.parameters(), optimizer}, most_bytes);
}

/// Returns the contents of a file.
inline std::string slurp(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream{path, std::ios::binary}.rdbuf();
  return text.str();
}

/// Replaces the contents of a file.
inline void spill(const std::string& path, const std::string& text) {
  std::ofstream{path, std::ios::binary} << text;
}

/// Returns a safetensors file with this header and data.
inline std::string with_length(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + data;
}

/// A saved file whose header the test can corrupt.
struct CorruptFile {
  CorruptFile() {
    Model{tiny(false)}.save(path);
    const std::string text = slurp(path);
    std::uint64_t length = 0;
    std::memcpy(&length, text.data(), 8);
    header = nlohmann::json::parse(text.substr(8, length));
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
  nlohmann::json& operator[](const std::string& name) { return header["transformer." + name]; }

  TemporaryFolder folder;
  std::string path = folder / "model.safetensors";
  nlohmann::json header;
  std::string data;
};

}  // namespace lockstep::test
