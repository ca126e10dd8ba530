#include "core/comm/algorithms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/base/error.h"

namespace lockstep {

namespace {

void add_f32(std::byte* into, const std::byte* from, std::size_t bytes) {
  const auto n = static_cast<std::int64_t>(bytes / sizeof(float));
  const View sum{into, {n}};
  cpu_kernels().add({}, sum, View{const_cast<std::byte*>(from), {n}}, sum);
}

/// The largest power of two that is not above n.
int power_below(int n) {
  int power = 1;
  while (power * 2 <= n) power *= 2;
  return power;
}

/// Elements [first, first + count) of a flat view.
View slice(View data, std::int64_t first, std::int64_t count) {
  return data.reshaped({data.elements()}).columns(first, count);
}

}  // namespace

const char* name_of(Algorithm algorithm) {
  constexpr const char* names[] = {"ring", "naive", "tree", "recursive_doubling", "rabenseifner"};
  return names[static_cast<std::size_t>(algorithm)];
}

Algorithm algorithm_of(const std::string& name) {
  std::string wanted = name;
  std::replace(wanted.begin(), wanted.end(), '-', '_');
  std::string known;
  for (const Algorithm algorithm : all_reduce_algorithms) {
    if (wanted == name_of(algorithm)) return algorithm;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name_of(algorithm));
  }
  throw UsageError(fmt::format("--algorithm {}: there are {}", name, known));
}

View chunk_of(View data, int i, int count) {
  const std::int64_t least = data.elements() / count;
  const std::int64_t more = data.elements() % count;
  return slice(data, i * least + std::min<std::int64_t>(i, more), least + (i < more ? 1 : 0));
}

// -- messages ---------------------------------------------------------------------------------

Work Peers::start_send(View out, int to) {
  return channel_.send(out, place_.ranks[static_cast<std::size_t>(to)], ready_, part_);
}

Work Peers::start_receive(View in, int from, Combine combine) {
  return channel_.receive(in, place_.ranks[static_cast<std::size_t>(from)], part_, combine);
}

void Peers::sent(Work work) {
  end_ = std::max(end_, work.finish().time);
}

void Peers::received(Work work) {
  ready_.time = std::max(ready_.time, work.finish().time);
}

void Peers::send(View out, int to) {
  sent(start_send(out, to));
}

void Peers::receive(View in, int from) {
  received(start_receive(in, from));
}

void Peers::receive_add(View sum, int from) {
  if (channel_.endpoint().transport.combines()) return received(start_receive(sum, from, add_f32));
  const View in = slice(scratch_, 0, sum.elements());
  received(start_receive(in, from));
  add(in, sum);
}

void Peers::exchange(View out, int to, View in, int from) {
  Work going = start_send(out, to);
  Work coming = start_receive(in, from);
  received(std::move(coming));
  sent(std::move(going));
}

void Peers::exchange_add(View out, int to, View sum, int from) {
  Work going = start_send(out, to);
  // What is still being sent must not change under the receiver's eyes.
  const bool apart = out.data != sum.data;
  if (apart && channel_.endpoint().transport.combines()) {
    received(start_receive(sum, from, add_f32));
    return sent(std::move(going));
  }
  const View in = slice(scratch_, 0, sum.elements());
  received(start_receive(in, from));
  if (apart) add(in, sum);
  sent(std::move(going));
  if (!apart) add(in, sum);
}

void Peers::add(View in, View sum) const {
  if (sum.data == nullptr) return;  // the meta device
  channel_.endpoint().device.compute.kernels().add({}, sum, in, sum);
}

void Peers::copy(View from, View into) const {
  if (from.data != nullptr && into.data != nullptr && from.data != into.data)  // not of nothing
    std::memmove(into.data, from.data, from.bytes());
}

// -- rings ------------------------------------------------------------------------------------

// Step k sends chunk (rank - k - 1) on to the right, while the chunk before it comes in from the
// left and is added; after N - 1 steps chunk `rank` has been around the whole ring and is complete
// here.
void ring_reduce_scatter(Peers& peers, View data) {
  const auto chunk = [&](int i) { return chunk_of(data, peers.neighbour(i), peers.size()); };
  for (int k = 0; k < peers.size() - 1; ++k)
    peers.exchange_add(chunk(-k - 1), peers.neighbour(1), chunk(-k - 2), peers.neighbour(-1));
}

// Step k passes on the chunk that came in last, beginning with one's own.
void ring_all_gather(Peers& peers, View data) {
  const auto chunk = [&](int i) { return chunk_of(data, peers.neighbour(i), peers.size()); };
  for (int k = 0; k < peers.size() - 1; ++k)
    peers.exchange(chunk(-k), peers.neighbour(1), chunk(-k - 1), peers.neighbour(-1));
}

// -- trees ------------------------------------------------------------------------------------

// In round k (1, 2, 4, ...) whoever has the data and counts less than k from the root sends it k
// further.
void binomial_broadcast(Peers& peers, View data, int root) {
  const int place = peers.neighbour(-root);
  const auto member = [&](int distance) { return (root + distance) % peers.size(); };
  for (int k = 1; k < peers.size(); k *= 2) {
    if (place < k && place + k < peers.size()) peers.send(data, member(place + k));
    if (place >= k && place < 2 * k) peers.receive(data, member(place - k));
  }
}

// The same tree, from its leaves to member 0.
void binomial_reduce(Peers& peers, View data) {
  for (int k = 1; k < peers.size(); k *= 2) {
    if (peers.rank() % (2 * k) == k) return peers.send(data, peers.rank() - k);
    if (peers.rank() + k < peers.size()) peers.receive_add(data, peers.rank() + k);
  }
}

// -- one to all, all to one, all to all ---------------------------------------------------------

void linear_gather(Peers& peers, View data, int root) {
  const auto chunk = [&](int i) { return chunk_of(data, i, peers.size()); };
  if (peers.rank() != root) return peers.send(chunk(peers.rank()), root);
  for (int i = 0; i < peers.size(); ++i)
    if (i != root) peers.receive(chunk(i), i);
}

void naive_all_reduce(Peers& peers, View data) {
  if (peers.rank() != 0) {
    peers.send(data, 0);
    peers.receive(data, 0);
    return;
  }
  for (int i = 1; i < peers.size(); ++i) peers.receive_add(data, i);
  for (int i = 1; i < peers.size(); ++i) peers.send(data, i);
}

void pairwise_all_to_all(Peers& peers, View out, std::span<const std::int64_t> send_counts, View in,
                         std::span<const std::int64_t> receive_counts) {
  const auto part = [](View data, std::span<const std::int64_t> counts, int i) {
    std::int64_t first = 0;
    for (int j = 0; j < i; ++j) first += counts[static_cast<std::size_t>(j)];
    return slice(data, first, counts[static_cast<std::size_t>(i)]);
  };
  peers.copy(part(out, send_counts, peers.rank()), part(in, receive_counts, peers.rank()));
  for (int k = 1; k < peers.size(); ++k) {
    const int to = peers.neighbour(k);
    const int from = peers.neighbour(-k);
    peers.exchange(part(out, send_counts, to), to, part(in, receive_counts, from), from);
  }
}

void dissemination_barrier(Peers& peers) {
  const View nothing{nullptr, {0}};
  for (int k = 1; k < peers.size(); k *= 2)
    peers.exchange(nothing, peers.neighbour(k), nothing, peers.neighbour(-k));
}

// -- halving and doubling -----------------------------------------------------------------------

namespace {

/// The power of two members that halve and double among themselves. Of the first 2(N - P) members
/// every even one hands its elements to the odd one behind it, and gets the sums back at the end.
class Core {
 public:
  explicit Core(Peers& peers)
      : peers_(peers),
        size_(power_below(peers.size())),
        pairs_(peers.size() - size_),
        place_(peers.rank() >= 2 * pairs_ ? peers.rank() - pairs_
               : peers.rank() % 2 == 1    ? peers.rank() / 2
                                          : -1) {}

  int size() const { return size_; }
  /// This member's place in the core, -1 outside.
  int place() const { return place_; }
  /// The member whose place differs in the bits of `mask`.
  int partner(int mask) const {
    const int other = place_ ^ mask;
    return other < pairs_ ? 2 * other + 1 : other + pairs_;
  }

  void fold(View data) {
    if (place_ < 0) peers_.send(data, peers_.rank() + 1);
    if (place_ >= 0 && place_ < pairs_) peers_.receive_add(data, peers_.rank() - 1);
  }
  void unfold(View data) {
    if (place_ < 0) peers_.receive(data, peers_.rank() + 1);
    if (place_ >= 0 && place_ < pairs_) peers_.send(data, peers_.rank() - 1);
  }

 private:
  Peers& peers_;
  int size_;
  int pairs_;
  int place_;
};

}  // namespace

void recursive_doubling_all_reduce(Peers& peers, View data) {
  Core core{peers};
  core.fold(data);
  if (core.place() >= 0)
    for (int mask = 1; mask < core.size(); mask *= 2)
      peers.exchange_add(data, core.partner(mask), data, core.partner(mask));
  core.unfold(data);
}

// Each round halves the elements that a member is responsible for: it sends the half that it gives
// up to its partner, and adds the partner's part of the half that it keeps. Then the same rounds
// backward double what is complete.
void rabenseifner_all_reduce(Peers& peers, View data) {
  Core core{peers};
  core.fold(data);
  if (core.place() >= 0) {
    const auto parts = [&](int first, int count) {
      std::int64_t before = 0;
      std::int64_t elements = 0;
      for (int i = 0; i < first + count; ++i)
        (i < first ? before : elements) += chunk_of(data, i, core.size()).elements();
      return slice(data, before, elements);
    };
    int first = 0;
    for (int half = core.size() / 2; half >= 1; half /= 2) {
      const bool upper = (core.place() & half) != 0;
      peers.exchange_add(parts(upper ? first : first + half, half), core.partner(half),
                         parts(upper ? first + half : first, half), core.partner(half));
      if (upper) first += half;
    }
    for (int have = 1; have < core.size(); have *= 2) {
      const int other = first ^ have;
      peers.exchange(parts(first, have), core.partner(have), parts(other, have),
                     core.partner(have));
      first = std::min(first, other);
    }
  }
  core.unfold(data);
}

void all_reduce(Algorithm algorithm, Peers& peers, View data) {
  switch (algorithm) {
    case Algorithm::ring:
      ring_reduce_scatter(peers, data);
      return ring_all_gather(peers, data);
    case Algorithm::naive:
      return naive_all_reduce(peers, data);
    case Algorithm::tree:
      binomial_reduce(peers, data);
      return binomial_broadcast(peers, data, 0);
    case Algorithm::recursive_doubling:
      return recursive_doubling_all_reduce(peers, data);
    case Algorithm::rabenseifner:
      return rabenseifner_all_reduce(peers, data);
  }
}

std::int64_t all_reduce_scratch(Algorithm algorithm, std::int64_t elements, int ranks,
                                bool combines) {
  if (ranks == 1) return 0;
  if (algorithm == Algorithm::recursive_doubling) return elements;  // both send all of it at once
  if (combines) return 0;
  return algorithm == Algorithm::ring ? (elements + ranks - 1) / ranks : elements;
}

}  // namespace lockstep
