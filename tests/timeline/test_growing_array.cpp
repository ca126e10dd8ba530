#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <random>
#include <vector>

#include "viz/read/timeline/growing_array.h"

using namespace lockstep;

TEST_CASE("a growing array holds what a vector holds") {
  std::mt19937 random{1};
  GrowingArray<int> array;
  std::vector<int> vector;
  for (int i = 0; i < 20'000; ++i) {
    switch (random() % 8) {
      case 0: {
        const std::vector<int> more(random() % 40, i);
        array.insert(array.end(), more.begin(), more.end());
        vector.insert(vector.end(), more.begin(), more.end());
        break;
      }
      case 1: {
        const auto keep =
            static_cast<std::ptrdiff_t>(vector.size() - random() % (vector.size() / 4 + 1));
        array.erase(array.begin() + keep, array.end());
        vector.erase(vector.begin() + keep, vector.end());
        break;
      }
      case 2:
        if (vector.empty()) break;
        array.push_back(array.front());
        vector.push_back(vector.front());
        break;
      default:
        array.push_back(i);
        vector.push_back(i);
    }
    REQUIRE(array.size() == vector.size());
    REQUIRE(array.empty() == vector.empty());
    if (!vector.empty()) REQUIRE(array.back() == vector.back());
  }
  CHECK(std::equal(array.begin(), array.end(), vector.begin(), vector.end()));
  GrowingArray<int> moved{std::move(array)};
  CHECK(std::equal(moved.begin(), moved.end(), vector.begin(), vector.end()));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose realloc copies
namespace {

long peak_kilobytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

struct Element {
  long number = 0;
  char rest[56] = {};
};

}  // namespace

TEST_CASE("a growing array is never in memory twice") {
  constexpr std::size_t count = (1 << 22) + 1000;  // a vector would just have doubled
  const long before = peak_kilobytes();
  GrowingArray<Element> array;
  for (std::size_t i = 0; i < count; ++i) array.push_back({static_cast<long>(i)});
  const auto size = static_cast<long>(count * sizeof(Element) / 1024);
  CHECK(array[count / 2].number == static_cast<long>(count / 2));
  CHECK(peak_kilobytes() - before < size + size / 5);
}
#endif
