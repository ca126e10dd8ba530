#include "core/model/checkpoint/saved_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/base/error.h"
#include "core/base/input_file.h"
#include "core/base/json_reader.h"
#include "core/model/checkpoint/checkpoint_folder.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

constexpr const char* model_name = "model.safetensors";
constexpr const char* moments_name = "optimizer.safetensors";

UsageError unusable(const std::string& path, const std::string& why) {
  return UsageError{
      fmt::format("--load {}: {}, so these files are not one complete checkpoint; load another one",
                  path, why)};
}

}  // namespace

std::string SavedTensors::state_of(const std::string& manifest) {
  Crc32 checksum;
  checksum.add(manifest.data(), manifest.size());
  return fmt::format("{} bytes, CRC-32 {}", manifest.size(), checksum.text());
}

SavedTensors::SavedTensors(const std::string& path) : path_(path) {
  if (path.ends_with(".safetensors")) {
    add_whole_tensors(path, tensors_);
    return;
  }
  folder_ = folder_to_load(path);
  if (const auto text = manifest_text(folder_)) {
    manifest_ = parse_manifest(*text, path);
    state_ = state_of(*text);
    if (manifest_->is_sharded()) return;
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
    // A tensor with more dimensions than a Shape supports comes from another program, and gets no
    // box.
    SavedTensor tensor{entry.name, entry.dtype, entry.shape, {}};
    const Box whole{
        .begin = {},
        .extent = entry.shape.size() <= Shape::max_rank ? shape_of(entry.shape) : Shape{}};
    tensor.boxes.push_back({whole, file});
    to.push_back(std::move(tensor));
  }
}

void SavedTensors::read_index(const std::string& index) {
  std::set<std::string> files;
  try {
    const std::string text = content_of(index);
    JsonReader in{text};
    in.object({{"weight_map", [&] {
                  in.members([&](const std::string&) {
                    const std::string file = in.string();
                    if (file.find('/') != std::string::npos || !file.ends_with(".safetensors"))
                      in.unfit('"' + file + '"', "the name of a .safetensors file");
                    files.insert(file);
                  });
                }}});
    in.end();
  } catch (const std::runtime_error& error) {  // InputError or JsonError
    throw unusable(path_, fmt::format("its {} is damaged: {}", index_name, error.what()));
  }
  for (const std::string& file : files) add_whole_tensors(file, tensors_);
}

const SavedTensor* SavedTensors::find(const std::string& name) const {
  const auto found = std::ranges::find(tensors(), name, &SavedTensor::name);
  return found == tensors().end() ? nullptr : &*found;
}

const SavedTensor* SavedTensors::find_moment(const std::string& name) const {
  const auto found = std::ranges::find(moments(), name, &SavedTensor::name);
  return found == moments().end() ? nullptr : &*found;
}

std::optional<std::int64_t> SavedTensors::optimizer_steps() {
  if (moments().empty()) return {};
  if (manifest_->is_sharded()) return manifest_->optimizer_steps;
  std::int32_t steps = 0;
  open(moments_name).read("steps", View{&steps, {1}, DType::i32});
  if (steps < 0 || steps > Manifest::most_steps)
    throw unusable(path_, fmt::format("'steps' in its {} is {}, not a number from 0 to {}",
                                      moments_name, steps, Manifest::most_steps));
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
  for (const auto* list : {&tensors(), &moments()})
    for (const SavedTensor& tensor : *list)
      for (const SavedBox& saved : tensor.boxes)
        if (saved.file == file && ++others == 0) first = tensor.name_of(saved);
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
    const std::string name = tensor.name_of(saved);
    for (const auto& [in_box, in_local, elements] :
         flat ? slice.runs({.begin = {}, .extent = whole}) : slice.runs(saved.box)) {
      SafetensorsFile& file = open(saved.file);
      file.read_part(name, in_box, View{values + in_local, {elements}});
    }
  }
}

void SavedTensors::check_value(const SavedTensor& tensor, const SavedBox& saved,
                               bool may_be_negative) {
  SafetensorsFile& file = open(saved.file);
  const std::string name = tensor.name_of(saved);
  if (saved.crc32) {
    const SafetensorsFile::Entry* entry = file.find(name);
    if (entry == nullptr)
      throw unusable(path_, fmt::format("{} has no tensor {}", saved.file, name));
    if (entry->dtype != tensor.dtype || entry->shape != extents_of(saved.box.extent))
      throw unusable(path_, fmt::format("tensor {} of {} is not the box that manifest.json says",
                                        name, saved.file));
  }
  const Crc32 checksum = file.check_values(name, may_be_negative);
  if (saved.crc32 && checksum.value() != *saved.crc32)
    throw unusable(path_,
                   fmt::format("tensor {} of {} has the CRC-32 {}, but manifest.json says {}", name,
                               saved.file, checksum.text(), Crc32::text_of(*saved.crc32)));
}

void SavedTensors::check_values() {
  if (manifest_)
    for (const auto& [name, expected] : manifest_->files) {
      check_file(name, expected);
      if (!expected.crc32) continue;
      Crc32 checksum;
      std::ifstream file{path_of(name), std::ios::binary};
      std::string piece(1 << 20, '\0');
      while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0)
        checksum.add(piece.data(), static_cast<std::size_t>(file.gcount()));
      if (checksum.value() != *expected.crc32)
        throw unusable(path_, fmt::format("{} has the CRC-32 {}, but manifest.json says {}", name,
                                          checksum.text(), Crc32::text_of(*expected.crc32)));
    }
  for (const SavedTensor& tensor : tensors())
    for (const SavedBox& saved : tensor.boxes)
      if (tensor.dtype == "F32" || tensor.dtype == "BF16" || tensor.dtype == "F16")
        check_value(tensor, saved, /*may_be_negative=*/true);
  for (const SavedTensor& tensor : moments())
    for (const SavedBox& saved : tensor.boxes)
      if (tensor.dtype == "F32")
        check_value(tensor, saved, /*may_be_negative=*/!tensor.name.ends_with(".variance"));
}

}  // namespace lockstep
