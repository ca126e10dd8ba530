// diagnosis: no rank can take it whole
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  // Gives each document, the largest first, to the rank with the least work that has room for it.
  // If no rank has, gives the ranks with the most room as much of it as fits.
  std::vector<int> order(documents.size()), begin(documents.size());
  std::iota(order.begin(), order.end(), 0);
  std::exclusive_scan(documents.begin(), documents.end(), begin.begin(), 0);
  const auto length_of = [&](int d) { return documents[static_cast<std::size_t>(d)]; };
  std::ranges::stable_sort(order, std::ranges::greater{}, length_of);
  const int share = std::accumulate(documents.begin(), documents.end(), 0) / ranks;
  std::vector<int> room(static_cast<std::size_t>(ranks), share), positions;
  std::vector<std::int64_t> work(room.size());
  for (const int d : order)
    for (int place = 0; place < length_of(d);) {
      std::size_t to = 0;
      for (std::size_t r = 1; r < room.size(); ++r) {
        const bool fits = room[r] >= length_of(d) - place,
                   fitted = room[to] >= length_of(d) - place;
        if (fits != fitted ? fits : fits ? work[r] < work[to] : room[r] > room[to]) to = r;
      }
      const int size = std::min(room[to], length_of(d) - place);
      room[to] -= size;
      for (int i = 0; i < size; ++i, ++place) {
        work[to] += place + 1;
        if (static_cast<int>(to) == rank)
          positions.push_back(begin[static_cast<std::size_t>(d)] + place);
      }
    }
  return positions;
}

}  // namespace lockstep::exercises
