#include "core/model/checkpoint/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>

#include "core/base/error.h"
#include "core/plan/slice.h"

namespace lockstep {

namespace {

constexpr const char* format_name = "lockstep checkpoint";
constexpr const char* files_of_version_1[] = {"model.safetensors", "config.json",
                                              "optimizer.safetensors"};

using json = nlohmann::ordered_json;

json to_json(const std::vector<SavedTensor>& tensors) {
  json document = json::object();
  for (const SavedTensor& tensor : tensors) {
    json boxes = json::array();
    for (const SavedBox& saved : tensor.boxes) {
      json begin = json::array(), extent = json::array();
      for (int d = 0; d < saved.box.extent.rank(); ++d) {
        begin.push_back(saved.box.begin[static_cast<std::size_t>(d)]);
        extent.push_back(saved.box.extent[d]);
      }
      boxes.push_back(
          {{"begin", begin}, {"extent", extent}, {"file", saved.file}, {"crc32", saved.crc32}});
    }
    document[tensor.name] = {{"shape", tensor.shape}, {"boxes", boxes}};
  }
  return document;
}

SavedTensor tensor_from(const std::string& name, const json& value) {
  SavedTensor tensor{.name = name,
                     .dtype = "F32",
                     .shape = value.at("shape").get<std::vector<std::int64_t>>(),
                     .boxes = {}};
  std::vector<Box> boxes;
  for (const json& each : value.at("boxes")) {
    const auto begin = each.at("begin").get<std::vector<std::int64_t>>();
    Box& box = boxes.emplace_back();
    box.extent = shape_of(each.at("extent").get<std::vector<std::int64_t>>());
    if (begin.size() != static_cast<std::size_t>(box.extent.rank()))
      throw std::invalid_argument{name};
    std::ranges::copy(begin, box.begin.begin());
    tensor.boxes.push_back({box, each.at("file").get<std::string>(), shard_name(name, box),
                            each.at("crc32").get<std::string>()});
  }
  if (!cover_once(boxes, shape_of(tensor.shape))) throw std::invalid_argument{name};
  return tensor;
}

/// Throws std::exception unless the document is a manifest.
Manifest manifest_from(const json& document) {
  const int version = document.at("version").get<int>();
  if (document.at("format") != format_name || version < 1 || version > 2)
    throw std::invalid_argument{"format"};
  Manifest manifest;
  manifest.step = document.at("step").get<std::int64_t>();
  manifest.optimizer_steps = document.value("optimizer_steps", manifest.step);
  for (const auto& [name, entry] : document.at("files").items()) {
    const bool known =
        version == 1 ? std::ranges::find(files_of_version_1, name) != std::end(files_of_version_1)
                     : name == "config.json" || is_shard_file(name);
    if (!known) throw std::invalid_argument{name};
    manifest.files[name] = {entry.at("bytes").get<std::uint64_t>(),
                            entry.value("crc32", std::string{})};
  }
  if (version == 1) {
    if (!manifest.files.contains("model.safetensors")) throw std::invalid_argument{"files"};
    return manifest;
  }
  for (auto [key, tensors] :
       {std::pair{"tensors", &manifest.tensors}, {"moments", &manifest.moments}})
    for (const auto& [name, value] : document.at(key).items()) {
      tensors->push_back(tensor_from(name, value));
      for (const SavedBox& saved : tensors->back().boxes)
        if (!is_shard_file(saved.file) || !manifest.files.contains(saved.file))
          throw std::invalid_argument{saved.file};
    }
  if (!manifest.is_sharded()) throw std::invalid_argument{"tensors"};
  return manifest;
}

}  // namespace

std::string shard_name(const std::string& tensor, const Box& box) {
  return tensor + box.text();
}

std::string shard_file(int rank, int ranks) {
  return fmt::format("rank-{:05}-of-{:05}.safetensors", rank, ranks);
}

bool is_shard_file(const std::string& name) {
  static const std::regex pattern{R"(rank-\d{5,9}-of-\d{5,9}\.safetensors)"};
  return std::regex_match(name, pattern);
}

namespace {

/// Returns an object's JSON with a line for each member.
std::string lines_of(const json& object) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : object.items())
    lines.push_back(fmt::format("  {}: {}", json(name).dump(), value.dump()));
  return fmt::format("{{\n{}\n }}", fmt::join(lines, ",\n"));
}

}  // namespace

std::string Manifest::to_json() const {
  json listed = json::object();
  for (const auto& [name, file] : files) {
    listed[name] = {{"bytes", file.bytes}};
    if (!file.crc32.empty()) listed[name]["crc32"] = file.crc32;
  }
  std::string text = fmt::format("{{\n \"format\": \"{}\",\n \"version\": {},\n \"step\": {},\n",
                                 format_name, is_sharded() ? 2 : 1, step);
  if (is_sharded()) text += fmt::format(" \"optimizer_steps\": {},\n", optimizer_steps);
  text += " \"files\": " + lines_of(listed);
  if (is_sharded())
    for (const auto& [key, of] : {std::pair{"tensors", &tensors}, {"moments", &moments}})
      text += fmt::format(",\n \"{}\": {}", key, lines_of(lockstep::to_json(*of)));
  return text + "\n}\n";
}

std::optional<Manifest> read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + manifest_name;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  try {
    if (!std::filesystem::is_regular_file(path)) throw std::invalid_argument{path};
    std::ifstream file{path, std::ios::binary};
    if (!file)
      throw UsageError{
          fmt::format("--load {}: its manifest.json can't be read: {}; load another one", folder,
                      std::strerror(errno))};
    return manifest_from(json::parse(file));
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception&) {
    throw UsageError{
        fmt::format("--load {}: its manifest.json is damaged or not Lockstep's, so these files are "
                    "not one complete checkpoint; load another one, or a single .safetensors file",
                    folder)};
  }
}

}  // namespace lockstep
