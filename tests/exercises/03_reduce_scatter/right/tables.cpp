#include <array>
#include <map>

#include "exercises/03_reduce_scatter/task.h"

// Constants of several kinds.

namespace lockstep::exercises {

static constexpr std::array<int, 2> shifts{1, 2};
static const std::map<std::string, int> named{{"send", 1}, {"add", 2}};
inline const std::vector<int>& table() {
  static const std::vector<int> all = [] {
    std::vector<int> v;
    for (int i = 0; i < 64; ++i) v.push_back(i);
    return v;
  }();
  return all;
}
void reduce_scatter(World& world, std::span<float> data) {
  const int N = world.size(), r = world.rank();
  for (int k = 0; k < N - 1; ++k) {
    const auto out =
        chunk(data, (r + 2 * N - shifts[0] - table()[static_cast<std::size_t>(k)]) % N, N);
    const auto sum = chunk(data, (r + 2 * N - named.at("add") - k) % N, N);
    std::vector<float> in(sum.size());
    Work a = world.send(out, (r + 1) % N), b = world.receive(in, (r + N - 1) % N);
    b.wait();
    a.wait();
    for (std::size_t i = 0; i < in.size(); ++i) sum[i] += in[i];
  }
}

}  // namespace lockstep::exercises
