#include "core/plan/stored_slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <unordered_map>

namespace lockstep {

namespace {

constexpr int most_blocks = 100'000;
constexpr std::size_t most_boxes = 10'000;  // of one tensor
constexpr std::int64_t largest_extent = std::int64_t{1} << 40;

/// A name with one numeric part, such as "transformer.h.12.ln_1.weight".
struct NumberedName {
  std::string_view before, after;
  int number = 0;
};

/// Returns the first part between dots that is a number.
std::optional<NumberedName> numbered(std::string_view name) {
  for (std::size_t start = 0; start < name.size();) {
    const std::size_t end = std::min(name.find('.', start), name.size());
    int number = 0;
    const char* last = name.data() + end;
    const auto [stop, error] = std::from_chars(name.data() + start, last, number);
    if (error == std::errc{} && stop == last && number >= 0)
      return NumberedName{name.substr(0, start), name.substr(end), number};
    start = end + 1;
  }
  return std::nullopt;
}

void append_box(std::string& text, const Box& box) {
  auto out = std::back_inserter(text);
  for (int i = 0; i < box.extent.rank(); ++i)
    fmt::format_to(out, "{},", box.begin[static_cast<std::size_t>(i)]);
  for (int i = 0; i < box.extent.rank(); ++i)
    fmt::format_to(out, "{}{}", box.extent[i], i + 1 < box.extent.rank() ? "," : "");
}

/// Returns all fields after the blocks.
std::string fields_of(const StoredSlice& slice) {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, R"("shape":[{}],"boxes":[)", fmt::join(extents_of(slice.whole), ","));
  for (std::size_t i = 0; i < slice.boxes.size(); ++i) {
    text += i > 0 ? ",[" : "[";
    append_box(text, slice.boxes[i]);
    text += ']';
  }
  text += R"(],"bytes":{)";
  const char* separator = "";
  for (int k = 0; k < stored_kind_count; ++k) {
    const auto kind = static_cast<StoredKind>(k);
    if (!slice.has(kind)) continue;
    fmt::format_to(out, R"({}"{}":{})", separator, name_of(category_of(kind)),
                   slice.bytes_per_element[static_cast<std::size_t>(k)]);
    separator = ",";
  }
  text += "}}";
  return text;
}

/// Returns the list's numbers as ranges: {0, 1, 2, 5} becomes [[0,2],[5,5]].
std::string ranges_of(std::vector<int> numbers) {
  std::ranges::sort(numbers);
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t next = i + 1;
    while (next < numbers.size() && numbers[next] - numbers[next - 1] <= 1) ++next;
    fmt::format_to(std::back_inserter(text), "{}[{},{}]", text.empty() ? "" : ",", numbers[i],
                   numbers[next - 1]);
    i = next;
  }
  return text;
}

/// Returns the integers of a list, or nothing if it is not a list of nonnegative integers.
std::optional<std::vector<std::int64_t>> natural_numbers(const nlohmann::json& list) {
  if (!list.is_array()) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const nlohmann::json& each : list) {
    if (!each.is_number_integer()) return std::nullopt;
    const auto number = each.get<std::int64_t>();
    if (number < 0 || number > largest_extent) return std::nullopt;
    numbers.push_back(number);
  }
  return numbers;
}

std::optional<Box> stored_box_from(const nlohmann::json& list, const Shape& whole) {
  const auto numbers = natural_numbers(list);
  const auto rank = static_cast<std::size_t>(whole.rank());
  if (!numbers || numbers->size() != 2 * rank) return std::nullopt;
  Box box{.begin = {}, .extent = shape_of(std::span{*numbers}.subspan(rank))};
  std::copy_n(numbers->begin(), rank, box.begin.begin());
  for (int i = 0; i < whole.rank(); ++i)
    if (box.end(i) > whole[i]) return std::nullopt;
  return box;
}

std::optional<StoredSlice> stored_slice_from(const nlohmann::json& entry) {
  const auto field = [&](const char* name) -> const nlohmann::json& {
    static const nlohmann::json none;
    const auto found = entry.find(name);
    return found == entry.end() ? none : *found;
  };
  if (!entry.is_object() || !field("name").is_string() || field("name") == "") return std::nullopt;
  const auto extents = natural_numbers(field("shape"));
  if (!extents || extents->empty() || extents->size() > Shape::max_rank) return std::nullopt;
  StoredSlice slice{
      .tensor = field("name").get<std::string>(), .whole = shape_of(*extents), .boxes = {}};
  std::int64_t elements = 1;
  for (const std::int64_t extent : *extents)
    if (extent == 0 || __builtin_mul_overflow(elements, extent, &elements) ||
        elements > largest_extent)
      return std::nullopt;
  const nlohmann::json& boxes = field("boxes");
  if (!boxes.is_array() || boxes.size() > most_boxes) return std::nullopt;
  std::int64_t stored = 0;
  for (const nlohmann::json& each : boxes) {
    const auto box = stored_box_from(each, slice.whole);
    if (!box) return std::nullopt;
    if (box->extent.elements() > 0) slice.boxes.push_back(*box);
    stored += box->extent.elements();
    if (stored > largest_extent) return std::nullopt;  // more than any whole tensor has
  }
  std::int64_t blocks = 0;
  if (const nlohmann::json& ranges = field("blocks"); ranges.is_array())
    for (const nlohmann::json& each : ranges) {
      const auto range = natural_numbers(each);
      if (!range || range->size() != 2 || (*range)[0] > (*range)[1]) return std::nullopt;
      blocks += (*range)[1] - (*range)[0] + 1;
      if (blocks > most_blocks || (*range)[1] > most_blocks) return std::nullopt;
      slice.blocks.emplace_back(static_cast<int>((*range)[0]), static_cast<int>((*range)[1]));
    }
  for (int k = 0; k < stored_kind_count; ++k) {
    const auto category = category_of(static_cast<StoredKind>(k));
    const nlohmann::json& bytes = field("bytes");
    if (!bytes.is_object() || !bytes.contains(name_of(category))) continue;
    const nlohmann::json& number = bytes[name_of(category)];
    if (number.is_number_integer())
      slice.bytes_per_element[static_cast<std::size_t>(k)] =
          std::clamp(number.get<std::int64_t>(), std::int64_t{0}, std::int64_t{1024});
  }
  return slice;
}

}  // namespace

std::string module_of(std::string_view tensor) {
  const auto parts = numbered(tensor);
  return std::string{tensor.substr(0, parts ? tensor.size() - parts->after.size() : tensor.size())};
}

std::int64_t StoredSlice::elements() const {
  std::int64_t sum = 0;
  for (const Box& box : boxes) sum += box.extent.elements();
  return sum;
}

std::vector<std::string> StoredSlice::tensors() const {
  const std::size_t star = tensor.find('*');
  if (star == std::string::npos) return {tensor};
  std::vector<std::string> names;
  for (const auto& [first, last] : blocks)
    for (int i = first; i <= last; ++i)
      names.push_back(tensor.substr(0, star) + std::to_string(i) + tensor.substr(star + 1));
  return names;
}

bool StoredSlice::is_of(std::string_view name) const {
  const std::size_t star = tensor.find('*');
  if (star == std::string::npos) return name == tensor;
  const auto parts = numbered(name);
  return parts && parts->before == std::string_view{tensor}.substr(0, star) &&
         parts->after == std::string_view{tensor}.substr(star + 1) &&
         std::ranges::any_of(blocks, [&](const auto& range) {
           return range.first <= parts->number && parts->number <= range.second;
         });
}

void StoredSlices::add(const std::string& tensor, const Slice& slice, StoredKind kind,
                       std::int64_t bytes_per_element) {
  std::vector<Box> boxes;
  for (const Slice::Piece& piece : slice.pieces()) boxes.push_back(piece.box);
  if (boxes.empty()) return;
  for (auto each = all_.rbegin(); each != all_.rend() && each->tensor == tensor; ++each)
    if (each->boxes == boxes) {
      each->bytes_per_element[static_cast<std::size_t>(kind)] = bytes_per_element;
      return;
    }
  StoredSlice& fresh = all_.emplace_back(
      StoredSlice{.tensor = tensor, .whole = slice.whole(), .boxes = std::move(boxes)});
  fresh.bytes_per_element[static_cast<std::size_t>(kind)] = bytes_per_element;
}

std::string StoredSlices::json(std::size_t most) const {
  struct Entry {
    std::string name;
    const StoredSlice* first;
    std::vector<int> blocks;
  };
  std::vector<Entry> entries;
  std::unordered_multimap<std::string, std::size_t> found;  // entries by name
  std::string name;
  for (const StoredSlice& slice : all_) {
    const auto parts = numbered(slice.tensor);
    if (parts) {
      name.assign(parts->before);
      name += '*';
      name += parts->after;
    } else {
      name = slice.tensor;
    }
    const auto [begin, end] = found.equal_range(name);
    const auto same = std::find_if(begin, end, [&](const auto& each) {
      const StoredSlice& other = *entries[each.second].first;
      return other.boxes == slice.boxes && other.whole == slice.whole &&
             other.bytes_per_element == slice.bytes_per_element;
    });
    if (same == end) {
      found.emplace(name, entries.size());
      entries.push_back({name, &slice, {}});
      if (parts) entries.back().blocks.push_back(parts->number);
    } else if (parts) {
      entries[same->second].blocks.push_back(parts->number);
    }
  }
  std::string text = R"({"tensors":[)";
  std::size_t written = 0;
  for (const Entry& entry : entries) {
    std::string line = fmt::format(R"({{"name":"{}",)", entry.name);
    if (!entry.blocks.empty()) line += fmt::format(R"("blocks":[{}],)", ranges_of(entry.blocks));
    line += fields_of(*entry.first);
    if (text.size() + line.size() > most) break;
    if (written++ > 0) text += ',';
    text += line;
  }
  text += ']';
  if (written < entries.size()) text += fmt::format(R"(,"omitted":{})", entries.size() - written);
  return text + '}';
}

ReadSlices read_slices(std::string_view text) {
  ReadSlices read;
  // ordered_json would compare each key with all others.
  const auto document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return read;
  if (const auto tensors = document.find("tensors");
      tensors != document.end() && tensors->is_array())
    for (const nlohmann::json& entry : *tensors)
      if (auto slice = stored_slice_from(entry)) read.slices.push_back(std::move(*slice));
  if (const auto omitted = document.find("omitted");
      omitted != document.end() && omitted->is_number_integer())
    read.omitted = std::clamp(omitted->get<std::int64_t>(), std::int64_t{0}, largest_extent);
  return read;
}

}  // namespace lockstep
