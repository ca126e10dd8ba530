#include "core/model/checkpoint/saved_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/model/checkpoint/checkpoint_folder.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

constexpr const char* model_name = "model.safetensors";
constexpr const char* moments_name = "optimizer.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";  // as transformers names it

UsageError unusable(const std::string& path, const std::string& why) {
  return UsageError{
      fmt::format("--load {}: {}, so these files are not one complete checkpoint; load another one",
                  path, why)};
}

}  // namespace

SavedTensors::SavedTensors(const std::string& path) : path_(path) {
  if (path.ends_with(".safetensors")) {
    add_whole_tensors(path, tensors_);
    return;
  }
  folder_ = folder_to_load(path);
  manifest_ = read_manifest(folder_);
  if (manifest_ && manifest_->is_sharded()) {
    tensors_ = manifest_->tensors;
    moments_ = manifest_->moments;
    return;
  }
  std::error_code error;
  const bool has_moments = fs::exists(folder_ + "/" + moments_name, error);
  if (has_moments && !(manifest_ && manifest_->files.contains(moments_name)))
    throw UsageError{fmt::format(
        "--load {}: {}, so nothing shows that {} belongs to the weights; load only the weights, by "
        "naming its {}",
        path,
        manifest_ ? fmt::format("its manifest.json lists no {}", moments_name)
                  : "it has no manifest.json",
        moments_name, model_name)};
  const std::string index = folder_ + "/" + index_name;
  if (!fs::exists(folder_ + "/" + model_name, error) && fs::exists(index, error))
    read_index(index);
  else
    add_whole_tensors(model_name, tensors_);
  if (has_moments) add_whole_tensors(moments_name, moments_);
}

void SavedTensors::add_whole_tensors(const std::string& file, std::vector<SavedTensor>& to) {
  for (const SafetensorsFile::Entry& entry : open(file).entries()) {
    // A tensor with more dimensions than a Shape has is some other program's: it has no box.
    SavedTensor tensor{entry.name, entry.dtype, entry.shape, {}};
    const Box whole{
        .begin = {},
        .extent = entry.shape.size() <= Shape::max_rank ? shape_of(entry.shape) : Shape{}};
    tensor.boxes.push_back({whole, file, entry.name, ""});
    to.push_back(std::move(tensor));
  }
}

void SavedTensors::read_index(const std::string& index) {
  std::set<std::string> files;
  try {
    std::ifstream text{index, std::ios::binary};
    const auto document = nlohmann::ordered_json::parse(text);
    for (const auto& [name, file] : document.at("weight_map").items()) {
      const auto file_name = file.get<std::string>();
      if (file_name.find('/') != std::string::npos) throw std::invalid_argument{file_name};
      files.insert(file_name);
    }
  } catch (const std::exception&) {
    throw unusable(path_, fmt::format("its {} is damaged", index_name));
  }
  for (const std::string& file : files) add_whole_tensors(file, tensors_);
}

const SavedTensor* SavedTensors::find(const std::string& name) const {
  const auto found = std::ranges::find(tensors_, name, &SavedTensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

const SavedTensor* SavedTensors::find_moment(const std::string& name) const {
  const auto found = std::ranges::find(moments_, name, &SavedTensor::name);
  return found == moments_.end() ? nullptr : &*found;
}

std::optional<std::int64_t> SavedTensors::optimizer_steps() {
  if (moments_.empty()) return {};
  if (manifest_->is_sharded()) return manifest_->optimizer_steps;
  std::int32_t steps = 0;
  open(moments_name).read("steps", View{&steps, {1}, DType::i32});
  return steps;
}

std::string SavedTensors::path_of(const std::string& file) const {
  return folder_.empty() ? file : folder_ + "/" + file;
}

SafetensorsFile& SavedTensors::open(const std::string& file) {
  auto& opened = files_[file];
  if (!opened) {
    if (manifest_) check_file(file, manifest_->files.at(file));
    opened = std::make_unique<SafetensorsFile>(path_of(file));
  }
  return *opened;
}

std::string SavedTensors::contents_of(const std::string& file) const {
  std::string first;
  int others = -1;
  for (const auto* tensors : {&tensors_, &moments_})
    for (const SavedTensor& tensor : *tensors)
      for (const SavedBox& saved : tensor.boxes)
        if (saved.file == file && ++others == 0) first = saved.name;
  if (first.empty()) return "";
  return others == 0 ? fmt::format(" (tensor {})", first)
                     : fmt::format(" (tensor {} and {} others)", first, others);
}

void SavedTensors::check_file(const std::string& name, const Manifest::File& expected) const {
  const std::string path = path_of(name);
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    throw unusable(path_, fmt::format("{}{} is missing", name, contents_of(name)));
  const std::uint64_t bytes = fs::file_size(path, error);
  if (error || bytes != expected.bytes)
    throw unusable(path_, fmt::format("{}{} has {} bytes, but manifest.json says {}", name,
                                      contents_of(name), bytes, expected.bytes));
}

void SavedTensors::read(const SavedTensor& tensor, const Slice& slice, float* values) {
  const Shape& whole = slice.whole();
  for (const SavedBox& saved : tensor.boxes) {
    // An unsharded tensor may be stored flat.
    const bool flat = tensor.boxes.size() == 1;
    for (const auto& [in_box, in_local, elements] :
         flat ? slice.runs({.begin = {}, .extent = whole}) : slice.runs(saved.box)) {
      SafetensorsFile& file = open(saved.file);
      file.read_part(saved.name, in_box, View{values + in_local, {elements}});
    }
  }
}

void SavedTensors::check_value(const SavedTensor& tensor, const SavedBox& saved,
                               bool may_be_negative) {
  SafetensorsFile& file = open(saved.file);
  if (!saved.crc32.empty()) {
    const SafetensorsFile::Entry* entry = file.find(saved.name);
    if (entry == nullptr)
      throw unusable(path_, fmt::format("{} has no tensor {}", saved.file, saved.name));
    if (entry->dtype != tensor.dtype || entry->shape != extents_of(saved.box.extent))
      throw unusable(path_, fmt::format("tensor {} of {} is not the box that manifest.json says",
                                        saved.name, saved.file));
  }
  const Crc32 checksum = file.check_values(saved.name, may_be_negative);
  if (!saved.crc32.empty() && checksum.text() != saved.crc32)
    throw unusable(path_,
                   fmt::format("tensor {} of {} has the CRC-32 {}, but manifest.json says {}",
                               saved.name, saved.file, checksum.text(), saved.crc32));
}

void SavedTensors::check_values() {
  if (manifest_)
    for (const auto& [name, expected] : manifest_->files) {
      check_file(name, expected);
      if (expected.crc32.empty()) continue;
      Crc32 checksum;
      std::ifstream file{path_of(name), std::ios::binary};
      std::string piece(1 << 20, '\0');
      while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0)
        checksum.add(piece.data(), static_cast<std::size_t>(file.gcount()));
      if (checksum.text() != expected.crc32)
        throw unusable(path_, fmt::format("{} has the CRC-32 {}, but manifest.json says {}", name,
                                          checksum.text(), expected.crc32));
    }
  for (const SavedTensor& tensor : tensors_)
    for (const SavedBox& saved : tensor.boxes)
      if (tensor.dtype == "F32") check_value(tensor, saved, /*may_be_negative=*/true);
  for (const SavedTensor& tensor : moments_)
    for (const SavedBox& saved : tensor.boxes)
      if (tensor.dtype == "F32")
        check_value(tensor, saved, /*may_be_negative=*/!tensor.name.ends_with(".variance"));
}

}  // namespace lockstep
