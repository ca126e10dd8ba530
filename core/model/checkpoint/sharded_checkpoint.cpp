#include "core/model/checkpoint/sharded_checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/crc32.h"
#include "core/base/error.h"
#include "core/comm/transport/control.h"
#include "core/model/checkpoint/checkpoint_folder.h"
#include "core/model/checkpoint/common_folder.h"
#include "core/model/checkpoint/model_file.h"
#include "core/model/checkpoint/ownership.h"
#include "core/model/checkpoint/safetensors.h"

namespace lockstep {

namespace {

/// Calls write(box, its values) for each of this rank's boxes, part by part. With a device, the
/// rank counts as computing meanwhile, so that the others do not report it as stalled.
void for_each_box(const Device* device, const std::vector<TensorPart>& parts,
                  const std::vector<OwnedBox>& mine,
                  const std::function<void(std::size_t, const std::vector<float>&)>& write) {
  std::optional<std::size_t> known;
  std::vector<float> values;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const TensorPart& part = parts[mine[i].part];
    if (known != mine[i].part) values = part.read();
    known = mine[i].part;
    const std::vector<float> elements = part.elements(mine[i].box, values);
    if (device == nullptr)
      write(i, elements);
    else
      device->compute.launch(Span{.name = "save"}, {},
                             [&](const Kernels&, Queue) { write(i, elements); });
  }
}

std::size_t bytes_of(const std::vector<float>& values) {
  return values.size() * sizeof(float);
}

/// Writes this rank's shard. Returns the boxes' checksums, eight digits each.
std::string write_shard(const Device* device, const std::vector<TensorPart>& parts,
                        const std::vector<OwnedBox>& mine, const WriteAt& write_at) {
  std::vector<SafetensorsHeader::Entry> entries;
  for (const OwnedBox& each : mine)
    entries.push_back({shard_name(parts[each.part].name, each.box), each.box.extent});
  const SafetensorsHeader header{entries};
  write_at(0, header.bytes().data(), header.bytes().size());
  std::string checksums;
  for_each_box(device, parts, mine, [&](std::size_t i, const std::vector<float>& values) {
    write_at(header.offset(i), values.data(), bytes_of(values));
    Crc32 checksum;
    if (mine[i].crc32.empty()) checksum.add(values.data(), bytes_of(values));
    checksums += mine[i].crc32.empty() ? checksum.text() : mine[i].crc32;
  });
  return checksums;
}

/// Fills in the checksums that the ranks have returned, each for its own boxes in order.
void set_checksums(std::vector<SavedTensor>& tensors, const std::vector<std::string>& checksums,
                   int ranks, std::map<std::string, std::size_t>& next) {
  std::map<std::string, const std::string*> of_file;
  for (int rank = 0; rank < ranks; ++rank)
    of_file[shard_file(rank, ranks)] = &checksums[static_cast<std::size_t>(rank)];
  for (SavedTensor& tensor : tensors)
    for (SavedBox& box : tensor.boxes)
      box.crc32 = Crc32::parse(of_file.at(box.file)->substr(8 * next[box.file]++, 8));
}

}  // namespace

namespace {

struct Steps {
  std::int64_t taken, of_optimizer;
};

std::string save_parts(Transport& ranks, const std::string& path, const Plan& plan,
                       const std::vector<TensorPart>& parts, Steps steps,
                       const std::string& unsound, const Device* device) {
  Ownership owners = agree_on_owners(ranks, plan, parts, unsound);
  if (!owners.unsound.empty()) return owners.unsound;
  // A rank that holds no parameters has counted no steps.
  for (const std::string& count : gather_to_root(ranks, std::to_string(steps.of_optimizer)))
    steps.of_optimizer = std::max<std::int64_t>(steps.of_optimizer, std::stoll(count));

  std::optional<NewFolder> fresh;  // on rank 0
  if (ranks.rank() == 0) fresh.emplace("--save", path);
  CommonFolder folder{ranks, fresh ? fresh->partial() : ""};
  const std::vector<std::string> checksums = folder.write(
      owners.mine.empty() ? "" : shard_file(ranks.rank(), ranks.size()), NewFile::Mode::create,
      "--save " + path,
      [&](const WriteAt& write_at) { return write_shard(device, parts, owners.mine, write_at); });
  if (!fresh) return "";

  Manifest manifest{.step = steps.taken,
                    .optimizer_steps = steps.of_optimizer,
                    .files = {},
                    .tensors = std::move(owners.tensors),
                    .moments = std::move(owners.moments)};
  std::map<std::string, std::size_t> next;  // of each file's checksums
  set_checksums(manifest.tensors, checksums, ranks.size(), next);
  set_checksums(manifest.moments, checksums, ranks.size(), next);
  for (const auto& [file, boxes] : next)
    manifest.files[file] = {std::filesystem::file_size(fresh->partial() + "/" + file)};
  manifest.files["config.json"] = fresh->write("config.json", config_json(plan.model()));
  fresh->write(manifest_name, manifest.to_json());
  fresh->take_place();
  return "";
}

}  // namespace

std::string save_checkpoint(Transport& ranks, const std::string& path, const Plan& plan,
                            const TrainingState& state) {
  return save_parts(ranks, path, plan,
                    tensor_parts(state.device, state.parameters, &state.optimizer),
                    {state.step, state.optimizer.steps()}, state.unsound, &state.device);
}

StateCopy::StateCopy(const TrainingState& state)
    : parts(tensor_parts(state.device, state.parameters, &state.optimizer)),
      step(state.step),
      optimizer_steps(state.optimizer.steps()),
      unsound(state.unsound) {
  for (TensorPart& part : parts)
    part.read = [values = std::make_shared<const std::vector<float>>(part.read())] {
      return *values;
    };
}

std::string save_checkpoint(Transport& ranks, const std::string& path, const Plan& plan,
                            const StateCopy& state) {
  return save_parts(ranks, path, plan, state.parts, {state.step, state.optimizer_steps},
                    state.unsound, nullptr);
}

namespace {

/// A file of an exported model: consecutive parameters of the model.
struct ModelFile {
  std::string name;
  std::vector<ParameterSpec> specs;
  std::uint64_t bytes = 0;  ///< of the tensors

  /// Each parameter is stored as one tensor, or as the tensors that are stacked in it.
  SafetensorsHeader header() const {
    std::vector<SafetensorsHeader::Entry> entries;
    for (const ParameterSpec& spec : specs) {
      if (spec.stacked.empty()) entries.push_back({spec.name, spec.shape});
      for (const auto& [part, rows] : spec.stacked)
        entries.push_back({part, {rows, spec.shape[1]}});
    }
    return SafetensorsHeader{entries};
  }
};

/// Divides the model into files, each of which holds at most `most_bytes` of tensors, or one
/// tensor. The files have the names that transformers uses.
std::vector<ModelFile> model_files(const std::vector<ParameterSpec>& specs,
                                   std::uint64_t most_bytes) {
  std::vector<ModelFile> files(1);
  for (const ParameterSpec& spec : specs) {
    const auto bytes = static_cast<std::uint64_t>(spec.shape.elements()) * sizeof(float);
    if (files.back().bytes + bytes > most_bytes && files.back().bytes > 0) files.emplace_back();
    files.back().specs.push_back(spec);
    files.back().bytes += bytes;
  }
  for (std::size_t i = 0; i < files.size(); ++i)
    files[i].name = files.size() == 1
                        ? "model.safetensors"
                        : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
  return files;
}

/// Returns the text of model.safetensors.index.json: which tensor is in which file.
std::string index_json(const std::vector<ModelFile>& files) {
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  std::uint64_t bytes = 0;
  for (const ModelFile& file : files) {
    bytes += file.bytes;
    for (const ParameterSpec& spec : file.specs) {
      if (spec.stacked.empty()) map[spec.name] = file.name;
      for (const StackedTensor& part : spec.stacked) map[part.name] = file.name;
    }
  }
  return nlohmann::ordered_json{{"metadata", {{"total_size", bytes}}}, {"weight_map", map}}.dump(
             2) +
         "\n";
}

/// Collective: all ranks write their boxes of the file's tensors into it. Rank 0 has created it.
/// The tensors that are stacked in a parameter follow one another, as its rows do.
void write_model_file(CommonFolder& folder, const ModelFile& file, const std::string& name,
                      const std::string& shown, Device device, const std::vector<TensorPart>& parts,
                      const std::vector<OwnedBox>& all_mine) {
  std::map<std::string, std::pair<const ParameterSpec*, std::uint64_t>> places;  // offsets of data
  std::uint64_t offset = file.header().offset(0);
  for (const ParameterSpec& spec : file.specs) {
    places[spec.name] = {&spec, offset};
    offset += static_cast<std::uint64_t>(spec.shape.elements()) * sizeof(float);
  }
  std::vector<OwnedBox> mine;
  for (const OwnedBox& each : all_mine)
    if (places.contains(parts[each.part].name)) mine.push_back(each);
  folder.write(
      mine.empty() ? "" : name, NewFile::Mode::existing, shown, [&](const WriteAt& write_at) {
        for_each_box(&device, parts, mine, [&](std::size_t i, const std::vector<float>& values) {
          const auto& [spec, begin] = places.at(parts[mine[i].part].name);
          for (const auto& [in_box, in_whole, elements] : Slice{spec->shape}.runs(mine[i].box))
            write_at(begin + static_cast<std::uint64_t>(in_whole) * sizeof(float),
                     values.data() + in_box, static_cast<std::size_t>(elements) * sizeof(float));
        });
        return std::string{};
      });
}

/// Creates the file with its header and its final size.
void begin_file(const std::string& path, const std::string& shown,
                const SafetensorsHeader& header) {
  NewFile file{path, NewFile::Mode::create, shown};
  file.resize(header.file_bytes());
  file.write_at(0, header.bytes().data(), header.bytes().size());
  file.finish();
}

}  // namespace

std::string export_model(Transport& ranks, const std::string& flag, const std::string& path,
                         const Plan& plan, const TrainingState& state, std::uint64_t most_bytes) {
  const std::vector<TensorPart> parts = tensor_parts(state.device, state.parameters, nullptr);
  const Ownership owners = agree_on_owners(ranks, plan, parts, state.unsound);
  if (!owners.unsound.empty()) return owners.unsound;

  const std::string shown = fmt::format("{} {}", flag, path);
  const auto write = [&](const std::string& folder, const ModelFile& file,
                         const std::string& name) {
    if (ranks.rank() == 0) begin_file(folder + "/" + name, shown, file.header());
    CommonFolder common{ranks, folder};
    write_model_file(common, file, name, shown, state.device, parts, owners.mine);
  };
  if (!path.ends_with(".safetensors")) {
    std::optional<NewFolder> fresh;  // on rank 0
    if (ranks.rank() == 0) fresh.emplace(flag, path);
    const std::vector<ModelFile> files = model_files(plan.parameters(), most_bytes);
    for (const ModelFile& file : files) write(fresh ? fresh->partial() : "", file, file.name);
    if (!fresh) return "";
    if (files.size() > 1) fresh->write(index_name, index_json(files));
    fresh->write("config.json", config_json(plan.model()));
    fresh->take_place();
    return "";
  }
  const ModelFile whole = model_files(plan.parameters(), UINT64_MAX).front();
  const std::filesystem::path place = std::filesystem::absolute(path);
  const std::string partial = place.string() + ".partial";
  if (ranks.rank() == 0) ::unlink(partial.c_str());  // a symbolic link itself, not its target
  try {
    write(place.parent_path().string(), whole, place.filename().string() + ".partial");
    if (ranks.rank() != 0) return "";
    if (std::rename(partial.c_str(), place.c_str()) != 0)
      throw UsageError{fmt::format("{}: {}; give the name of a file", shown, std::strerror(errno))};
  } catch (...) {
    if (ranks.rank() == 0) ::unlink(partial.c_str());
    throw;
  }
  sync_folder(place.parent_path().string());
  return "";
}

}  // namespace lockstep
