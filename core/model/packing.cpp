#include "core/model/packing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/model/philox.h"

namespace lockstep {

Documents packed_documents(std::uint64_t seed, int step, std::uint64_t sample, int sequence,
                           int mean) {
  if (mean == 0) return {sequence};
  const RandomStream random{seed, Purpose::documents, static_cast<std::uint32_t>(step)};
  Documents documents;
  for (int left = sequence; left > 0; left -= documents.back()) {
    const auto z = static_cast<double>(random.normals((sample << 24) + documents.size())[0]);
    const double length = std::round(mean * std::exp(z - 0.5));  // E[exp(z)] = exp(1/2)
    documents.push_back(static_cast<int>(std::clamp(length, 1.0, static_cast<double>(left))));
  }
  return documents;
}

namespace {

/// Appends the positions, one by one.
void append(const std::vector<Positions>& ranges, std::vector<int>& to) {
  for (const auto& [begin, end] : ranges)
    for (int position = begin; position < end; ++position) to.push_back(position);
}

/// Returns the position at which each position's document begins.
std::vector<int> beginnings(const Documents& documents) {
  std::vector<int> begin;
  for (const int length : documents)
    begin.insert(begin.end(), static_cast<std::size_t>(length), static_cast<int>(begin.size()));
  return begin;
}

/// Appends the rows of `keys` that each of `queries` sees; both are ascending positions. Returns
/// the number of pairs.
std::int64_t append_visible(const std::vector<int>& begin, const std::vector<int>& queries,
                            const std::vector<int>& keys, std::vector<std::int32_t>& to) {
  std::int64_t pairs = 0;
  for (const int query : queries) {
    const auto first = std::ranges::lower_bound(keys, begin[static_cast<std::size_t>(query)]);
    const auto last = std::upper_bound(first, keys.end(), query);
    to.push_back(static_cast<std::int32_t>(first - keys.begin()));
    to.push_back(static_cast<std::int32_t>(last - keys.begin()));
    pairs += last - first;
  }
  return pairs;
}

}  // namespace

void add_masks(Batch& batch, std::vector<Documents> documents, const ContextShare& share) {
  auto masks = std::make_unique<DocumentMasks>();
  const auto b = static_cast<std::int64_t>(documents.size());
  const std::int64_t s = std::accumulate(documents[0].begin(), documents[0].end(), 0);
  const auto mask_of = [&](std::int64_t queries, const auto& positions_of) {
    DocumentMask mask{View{nullptr, {b, queries, 2}, DType::i32}, 0};
    for (const Documents& sequence : documents) {
      const auto [own, theirs] = positions_of(sequence);
      mask.pairs += append_visible(beginnings(sequence), own, theirs, batch.visible);
    }
    return mask;
  };
  masks->whole = mask_of(s, [&](const Documents&) {
    std::vector<int> all;
    append({{0, static_cast<int>(s)}}, all);
    return std::pair{all, all};
  });
  for (int rank = 0; share.members > 1 && rank < share.members; ++rank)
    masks->by_rank.push_back(mask_of(s / share.members, [&](const Documents& sequence) {
      const auto positions = [&](int member) {
        std::vector<int> list;
        append(context_positions(share.layout, sequence, member, share.members), list);
        return list;
      };
      return std::pair{positions(share.member), positions(rank)};
    }));
  masks->documents = std::move(documents);
  batch.masks.push_back(std::move(masks));
}

void place_masks(Batch& batch, View visible) {
  std::int64_t first = 0;
  const auto place = [&](DocumentMask& mask) {
    const Shape shape = mask.visible.shape;
    mask.visible = visible.columns(first, shape.elements()).reshaped(shape);
    first += shape.elements();
  };
  for (const auto& masks : batch.masks) {
    place(masks->whole);
    for (DocumentMask& mask : masks->by_rank) place(mask);
  }
}

}  // namespace lockstep
