// diagnosis: without their weights
#include "exercises/18_moe/task.h"

#include <numeric>

namespace lockstep::exercises {

namespace {

/// Row i of rows of h numbers.
template <class Rows>
auto row(Rows& rows, std::size_t i, std::size_t h) {
  return std::span{rows}.subspan(i * h, h);
}

}  // namespace

void mixture_of_experts(World& world, const Experts& experts, std::span<const Choice> choices,
                        std::span<float> tokens) {
  const auto N = static_cast<std::size_t>(world.size());
  const auto E = static_cast<std::size_t>(experts.E), own = E / N;
  const auto h = static_cast<std::size_t>(experts.width);

  // Slots are the choices in the order of their experts. This is also the order of the experts'
  // ranks, so each rank receives one contiguous block, in which each expert's rows are contiguous.
  std::vector<std::size_t> choice_of(choices.size());
  std::iota(choice_of.begin(), choice_of.end(), std::size_t{0});
  std::ranges::stable_sort(choice_of, {}, [&](std::size_t c) { return choices[c].expert; });

  // Only the sender knows how many rows it has for each expert. arriving[i * own + e] is the number
  // of rows that rank i has for expert e of this rank.
  std::vector<float> leaving(E), arriving(E);
  for (const Choice& choice : choices) ++leaving[static_cast<std::size_t>(choice.expert)];
  const std::vector<int> experts_each(N, static_cast<int>(own));
  all_to_all(world, leaving, experts_each, arriving, experts_each).wait();
  std::vector<int> sent(N), received(N);  // numbers, h per row
  for (std::size_t e = 0; e < E; ++e) {
    sent[e / own] += experts.width * static_cast<int>(leaving[e]);
    received[e / own] += experts.width * static_cast<int>(arriving[e]);
  }

  // Dispatch.
  std::vector<float> out(choices.size() * h);
  for (std::size_t slot = 0; slot < choices.size(); ++slot)
    std::ranges::copy(row(tokens, choice_of[slot] / 2, h), row(out, slot, h).begin());
  std::vector<float> in(
      static_cast<std::size_t>(std::accumulate(received.begin(), received.end(), 0)));
  all_to_all(world, out, sent, in, received).wait();

  // An expert's rows are in N blocks, one from each rank. These blocks are brought together for the
  // expert, and its results take the place of the rows.
  for (std::size_t e = 0; e < own; ++e) {
    std::vector<std::size_t> places;
    std::size_t next = 0;
    for (std::size_t block = 0; block < E; ++block)
      for (int i = 0; i < static_cast<int>(arriving[block]); ++i, ++next)
        if (block % own == e) places.push_back(next);
    std::vector<float> rows(places.size() * h);
    for (std::size_t i = 0; i < places.size(); ++i)
      std::ranges::copy(row(in, places[i], h), row(rows, i, h).begin());
    experts.apply(world.rank() * static_cast<int>(own) + static_cast<int>(e), rows);
    for (std::size_t i = 0; i < places.size(); ++i)
      std::ranges::copy(row(rows, i, h), row(in, places[i], h).begin());
  }

  // Combine. The results return the same way, into the slots of their rows.
  all_to_all(world, in, received, out, sent).wait();
  std::ranges::fill(tokens, 0.0F);
  for (std::size_t slot = 0; slot < choices.size(); ++slot)
    for (std::size_t j = 0; j < h; ++j) tokens[choice_of[slot] / 2 * h + j] += out[slot * h + j];
}

}  // namespace lockstep::exercises
