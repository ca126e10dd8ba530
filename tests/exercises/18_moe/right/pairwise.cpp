// Uses messages between pairs of ranks in place of collectives, and takes the highest expert first.
#include "exercises/18_moe/task.h"

namespace lockstep::exercises {

void mixture_of_experts(World& world, const Experts& experts, std::span<const Choice> choices,
                        std::span<float> tokens) {
  const int N = world.size(), own = experts.E / N, rank = world.rank();
  const auto h = static_cast<std::size_t>(experts.width);
  struct Peer {
    std::vector<float> counts, their_counts, rows, results, their_rows;
    std::vector<std::size_t> choices;
  };
  std::vector<Peer> peers(static_cast<std::size_t>(N));
  for (int to = 0; to < N; ++to) {
    Peer& peer = peers[static_cast<std::size_t>(to)];
    for (int e = own - 1; e >= 0; --e) {
      peer.counts.push_back(0);
      for (std::size_t c = 0; c < choices.size(); ++c) {
        if (choices[c].expert != to * own + e) continue;
        ++peer.counts.back();
        peer.choices.push_back(c);
        const auto token = tokens.subspan(c / 2 * h, h);
        peer.rows.insert(peer.rows.end(), token.begin(), token.end());
      }
    }
    peer.results.resize(peer.rows.size());
    peer.their_counts.resize(peer.counts.size());
  }
  const auto with_each = [&](auto out, auto in) {
    for (int k = 0; k < N; ++k) {
      const int to = (rank + k) % N, from = (rank + N - k) % N;
      auto& target = in(peers[static_cast<std::size_t>(from)]);
      auto& source = out(peers[static_cast<std::size_t>(to)]);
      if (k == 0) {
        target = source;
        continue;
      }
      Work received = world.receive(target, from);
      Work sent = world.send(source, to);
      sent.wait();
      received.wait();
    }
  };
  with_each(
      [](Peer & p) -> auto& { return p.counts; }, [](Peer & p) -> auto& { return p.their_counts; });
  for (Peer& peer : peers) {
    float all = 0;
    for (const float count : peer.their_counts) all += count;
    peer.their_rows.resize(static_cast<std::size_t>(all) * h);
  }
  with_each(
      [](Peer & p) -> auto& { return p.rows; }, [](Peer & p) -> auto& { return p.their_rows; });
  std::vector<std::size_t> taken(peers.size());
  for (int e = 0; e < own; ++e) {
    const auto at = static_cast<std::size_t>(e);
    std::vector<float> rows;
    for (std::size_t i = 0; i < peers.size(); ++i) {
      const auto part = std::span{peers[i].their_rows}.subspan(
          taken[i], static_cast<std::size_t>(peers[i].their_counts[at]) * h);
      rows.insert(rows.end(), part.begin(), part.end());
    }
    if (rows.empty()) continue;
    experts.apply(rank * own + own - 1 - e, rows);
    std::size_t next = 0;
    for (std::size_t i = 0; i < peers.size(); ++i)
      for (std::size_t n = static_cast<std::size_t>(peers[i].their_counts[at]) * h; n > 0; --n)
        peers[i].their_rows[taken[i]++] = rows[next++];
  }
  with_each(
      [](Peer & p) -> auto& { return p.their_rows; }, [](Peer & p) -> auto& { return p.results; });
  std::vector<float> sums(tokens.size());
  for (const Peer& peer : peers)
    for (std::size_t i = 0; i < peer.choices.size(); ++i)
      for (std::size_t j = 0; j < h; ++j)
        sums[peer.choices[i] / 2 * h + j] +=
            choices[peer.choices[i]].weight * peer.results[i * h + j];
  std::ranges::copy(sums, tokens.begin());
}

}  // namespace lockstep::exercises
