#include "core/model/checkpoint/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>

#include "core/base/error.h"
#include "core/base/json_reader.h"
#include "core/base/printable.h"
#include "core/plan/slice.h"
#include "kernels/element.h"

namespace lockstep {

static_assert(std::endian::native == std::endian::little, "safetensors are little endian");

namespace {

constexpr std::uint64_t longest_header = 100'000'000;  // the reference implementation's limit
constexpr std::size_t most_dimensions = 64;            // PyTorch's limit

/// Returns the bytes per element; 0 for a dtype that the format does not define.
std::uint64_t bytes_of(const std::string& dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16") return 2;
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL") return 1;
  return 0;
}

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::f16:
      return "F16";
    case DType::i32:
      break;
  }
  return "I32";
}

/// Returns the dtype of a tensor of 16-bit floating-point elements.
std::optional<DType> narrow_type(const SafetensorsFile::Entry& entry) {
  for (const DType dtype : {DType::bf16, DType::f16})
    if (entry.dtype == dtype_name(dtype)) return dtype;
  return {};
}

/// Returns whether the data has the size that dtype and shape require; false if that size exceeds
/// 64 bits.
bool fits(const SafetensorsFile::Entry& entry) {
  std::uint64_t bytes = bytes_of(entry.dtype);
  for (std::int64_t extent : entry.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) return false;
  }
  return bytes == entry.end - entry.begin;
}

}  // namespace

bool is_tensor_name(const std::string& name) {
  constexpr std::size_t longest = 1000;
  return excerpt(name, longest) == name;
}

void SafetensorsFile::unfit(const std::string& what) const {
  throw UsageError{
      fmt::format("--load {}: {}; give a safetensors file of a GPT-2 or a Llama, as --save or "
                  "save_pretrained writes it",
                  path_, what)};
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    unfit(error ? "can't be read: " + error.message() : "no such file");
  if (!std::filesystem::is_regular_file(path, error)) unfit("is not a file");
  file_.open(path, std::ios::binary);
  if (!file_) unfit(fmt::format("can't be read: {}", std::strerror(errno)));
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (error) unfit("can't be read: " + error.message());

  std::uint64_t header_bytes = 0;
  if (size < sizeof header_bytes)
    unfit(fmt::format("has {} bytes, too few for a header's length", size));
  file_.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
  if (header_bytes > longest_header)
    unfit(
        fmt::format("claims a header of {} bytes; the limit is {}", header_bytes, longest_header));
  if (header_bytes > size - sizeof header_bytes) {
    unfit(fmt::format("is truncated: its header should have {} bytes, but only {} follow",
                      header_bytes, size - sizeof header_bytes));
  }
  std::string header(header_bytes, '\0');
  file_.read(header.data(), static_cast<std::streamsize>(header_bytes));
  if (!file_) unfit("can't be read");
  data_start_ = sizeof header_bytes + header_bytes;
  parse(header, size - data_start_);
}

SafetensorsFile::Entry SafetensorsFile::entry_from(JsonReader& in, const std::string& name) const {
  Entry entry{.name = name, .dtype = {}, .shape = {}};
  std::vector<std::uint64_t> offsets;
  const auto numbers = [&](auto& list, std::int64_t least, std::size_t most) {
    return [&list, &in, least, most] {
      in.elements([&] {
        using Number = typename std::remove_reference_t<decltype(list)>::value_type;
        list.push_back(static_cast<Number>(in.whole(least)));
        if (list.size() > most) in.fail(fmt::format("has more than {} numbers", most));
      });
    };
  };
  in.object({{"dtype", [&] { entry.dtype = in.string(); }},
             {"shape", numbers(entry.shape, 0, most_dimensions)},
             {"data_offsets", numbers(offsets, 0, 2)}});
  if (offsets.size() != 2) in.fail("has 'data_offsets' that are not two numbers");
  entry.begin = offsets[0];
  entry.end = offsets[1];
  return entry;
}

void SafetensorsFile::check(const Entry& entry, std::uint64_t data_bytes) const {
  if (bytes_of(entry.dtype) == 0)
    unfit(fmt::format("tensor {}: unknown dtype {}", entry.name, excerpt(entry.dtype)));
  if (entry.begin > entry.end || entry.end > data_bytes) {
    unfit(fmt::format("tensor {}: its data at [{}, {}) lie outside the file's {} bytes of data",
                      entry.name, entry.begin, entry.end, data_bytes));
  }
  if (!fits(entry)) {
    unfit(fmt::format("tensor {}: {} bytes of data do not match {} of shape [{}]", entry.name,
                      entry.end - entry.begin, entry.dtype, fmt::join(entry.shape, ", ")));
  }
}

void SafetensorsFile::parse(const std::string& header, std::uint64_t data_bytes) try {
  JsonReader in{header};
  entries_.reserve(std::min(in.count(), most_tensors));
  in.members([&](const std::string& name) {
    if (name == "__metadata__") {
      in.skip();
      return;
    }
    if (!is_tensor_name(name))
      unfit(fmt::format("a tensor's name, {}, contains control characters or is too long",
                        excerpt(name)));
    if (entries_.size() == most_tensors)
      unfit(fmt::format("has more than {} tensors", most_tensors));
    entries_.push_back(entry_from(in, name));
    check(entries_.back(), data_bytes);
  });
  in.end();
  std::ranges::sort(entries_, {}, [](const Entry& e) { return std::pair{e.begin, e.end}; });
  for (std::size_t i = 1; i < entries_.size(); ++i) {
    if (entries_[i].begin < entries_[i - 1].end)
      unfit(fmt::format("tensors {} and {} overlap", entries_[i - 1].name, entries_[i].name));
  }
  by_name_.reserve(entries_.size());
  for (const Entry& entry : entries_) by_name_.push_back(&entry);
  std::ranges::sort(by_name_, {}, &Entry::name);
  const auto twice = std::ranges::adjacent_find(by_name_, {}, &Entry::name);
  if (twice != by_name_.end()) unfit(fmt::format("has tensor {} twice", (*twice)->name));
  std::uint64_t end = 0;  // of the tensors so far
  for (const Entry& entry : entries_) {
    if (entry.begin > end)
      unfit(fmt::format("{} bytes before tensor {} belong to no tensor", entry.begin - end,
                        entry.name));
    end = entry.end;
  }
  if (end < data_bytes)
    unfit(fmt::format("{} bytes after its last tensor belong to no tensor", data_bytes - end));
} catch (const JsonError& error) {
  unfit(fmt::format("its header is damaged: {}", error.what()));
}

const SafetensorsFile::Entry* SafetensorsFile::find(const std::string& name) const {
  const auto found = std::ranges::lower_bound(by_name_, name, {}, &Entry::name);
  return found == by_name_.end() || (*found)->name != name ? nullptr : *found;
}

const SafetensorsFile::Entry& SafetensorsFile::entry_of(const std::string& name,
                                                        DType wanted) const {
  const Entry* entry = find(name);
  if (entry == nullptr) unfit(fmt::format("has no tensor {}", name));
  if (entry->dtype != dtype_name(wanted) && !(wanted == DType::f32 && narrow_type(*entry)))
    unfit(fmt::format("tensor {}: is {}, not {}", name, entry->dtype, dtype_name(wanted)));
  return *entry;
}

void SafetensorsFile::read_bytes(const Entry& entry, std::uint64_t offset, View to) {
  file_.seekg(static_cast<std::streamoff>(data_start_ + entry.begin + offset));
  file_.read(static_cast<char*>(to.data), static_cast<std::streamsize>(to.bytes()));
  if (!file_) unfit(fmt::format("tensor {}: can't be read", entry.name));
}

void SafetensorsFile::read(const std::string& name, View to) {
  const Entry& entry = entry_of(name, to.dtype);
  if (entry.shape != extents_of(to.shape)) {
    unfit(fmt::format("tensor {}: has shape [{}], not [{}]", name, fmt::join(entry.shape, ", "),
                      fmt::join(extents_of(to.shape), ", ")));
  }
  read_part(name, 0, to);
}

void SafetensorsFile::read_part(const std::string& name, std::int64_t first, View to) {
  const Entry& entry = entry_of(name, to.dtype);
  const std::uint64_t width = bytes_of(entry.dtype),
                      offset = static_cast<std::uint64_t>(first) * width;
  const auto elements = static_cast<std::uint64_t>(to.elements());
  if (first < 0 || offset + elements * width > entry.end - entry.begin)
    unfit(fmt::format("tensor {}: has no elements [{}, {})", name, first, first + to.elements()));
  const std::optional<DType> narrow = narrow_type(entry);
  if (!narrow || to.dtype != DType::f32) return read_bytes(entry, offset, to);
  std::vector<std::uint16_t> stored(elements);
  read_bytes(entry, offset, View{stored.data(), {to.elements()}, *narrow});
  std::ranges::transform(stored, to.f32(),
                         *narrow == DType::bf16 ? element::from_bf16 : element::from_f16);
}

Crc32 SafetensorsFile::check_values(const std::string& name, bool may_be_negative) {
  const Entry& entry = entry_of(name, DType::f32);
  const auto elements =
      static_cast<std::int64_t>((entry.end - entry.begin) / bytes_of(entry.dtype));
  std::vector<float> values(static_cast<std::size_t>(std::min<std::int64_t>(elements, 1 << 18)));
  Crc32 checksum;
  for (std::int64_t first = 0; first < elements;) {
    const auto n = std::min(elements - first, static_cast<std::int64_t>(values.size()));
    read_part(name, first, View{values.data(), {n}});
    checksum.add(values.data(), static_cast<std::size_t>(n) * sizeof(float));
    const auto end = values.begin() + static_cast<std::ptrdiff_t>(n);
    const auto bad = std::find_if(values.begin(), end, [&](float value) {
      return !std::isfinite(value) || (!may_be_negative && value < 0);
    });
    if (bad != end)
      unfit(
          fmt::format("tensor {}: element {} is {}: the file is damaged, or its training had "
                      "diverged",
                      name, first + (bad - values.begin()), *bad));
    first += n;
  }
  return checksum;
}

SafetensorsHeader::SafetensorsHeader(const std::vector<Entry>& tensors) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  std::uint64_t offset = 0;
  for (const Entry& tensor : tensors) {
    offsets_.push_back(offset);
    const std::uint64_t end =
        offset + static_cast<std::uint64_t>(tensor.shape.elements()) * size_of(tensor.dtype);
    text += fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        tensor.name, dtype_name(tensor.dtype),
                        fmt::join(extents_of(tensor.shape), ","), offset, end);
    offset = end;
  }
  text += '}';
  offsets_.push_back(offset);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // pads the header, to align the data
  const std::uint64_t length = text.size();
  bytes_.assign(reinterpret_cast<const char*>(&length), sizeof length);
  bytes_ += text;
}

}  // namespace lockstep
