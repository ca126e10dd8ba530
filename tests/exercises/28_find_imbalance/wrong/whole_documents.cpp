// diagnosis: Each rank has whole documents
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  // Gives each document, the largest first, to the rank with the least work.
  std::vector<int> order(documents.size()), begin(documents.size());
  std::iota(order.begin(), order.end(), 0);
  std::exclusive_scan(documents.begin(), documents.end(), begin.begin(), 0);
  const auto length_of = [&](int d) { return documents[static_cast<std::size_t>(d)]; };
  std::ranges::stable_sort(order, std::ranges::greater{}, length_of);
  std::vector<std::int64_t> work(static_cast<std::size_t>(ranks));
  std::vector<int> positions;
  for (const int d : order) {
    const auto least = std::ranges::min_element(work);
    *least += std::int64_t{length_of(d)} * (length_of(d) + 1) / 2;
    if (least - work.begin() == rank)
      for (int i = 0; i < length_of(d); ++i)
        positions.push_back(begin[static_cast<std::size_t>(d)] + i);
  }
  return positions;
}

}  // namespace lockstep::exercises
