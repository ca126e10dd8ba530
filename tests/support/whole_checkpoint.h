#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "core/base/crc32.h"
#include "core/model/checkpoint/checkpoint_folder.h"
#include "core/model/checkpoint/model_file.h"
#include "core/model/checkpoint/new_file.h"
#include "core/model/checkpoint/safetensors.h"
#include "core/model/checkpoint/sharded_checkpoint.h"
#include "core/model/parameter.h"

namespace lockstep::testing {

// Writers of whole tensors: safetensors files as transformers writes them, and checkpoints in the
// older form, which the current code still reads.

/// A tensor to write. The view must be host memory, contiguous, f32 or i32.
struct NamedView {
  std::string name;
  View view;
};

inline std::string safetensors_bytes(const std::vector<NamedView>& tensors) {
  std::vector<SafetensorsHeader::Entry> entries;
  for (const auto& [name, view] : tensors) entries.push_back({name, view.shape, view.dtype});
  std::string bytes = SafetensorsHeader{entries}.bytes();
  for (const auto& [name, view] : tensors)
    bytes.append(static_cast<const char*>(view.data), view.bytes());
  return bytes;
}

inline void write_safetensors(const std::string& path, const std::vector<NamedView>& tensors) {
  const std::string bytes = safetensors_bytes(tensors);
  std::filesystem::remove(path);
  NewFile file{path, NewFile::Mode::create, "--save " + path};
  file.write_at(0, bytes.data(), bytes.size());
  file.finish();
}

/// One moment of one parameter, unsharded.
struct NamedMoment {
  std::string name;  ///< "transformer.wte.weight.momentum"
  std::vector<float> values;
};
struct OptimizerState {
  std::vector<NamedMoment> moments;
  std::int64_t steps = 0;
};

/// Writes a whole model, and the optimizer's state if there is one, in the older form.
inline void save_whole(const std::string& path, const Plan& plan, Device device,
                       const std::vector<Parameter*>& parameters,
                       const std::optional<OptimizerState>& optimizer = {}) {
  std::vector<NamedView> tensors;
  std::list<std::vector<float>> values;
  for (const ParameterSpec& spec : plan.parameters()) {
    const auto found = std::ranges::find(parameters, spec.name, &Parameter::name);
    tensors.push_back(
        {spec.name, View{values.emplace_back((*found)->f32_values(device)).data(), spec.shape}});
  }
  if (path.ends_with(".safetensors")) {
    write_safetensors(path, tensors);
    return;
  }
  auto steps = static_cast<std::int32_t>(optimizer ? optimizer->steps : 0);
  NewFolder folder{"--save", path};
  Manifest manifest{.step = steps, .files = {}, .tensors = {}, .moments = {}};
  manifest.files["config.json"] = folder.write("config.json", config_json(plan.model()));
  manifest.files["model.safetensors"] =
      folder.write("model.safetensors", safetensors_bytes(tensors));
  if (optimizer) {
    std::vector<NamedView> moments{{"steps", View{&steps, {1}, DType::i32}}};
    for (const NamedMoment& moment : optimizer->moments)
      moments.push_back({moment.name, View{const_cast<float*>(moment.values.data()),
                                           {static_cast<std::int64_t>(moment.values.size())}}});
    manifest.files["optimizer.safetensors"] =
        folder.write("optimizer.safetensors", safetensors_bytes(moments));
  }
  folder.write(manifest_name, manifest.to_json());
  folder.take_place();
}

}  // namespace lockstep::testing
