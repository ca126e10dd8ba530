#include "core/model/checkpoint/ownership.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <tuple>

#include "core/base/crc32.h"
#include "core/base/error.h"
#include "core/comm/transport/control.h"
#include "core/device/host_copy.h"

namespace lockstep {

namespace {

using json = nlohmann::ordered_json;

json to_json(const Box& box) {
  const auto rank = static_cast<std::ptrdiff_t>(box.extent.rank());
  return {std::vector(box.begin.begin(), box.begin.begin() + rank), extents_of(box.extent)};
}
Box box_from(const json& value) {
  Box box{.begin = {}, .extent = shape_of(value[1].get<std::vector<std::int64_t>>())};
  std::ranges::copy(value[0].get<std::vector<std::int64_t>>(), box.begin.begin());
  return box;
}

std::string to_bytes(const json& document) {
  std::string bytes;
  json::to_cbor(document, nlohmann::detail::output_adapter<char>(bytes));
  return bytes;
}

std::string checksum_of(std::span<const float> values) {
  Crc32 checksum;
  checksum.add(values.data(), values.size_bytes());
  return checksum.text();
}

/// Describes the parts that a rank holds: each part's name, order, kind and shape, and its boxes
/// with their checksums. Sets `unsound` if a value is not a finite number.
json description(const std::vector<TensorPart>& parts, std::string& unsound) {
  json list = json::array();
  for (const TensorPart& part : parts) {
    const std::vector<float> values = part.read();
    json boxes = json::array();
    for (const Slice::Piece& piece : part.slice.pieces()) {
      const std::vector<float> elements = part.elements(piece.box, values);
      boxes.push_back({to_json(piece.box), checksum_of(elements)});
      const auto bad = std::ranges::find_if_not(elements, [](float x) { return std::isfinite(x); });
      if (bad != elements.end() && unsound.empty())
        unsound = fmt::format("{} has an element that is {}", part.name, *bad);
    }
    list.push_back(
        {part.name, part.order, part.moment, extents_of(part.slice.whole()), std::move(boxes)});
  }
  return list;
}

/// A tensor, as its holders describe it to rank 0.
struct Known {
  Shape shape;
  std::string name;
  bool moment = false;
  struct Holder {
    int rank;
    std::size_t part;
    std::vector<Box> boxes;
    std::vector<std::string> checksums;  ///< by box
  };
  std::vector<Holder> holders;  ///< in ascending order of ranks

  void check_replicas() const {
    for (std::size_t i = 1; i < holders.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (holders[i].boxes == holders[j].boxes) {
          if (holders[i].checksums != holders[j].checksums)
            throw RunError(
                fmt::format("replicas differ: rank {} and a lower rank have different values of {}",
                            holders[i].rank, name));
          break;
        }
  }
};

}  // namespace

std::vector<float> TensorPart::elements(const Box& box, const std::vector<float>& values) const {
  std::vector<float> result(static_cast<std::size_t>(box.extent.elements()));
  for (const auto& [in_box, in_local, count] : slice.runs(box))
    std::copy_n(values.begin() + in_local, count, result.begin() + in_box);
  return result;
}

std::vector<TensorPart> tensor_parts(Device device, const std::vector<Parameter*>& parameters,
                                     const AdamW* optimizer) {
  std::vector<TensorPart> parts;
  for (const Parameter* parameter : parameters)
    parts.push_back({.name = parameter->name,
                     .order = parameter->order,
                     .moment = false,
                     .slice = parameter->slice,
                     .read = [=] { return parameter->f32_values(device); }});
  if (optimizer == nullptr) return parts;
  for (const auto& [parameter, momentum, variance] : optimizer->moments())
    for (const auto& [suffix, view] :
         {std::pair{".momentum", momentum}, std::pair{".variance", variance}})
      parts.push_back({.name = parameter->name + suffix,
                       .order = parameter->order,
                       .moment = true,
                       .slice = parameter->slice,
                       .read = [=] { return to_host(device, view); }});
  return parts;
}

Ownership agree_on_owners(Transport& ranks, const Plan& plan, const std::vector<TensorPart>& parts,
                          const std::string& unsound) {
  Ownership result{.mine = {}, .tensors = {}, .moments = {}, .unsound = unsound};
  const json described = description(parts, result.unsound);
  const auto all = gather_to_root(ranks, to_bytes({result.unsound, described}));

  std::vector<std::string> answers;
  if (ranks.rank() == 0) {
    std::string why;
    std::map<std::tuple<bool, int, std::string>, Known> tensors;
    std::vector<json> owned(all.size(), json::array());
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const json theirs = json::from_cbor(all[rank]);
      if (why.empty()) why = theirs[0].get<std::string>();
      for (std::size_t i = 0; i < theirs[1].size(); ++i) {
        const json& part = theirs[1][i];
        Known& known = tensors[{part[2], part[1], part[0]}];
        known.name = part[0];
        known.moment = part[2];
        known.shape = shape_of(part[3].get<std::vector<std::int64_t>>());
        auto& holder = known.holders.emplace_back(static_cast<int>(rank), i);
        for (const json& box : part[4]) {
          holder.boxes.push_back(box_from(box[0]));
          holder.checksums.push_back(box[1]);
        }
      }
    }
    if (!why.empty()) tensors.clear();  // nothing will be written
    for (const auto& [key, known] : tensors) {
      known.check_replicas();
      SavedTensor saved{known.name, "F32", extents_of(known.shape), {}};
      std::vector<std::vector<Box>> boxes;
      for (const Known::Holder& holder : known.holders) boxes.push_back(holder.boxes);
      const std::vector<std::vector<Box>> firsts = first_holders(boxes);
      std::vector<Box> every;
      for (std::size_t h = 0; h < firsts.size(); ++h) {
        const Known::Holder& holder = known.holders[h];
        for (const Box& box : firsts[h]) {
          // A box that only this rank holds, or of which it is the first holder, has a checksum.
          const auto whole = std::ranges::find(holder.boxes, box);
          const std::string crc32 =
              whole != holder.boxes.end()
                  ? holder.checksums[static_cast<std::size_t>(whole - holder.boxes.begin())]
                  : "";
          owned[static_cast<std::size_t>(holder.rank)].push_back(
              {holder.part, to_json(box), crc32});
          saved.boxes.push_back({box, shard_file(holder.rank, ranks.size())});
          every.push_back(box);
        }
      }
      if (!cover_once(every, known.shape))
        throw RunError(fmt::format("no rank has all elements of {}", known.name));
      (known.moment ? result.moments : result.tensors).push_back(std::move(saved));
    }
    for (const ParameterSpec& spec : plan.parameters())
      if (why.empty() && !std::ranges::count(result.tensors, spec.name, &SavedTensor::name))
        throw RunError(fmt::format("no rank has {}", spec.name));
    for (json& each : owned) answers.push_back(to_bytes({why, std::move(each)}));
  }

  const json mine = json::from_cbor(scatter_from_root(ranks, answers));
  result.unsound = mine[0].get<std::string>();
  for (const json& each : mine[1])
    result.mine.push_back({each[0].get<std::size_t>(), box_from(each[1]), each[2]});
  return result;
}

}  // namespace lockstep
