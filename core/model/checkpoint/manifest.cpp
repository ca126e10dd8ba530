#include "core/model/checkpoint/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "core/base/crc32.h"
#include "core/base/error.h"
#include "core/base/input_file.h"
#include "core/base/json_reader.h"
#include "core/base/printable.h"
#include "core/model/checkpoint/safetensors.h"
#include "core/plan/slice.h"

namespace lockstep {

namespace {

using Use = JsonReader::Field::Use;

constexpr const char* format_name = "lockstep checkpoint";
constexpr const char* files_of_version_1[] = {"model.safetensors", "config.json",
                                              "optimizer.safetensors"};

std::vector<std::int64_t> numbers_from(JsonReader& in, std::int64_t least) {
  std::vector<std::int64_t> numbers;
  in.elements([&] {
    numbers.push_back(in.whole(least));
    if (numbers.size() > Shape::max_rank)
      in.fail(fmt::format("has more than {} dimensions", Shape::max_rank));
  });
  return numbers;
}

std::uint32_t crc32_from(JsonReader& in) {
  const std::string digits = in.string();
  const auto value = Crc32::parse(digits);
  if (!value) in.unfit(fmt::format("\"{}\"", digits), "a CRC-32 of eight hexadecimal digits");
  return *value;
}

SavedBox box_from(JsonReader& in, const std::map<std::string, Manifest::File>& files) {
  SavedBox saved;
  std::vector<std::int64_t> begin;
  in.object({{"begin", [&] { begin = numbers_from(in, 0); }},
             {"extent", [&] { saved.box.extent = shape_of(numbers_from(in, 1)); }},
             {"file", [&] { saved.file = in.string(); }},
             {"crc32", [&] { saved.crc32 = crc32_from(in); }}});
  if (begin.size() != static_cast<std::size_t>(saved.box.extent.rank()))
    in.fail("has a box whose begin and extent have different numbers of dimensions");
  std::ranges::copy(begin, saved.box.begin.begin());
  if (!files.contains(saved.file) || !is_shard_file(saved.file))
    in.fail(fmt::format("has a box in {}, which is no shard in 'files'", excerpt(saved.file)));
  return saved;
}

SavedTensor tensor_from(JsonReader& in, const std::string& name,
                        const std::map<std::string, Manifest::File>& files) {
  SavedTensor tensor{.name = name, .dtype = "F32", .shape = {}, .boxes = {}};
  in.object({{"shape", [&] { tensor.shape = numbers_from(in, 1); }},
             {"boxes", [&] {
                tensor.boxes.reserve(in.count());
                in.elements([&] { tensor.boxes.push_back(box_from(in, files)); });
              }}});
  std::vector<Box> boxes;
  boxes.reserve(tensor.boxes.size());
  for (const SavedBox& saved : tensor.boxes) boxes.push_back(saved.box);
  if (!cover_once(boxes, shape_of(tensor.shape)))
    in.fail("has boxes that do not contain each of its elements exactly once");
  return tensor;
}

/// Reads the list of the files that the tensors name.
std::map<std::string, Manifest::File> files_from(JsonReader& in, std::int64_t version) {
  std::map<std::string, Manifest::File> files;
  in.members([&](const std::string& name) {
    const bool shard = version == 2 && is_shard_file(name);
    if (!shard &&
        (version == 2 ? name != "config.json" : !std::ranges::count(files_of_version_1, name)))
      in.fail("is no file of a checkpoint");
    Manifest::File file;
    in.object(
        {{"bytes", [&] { file.bytes = static_cast<std::uint64_t>(in.whole(0)); }},
         {"crc32", [&] { file.crc32 = crc32_from(in); }, shard ? Use::optional : Use::required}});
    if (!files.emplace(name, file).second) in.fail("is there twice");
  });
  return files;
}

std::vector<SavedTensor> tensors_from(JsonReader& in,
                                      const std::map<std::string, Manifest::File>& files) {
  std::vector<SavedTensor> tensors;
  tensors.reserve(in.count());
  in.members([&](const std::string& name) {
    if (!is_tensor_name(name)) in.fail("is not a tensor's name");
    tensors.push_back(tensor_from(in, name, files));
  });
  std::vector<std::string_view> names;
  for (const SavedTensor& tensor : tensors) names.emplace_back(tensor.name);
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    in.fail(fmt::format("has '{}' twice", *twice));
  return tensors;
}

/// Throws JsonError unless the text is a manifest.
Manifest manifest_from(std::string_view text) {
  Manifest manifest;
  std::int64_t version = 0;
  JsonReader first{text}, files{text}, in{text};
  first.object({{"format",
                 [&] {
                   if (const std::string format = first.string(); format != format_name)
                     first.unfit(fmt::format("\"{}\"", format), format_name);
                 }},
                {"version", [&] { version = first.whole(1, 2); }}});
  first.end();
  files.object({{"files", [&] { manifest.files = files_from(files, version); }}});
  const auto steps = [&](std::int64_t& number) {
    return [&] { number = in.whole(0, Manifest::most_steps); };
  };
  const auto tensors = [&](std::vector<SavedTensor>& list) {
    return [&] { list = tensors_from(in, manifest.files); };
  };
  if (version == 1) {
    in.object({{"step", steps(manifest.step)}});
    if (!manifest.files.contains("model.safetensors"))
      in.fail("has no model.safetensors in 'files'");
    manifest.optimizer_steps = manifest.step;
    return manifest;
  }
  manifest.optimizer_steps = -1;
  in.object({{"step", steps(manifest.step)},
             {"optimizer_steps", steps(manifest.optimizer_steps), Use::optional},
             {"tensors", tensors(manifest.tensors)},
             {"moments", tensors(manifest.moments)}});
  if (manifest.tensors.empty()) in.fail("has no tensors in 'tensors'");
  if (manifest.optimizer_steps < 0) manifest.optimizer_steps = manifest.step;
  if (manifest.optimizer_steps > manifest.step)
    in.fail(fmt::format("has {} 'optimizer_steps', but only {} steps in 'step'",
                        manifest.optimizer_steps, manifest.step));
  return manifest;
}

std::string list_of(std::span<const std::int64_t> numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ","));
}

/// Returns the tensors' JSON, with a line for each.
std::string lines_of(const std::vector<SavedTensor>& tensors) {
  std::vector<std::string> lines;
  for (const SavedTensor& tensor : tensors) {
    std::vector<std::string> boxes;
    for (const auto& [box, file, crc32, name] : tensor.boxes) {
      const auto rank = static_cast<std::size_t>(box.extent.rank());
      boxes.push_back(fmt::format(R"({{"begin":{},"extent":{},"file":"{}","crc32":"{}"}})",
                                  list_of({box.begin.data(), rank}),
                                  list_of(extents_of(box.extent)), file,
                                  Crc32::text_of(crc32.value_or(0))));
    }
    lines.push_back(fmt::format(R"(  "{}": {{"shape":{},"boxes":[{}]}})", tensor.name,
                                list_of(tensor.shape), fmt::join(boxes, ",")));
  }
  return fmt::format("{{\n{}\n }}", fmt::join(lines, ",\n"));
}

std::string lines_of(const std::map<std::string, Manifest::File>& files) {
  std::vector<std::string> lines;
  for (const auto& [name, file] : files)
    lines.push_back(fmt::format(
        R"(  "{}": {{"bytes":{}{}}})", name, file.bytes,
        file.crc32 ? fmt::format(R"(,"crc32":"{}")", Crc32::text_of(*file.crc32)) : ""));
  return fmt::format("{{\n{}\n }}", fmt::join(lines, ",\n"));
}

UsageError damaged(const std::string& folder, const std::string& why) {
  return UsageError{fmt::format(
      "--load {}: its manifest.json is damaged or not Lockstep's: {}; load another checkpoint, or "
      "a single .safetensors file",
      folder, why)};
}

}  // namespace

std::string SavedTensor::name_of(const SavedBox& saved) const {
  if (!saved.name.empty()) return saved.name;
  return saved.crc32 ? shard_name(name, saved.box) : name;
}

std::string shard_name(const std::string& tensor, const Box& box) {
  return tensor + box.text();
}

std::string shard_file(int rank, int ranks) {
  return fmt::format("rank-{:05}-of-{:05}.safetensors", rank, ranks);
}

bool is_shard_file(const std::string& name) {
  // "rank-", a number, "-of-", a number, ".safetensors"; each number has five to nine digits.
  std::string_view rest = name;
  const auto word = [&](std::string_view text) {
    const bool found = rest.starts_with(text);
    if (found) rest.remove_prefix(text.size());
    return found;
  };
  const auto number = [&] {
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    rest.remove_prefix(digits);
    return digits >= 5 && digits <= 9;
  };
  return word("rank-") && number() && word("-of-") && number() && rest == ".safetensors";
}

std::string Manifest::to_json() const {
  std::string text = fmt::format("{{\n \"format\": \"{}\",\n \"version\": {},\n \"step\": {},\n",
                                 format_name, is_sharded() ? 2 : 1, step);
  if (is_sharded()) text += fmt::format(" \"optimizer_steps\": {},\n", optimizer_steps);
  text += " \"files\": " + lines_of(files);
  if (is_sharded())
    text +=
        fmt::format(",\n \"tensors\": {},\n \"moments\": {}", lines_of(tensors), lines_of(moments));
  return text + "\n}\n";
}

std::optional<std::string> manifest_text(const std::string& folder) {
  const std::string path = folder + "/" + manifest_name;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  try {
    return content_of(path);
  } catch (const InputError& unreadable) {
    throw damaged(folder, unreadable.what());
  }
}

Manifest parse_manifest(std::string_view text, const std::string& folder) {
  try {
    return manifest_from(text);
  } catch (const JsonError& error) {
    throw damaged(folder, error.what());
  }
}

}  // namespace lockstep
