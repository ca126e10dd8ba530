// diagnosis: Each rank has whole documents
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

// Whole documents, the longest first, to the rank with the least work that has room for it. Only if
// a document finds no room, single tokens are dealt out, in the order of their work.
std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  std::vector<int> keys, begin(documents.size()), order(documents.size());
  std::exclusive_scan(documents.begin(), documents.end(), begin.begin(), 0);
  for (const int length : documents)
    for (int i = 0; i < length; ++i) keys.push_back(i + 1);
  const int share = static_cast<int>(keys.size()) / ranks;
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](int d) { return documents[static_cast<std::size_t>(d)]; });
  std::vector<std::int64_t> work(static_cast<std::size_t>(ranks));
  std::vector<std::vector<int>> layout(work.size());
  bool all_have_room = true;
  for (const int d : order) {
    const int length = documents[static_cast<std::size_t>(d)];
    std::size_t best = work.size();
    for (std::size_t r = 0; r < work.size(); ++r)
      if (static_cast<int>(layout[r].size()) + length <= share &&
          (best == work.size() || work[r] < work[best]))
        best = r;
    if (best == work.size()) {
      all_have_room = false;
      break;
    }
    work[best] += std::int64_t{length} * (length + 1) / 2;
    for (int i = 0; i < length; ++i) layout[best].push_back(begin[static_cast<std::size_t>(d)] + i);
  }
  if (all_have_room) return layout[static_cast<std::size_t>(rank)];
  std::vector<int> tokens(keys.size()), positions;
  std::iota(tokens.begin(), tokens.end(), 0);
  std::ranges::stable_sort(tokens, std::ranges::greater{},
                           [&](int i) { return keys[static_cast<std::size_t>(i)]; });
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const int turn = static_cast<int>(i) % (2 * ranks);
    if (std::min(turn, 2 * ranks - 1 - turn) == rank) positions.push_back(tokens[i]);
  }
  return positions;
}

}  // namespace lockstep::exercises
