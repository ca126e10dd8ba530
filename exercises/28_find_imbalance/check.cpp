#include "exercises/28_find_imbalance/task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "Equal results do not mean equal work: parity holds for every division of the tokens, and only "
    "the timeline shows that all ranks wait for one. In a packed sequence, a token's work depends "
    "on its place in its document, so divide by work and not by position in the sequence.";

namespace {

using Layout = std::vector<std::vector<int>>;  // by rank: its positions, ascending

/// Documents that are packed into one sequence, for N ranks.
struct Packing {
  Packing(int N_, std::vector<int> documents_) : N(N_), documents(std::move(documents_)) {
    for (std::size_t d = 0; d < documents.size(); ++d)
      for (int place = 0; place < documents[d]; ++place) {
        document_of.push_back(static_cast<int>(d));
        keys.push_back(place + 1);
      }
    length = static_cast<int>(keys.size());
    longest = std::ranges::max(documents);
    mean = static_cast<double>(std::accumulate(keys.begin(), keys.end(), std::int64_t{0})) / N;
  }

  int N;
  std::vector<int> documents;
  std::vector<int> document_of, keys;  ///< by position
  int length, longest;
  double mean;  ///< pairs per rank

  /// The number of pairs by which a rank may exceed the mean.
  double allowance() const { return std::max(0.05 * mean, static_cast<double>(longest)); }
  std::int64_t pairs(const std::vector<int>& positions) const {
    std::int64_t all = 0;
    for (const int position : positions) all += keys[at(position)];
    return all;
  }
  std::int64_t most_pairs(const Layout& layout) const {
    std::int64_t most = 0;
    for (const std::vector<int>& positions : layout) most = std::max(most, pairs(positions));
    return most;
  }
  double percent_above_mean(std::int64_t pairs) const {
    return 100 * (static_cast<double>(pairs) / mean - 1);
  }
  std::string what() const {
    const auto count = static_cast<std::int64_t>(documents.size());
    const int shortest = std::ranges::min(documents);
    std::string lengths = std::to_string(longest);
    if (count > 9 && shortest < longest)
      lengths = fmt::format("{} to {}", shortest, longest);
    else if (shortest < longest)
      lengths = fmt::format("{} and {}", fmt::join(documents.begin(), documents.end() - 1, ", "),
                            documents.back());
    return fmt::format("{}, {} of {} tokens", count_of(N, "rank"), count_of(count, "document"),
                       lengths);
  }
};

std::string name_of(int document) {
  return document < 26 ? std::string(1, static_cast<char>('A' + document))
                       : std::to_string(document);
}

Layout zigzag(int N, int length) {
  Layout layout(at(N));
  for (int i = 0; i < length; ++i) {
    const int chunk = i / (length / (2 * N));
    layout[static_cast<std::size_t>(std::min(chunk, 2 * N - 1 - chunk))].push_back(i);
  }
  return layout;
}

/// One head with two features.
struct Head {
  using Vector = std::array<float, 2>;
  explicit Head(std::size_t tokens) : q(tokens), k(tokens), v(tokens) {}
  std::vector<Vector> q, k, v;  ///< by position
};

/// The query at this position attends to the tokens of its own document up to itself.
template <class Number>
std::array<Number, 2> attention(const Packing& packing, const Head& head, std::size_t position) {
  const auto score = [&](std::size_t key) {
    return Number{head.q[position][0]} * Number{head.k[key][0]} +
           Number{head.q[position][1]} * Number{head.k[key][1]};
  };
  const std::size_t first = position + 1 - static_cast<std::size_t>(packing.keys[position]);
  Number most = score(first), sum = 0;
  for (std::size_t key = first; key <= position; ++key) most = std::max(most, score(key));
  std::array<Number, 2> out{};
  for (std::size_t key = first; key <= position; ++key) {
    const Number weight = std::exp(score(key) - most);
    sum += weight;
    for (std::size_t i = 0; i < 2; ++i) out[i] += weight * Number{head.v[key][i]};
  }
  for (Number& each : out) each /= sum;
  return out;
}

/// Gathers the blocks of all ranks, by rank, around a ring. Block i has sizes[i] numbers.
std::vector<std::vector<float>> gather(World& world, const std::vector<float>& mine,
                                       const std::vector<std::size_t>& sizes) {
  const int N = world.size(), rank = world.rank();
  std::vector<std::vector<float>> blocks;
  for (const std::size_t size : sizes) blocks.emplace_back(size);
  blocks[at(rank)] = mine;
  for (int k = 0; k + 1 < N; ++k) {
    Work sent = world.send(blocks[static_cast<std::size_t>((rank - k + N) % N)], (rank + 1) % N);
    Work received =
        world.receive(blocks[static_cast<std::size_t>((rank - k - 1 + N) % N)], (rank + N - 1) % N);
    received.wait();
    sent.wait();
  }
  return blocks;
}

/// The work of one rank: asks for its positions, gathers the keys and values of all ranks, and
/// computes the attention of its own queries. Returns a triple per position: the position, and its
/// two results.
std::vector<float> attend(World& world, const Packing& packing, const Head& inputs) {
  const std::vector<int> positions = positions_of(world.rank(), packing.N, packing.documents);
  if (positions.size() > static_cast<std::size_t>(packing.length))
    throw Wrong{fmt::format("rank {} has {} positions", world.rank(), positions.size()),
                fmt::format("The whole sequence has {} positions, and each rank has {} of them.",
                            packing.length, packing.length / packing.N)};
  std::vector<float> block;
  for (const int position : positions) {
    if (position < 0 || position >= packing.length)
      throw Wrong{fmt::format("rank {} has position {}", world.rank(), position),
                  fmt::format("The positions are 0 to {}: the documents follow one another, and "
                              "the first token of a document comes after the last one of the "
                              "document before.",
                              packing.length - 1)};
    const auto i = at(position);
    block.insert(block.end(), {static_cast<float>(position), inputs.k[i][0], inputs.k[i][1],
                               inputs.v[i][0], inputs.v[i][1]});
  }
  std::vector<std::size_t> sizes(static_cast<std::size_t>(packing.N), 1);
  const auto counts = gather(world, {static_cast<float>(block.size())}, sizes);
  for (std::size_t r = 0; r < sizes.size(); ++r) sizes[r] = static_cast<std::size_t>(counts[r][0]);

  // This rank's queries, and the gathered keys and values.
  Head head{inputs.q.size()};
  for (const int position : positions) head.q[at(position)] = inputs.q[at(position)];
  for (const std::vector<float>& each : gather(world, block, sizes))
    for (std::size_t i = 0; i < each.size(); i += 5) {
      const auto position = static_cast<std::size_t>(each[i]);
      head.k[position] = {each[i + 1], each[i + 2]};
      head.v[position] = {each[i + 3], each[i + 4]};
    }
  std::vector<float> results;
  for (const int position : positions) {
    const auto out = attention<float>(packing, head, at(position));
    results.insert(results.end(), {static_cast<float>(position), out[0], out[1]});
  }
  return results;
}

/// The time that each rank's attention takes, with one block per document.
std::vector<Row> rows_of(const Packing& packing, const Layout& layout, const std::string& prefix) {
  std::vector<Row> rows;
  for (std::size_t r = 0; r < layout.size(); ++r) {
    rows.push_back({fmt::format("{}rank {}", prefix, r), {}, static_cast<int>(r)});
    std::vector<Block>& blocks = rows.back().blocks;
    Picoseconds now = 0;
    for (const int position : layout[r]) {
      const std::string name = name_of(packing.document_of[at(position)]);
      if (blocks.empty() || blocks.back().label != name) blocks.push_back({now, now, name});
      now += packing.keys[at(position)];
      blocks.back().end = now;
    }
  }
  return rows;
}

/// The ranks' attention, and the mean.
std::string timeline(const Packing& packing, const Layout& layout) {
  std::vector<Row> rows = rows_of(packing, layout, "");
  rows.push_back({"mean", {{0, std::llround(packing.mean), ""}}});
  std::string text = draw(rows);
  text.pop_back();  // the newline at the end
  return text;
}

std::string show(const Layout& layout) {
  std::string text;
  for (std::size_t r = 0; r < layout.size(); ++r)
    text += fmt::format("\n  rank {}: {}", r, fmt::join(layout[r], " "));
  return text;
}

/// Returns the positions that are in this document.
std::vector<int> positions_in(const Packing& packing, const std::vector<int>& positions,
                              std::size_t document) {
  std::vector<int> some;
  std::ranges::copy_if(positions, std::back_inserter(some), [&](int position) {
    return packing.document_of[at(position)] == static_cast<int>(document);
  });
  return some;
}

bool has_whole_documents(const Packing& packing, const Layout& layout) {
  std::vector<int> owner(packing.documents.size(), -1);
  for (std::size_t r = 0; r < layout.size(); ++r)
    for (const int position : layout[r]) {
      int& has = owner[static_cast<std::size_t>(packing.document_of[at(position)])];
      if (has >= 0 && has != static_cast<int>(r)) return false;
      has = static_cast<int>(r);
    }
  return true;
}

constexpr auto whole_documents =
    "Each rank has whole documents. But the work of a document grows with the square of its "
    "length, and a document can be longer than a rank's share of the sequence. You may cut it "
    "anywhere: all ranks have gathered all keys and values, so any rank can compute any query.";

/// Throws Wrong unless each position is on exactly one rank and all ranks have the same number.
void check_counts(const Packing& packing, const Layout& layout) {
  std::vector<int> owner(static_cast<std::size_t>(packing.length), -1);
  const std::string lines = packing.length <= 32 ? ":" + show(layout) : "";
  for (std::size_t r = 0; r < layout.size(); ++r)
    for (const int position : layout[r]) {
      int& has = owner[at(position)];
      if (has >= 0)
        throw Wrong{
            has == static_cast<int>(r)
                ? fmt::format("{}: rank {} has position {} twice{}", packing.what(), r, position,
                              lines)
                : fmt::format("{}: position {} is on rank {} and on rank {}{}", packing.what(),
                              position, has, r, lines),
            "Each position belongs to exactly one rank. Every rank calls positions_of() by itself, "
            "so all calls must find the same division: it may depend on the arguments only."};
      has = static_cast<int>(r);
    }
  if (const auto missing = std::ranges::find(owner, -1); missing != owner.end()) {
    const auto position = static_cast<std::size_t>(missing - owner.begin());
    throw Wrong{
        fmt::format("{}: position {} is on no rank, place {} of the {} tokens of document {}{}",
                    packing.what(), position, packing.keys[position] - 1,
                    packing.documents[static_cast<std::size_t>(packing.document_of[position])],
                    name_of(packing.document_of[position]), lines),
        "Together, the ranks have all positions. If you divide each document by itself, its length "
        "need not be a multiple of the number of pieces, and the rest needs a rank, too."};
  }
  const auto share = static_cast<std::size_t>(packing.length / packing.N);
  for (std::size_t r = 0; r < layout.size(); ++r)
    if (layout[r].size() != share) {
      const bool same_work =
          static_cast<double>(packing.most_pairs(layout)) <= packing.mean + packing.allowance();
      throw Wrong{
          fmt::format("{}: rank {} has {}, and each rank must have {}{}", packing.what(), r,
                      count_of(static_cast<std::int64_t>(layout[r].size()), "position"), share,
                      lines),
          has_whole_documents(packing, layout) ? whole_documents
          : same_work
              ? "The ranks have nearly the same number of pairs, but not the same number of "
                "tokens. Attention takes as long on all ranks, but every other layer, and the "
                "memory for activations, costs the same for each token. Divide both equally."
              : "All ranks must have the same number of tokens: every layer other than attention "
                "costs the same for each of them."};
    }
}

/// The ranks with the most and the least work, and their pairs.
struct Extremes {
  Extremes(const Packing& packing_, const Layout& layout) : packing(packing_) {
    std::vector<std::int64_t> work;
    for (const std::vector<int>& positions : layout) work.push_back(packing.pairs(positions));
    busiest = static_cast<std::size_t>(std::ranges::max_element(work) - work.begin());
    least_busy = static_cast<std::size_t>(std::ranges::min_element(work) - work.begin());
    most = work[busiest], least = work[least_busy];
    const auto share = static_cast<double>(packing.length) / packing.N;
    keys_of_busiest = static_cast<double>(most) / share;
    keys_of_least_busy = static_cast<double>(least) / share;
    for (std::size_t d = 0; d < packing.documents.size(); ++d) {
      of_busiest.push_back(positions_in(packing, layout[busiest], d));
      of_least_busy.push_back(positions_in(packing, layout[least_busy], d));
    }
  }
  /// The number of pairs in this document that the busiest rank has in excess of the least busy
  /// one.
  std::int64_t more(std::size_t document) const {
    return packing.pairs(of_busiest[document]) - packing.pairs(of_least_busy[document]);
  }

  const Packing& packing;
  std::size_t busiest, least_busy;
  std::int64_t most, least;                    ///< pairs
  double keys_of_busiest, keys_of_least_busy;  ///< mean per token
  Layout of_busiest, of_least_busy;            ///< by document: the rank's positions in it
};

bool is_one_piece(const std::vector<int>& positions) {
  return positions.back() - positions.front() == static_cast<int>(positions.size()) - 1;
}

/// Whether, for each document, the ranks' numbers of tokens differ by at most one.
bool has_equal_tokens(const Packing& packing, const Layout& layout) {
  for (std::size_t d = 0; d < packing.documents.size(); ++d) {
    std::vector<std::size_t> tokens;
    for (const std::vector<int>& positions : layout)
      tokens.push_back(positions_in(packing, positions, d).size());
    if (std::ranges::max(tokens) > std::ranges::min(tokens) + 1) return false;
  }
  return true;
}

/// All ranks have the same number of tokens of each document.
std::string diagnose_places(const Extremes& ranks) {
  bool is_striped = true;
  for (std::size_t d = 0; d < ranks.of_busiest.size(); ++d) {
    const std::size_t tokens = ranks.of_busiest[d].size();
    if (tokens == ranks.of_least_busy[d].size() &&
        ranks.more(d) > (ranks.packing.N - 1) * static_cast<std::int64_t>(tokens))
      is_striped = false;
  }
  return "All ranks have the same number of tokens of each document, or one more, but a document's "
         "tokens do not cost the same: the token at place i has i + 1 keys. " +
         (is_striped
              ? fmt::format("Of N neighbours, the last has N - 1 keys more than the first. That is "
                            "little in a long document, but here rank {} has later tokens than "
                            "rank {} in one short document after another.",
                            ranks.busiest, ranks.least_busy)
              : fmt::format("Rank {} has the late ones, and rank {} has the early ones.",
                            ranks.busiest, ranks.least_busy));
}

/// Names the document that contributes the most to the difference.
std::string diagnose_document(const Extremes& ranks) {
  const Packing& packing = ranks.packing;
  std::size_t worst = 0;
  for (std::size_t d = 1; d < packing.documents.size(); ++d)
    if (ranks.more(d) > ranks.more(worst)) worst = d;
  const std::vector<int>& some = ranks.of_busiest[worst];
  const std::vector<int>& others = ranks.of_least_busy[worst];
  const std::string name = name_of(static_cast<int>(worst));
  const int length = packing.documents[worst], share = packing.length / packing.N;
  if (is_one_piece(some) && length > share)
    return fmt::format(
        "Document {} has {} tokens, more than the {} of a rank, so no rank can take it whole. Rank "
        "{} has a single piece of it, whose tokens have {} to {} keys. All ranks must share the "
        "late tokens of a long document.",
        name, length, share, ranks.busiest, packing.keys[static_cast<std::size_t>(some.front())],
        packing.keys[static_cast<std::size_t>(some.back())]);
  return fmt::format(
      "All ranks have the same number of tokens, but not the same work: the token at place i of "
      "its document has i + 1 keys. Document {} contributes most to the difference: rank {} has {} "
      "of its {} tokens, with {} pairs, and rank {} has {}, with {} pairs. All ranks must share "
      "the late tokens of a long document.",
      name, ranks.busiest, some.size(), length, packing.pairs(some), ranks.least_busy,
      others.size(), packing.pairs(others));
}

/// Why a division into equal numbers of tokens leads to unequal work.
std::string diagnose(const Packing& packing, const Layout& layout, const Extremes& ranks) {
  if (has_whole_documents(packing, layout)) return whole_documents;
  if (std::ranges::all_of(layout, is_one_piece))
    return fmt::format(
        "Each rank has neighbouring positions. So the tokens have been counted, and not their "
        "keys: rank {} has the late tokens of a long document, which have many keys.",
        ranks.busiest);
  const Layout chunks = zigzag(packing.N, packing.length);
  if (std::set(layout.begin(), layout.end()) == std::set(chunks.begin(), chunks.end()))
    return fmt::format(
        "These are the chunks of zigzag, i and 2 N - 1 - i. They balance one document, in which a "
        "late position has many keys. In a packed sequence, the keys are counted from the "
        "beginning of each document, so a late position can be a cheap one: a token has {:.1f} "
        "keys on average on rank {}, and {:.1f} on rank {}. Divide by the work of each token, not "
        "by its position in the sequence.",
        ranks.keys_of_busiest, ranks.busiest, ranks.keys_of_least_busy, ranks.least_busy);
  if (has_equal_tokens(packing, layout)) return diagnose_places(ranks);

  std::vector<std::int64_t> sums;  // each rank's work if the sequence were one document
  for (const std::vector<int>& positions : layout)
    sums.push_back(std::accumulate(positions.begin(), positions.end(), std::int64_t{0}));
  if (std::ranges::max(sums) - std::ranges::min(sums) <= packing.length)
    return fmt::format(
        "If the sequence were one document, the ranks would have the same work: the sums of their "
        "positions are nearly equal. But the keys are counted from the beginning of each document. "
        "A token of rank {} has {:.1f} keys on average, and one of rank {} has {:.1f}.",
        ranks.busiest, ranks.keys_of_busiest, ranks.least_busy, ranks.keys_of_least_busy);
  return diagnose_document(ranks);
}

void check_one(Check& check, const Packing& packing, bool shown = false) {
  const std::string what = packing.what();
  Head head{static_cast<std::size_t>(packing.length)};
  for (auto* vectors : {&head.q, &head.k, &head.v})
    for (Head::Vector& vector : *vectors)
      for (float& number : vector) number = static_cast<float>(check.number_from(-999, 999)) / 1000;
  const Outcome outcome = check.run(
      what, packing.N, [&](World& world) { return attend(world, packing, head); },
      [](const Failure&) { return "positions_of() must return on every rank."; });

  Layout layout;
  for (const std::vector<float>& results : outcome.results) {
    layout.emplace_back();
    for (std::size_t i = 0; i < results.size(); i += 3)
      layout.back().push_back(static_cast<int>(results[i]));
    std::ranges::sort(layout.back());
  }
  check_counts(packing, layout);
  for (const std::vector<float>& results : outcome.results)
    for (std::size_t i = 0; i < results.size(); i += 3) {
      const auto expected = attention<double>(packing, head, static_cast<std::size_t>(results[i]));
      for (std::size_t j = 0; j < 2; ++j)
        if (!(std::abs(static_cast<double>(results[i + 1 + j]) - expected[j]) < 1e-5))
          throw Wrong{fmt::format("{}: the query at position {} has {:g} as a result, and {:g} on "
                                  "one device",
                                  what, results[i], results[i + 1 + j], expected[j]),
                      ""};
    }

  const Extremes ranks{packing, layout};
  if (static_cast<double>(ranks.most) > packing.mean + packing.allowance() + 1e-6)
    throw Wrong{
        fmt::format("{}: all {} queries have the same result as on one device. But the attention "
                    "of rank {} takes {} pairs, {:.1f} % more than the mean of {:.0f}. At most "
                    "{:.0f} more are allowed. While rank {} computes, the other ranks "
                    "wait:\n\n{}\n{}",
                    what, packing.length, ranks.busiest, ranks.most,
                    packing.percent_above_mean(ranks.most), packing.mean,
                    std::floor(packing.allowance()), ranks.busiest, timeline(packing, layout),
                    packing.length <= 32 ? show(layout)
                                         : "\nThe letters are the documents: A is the first."),
        diagnose(packing, layout, ranks)};
  if (shown) {
    const Layout before = zigzag(packing.N, packing.length);
    std::vector<Row> rows = rows_of(packing, before, "zigzag, ");
    std::ranges::copy(rows_of(packing, layout, "yours, "), std::back_inserter(rows));
    check.show(fmt::format("The attention of {}, with zigzag and with your division. A letter is "
                           "a document, dots are idle time. The busiest rank has {:.1f} % more "
                           "pairs than the mean with zigzag, and {:.1f} % more with yours.",
                           what, packing.percent_above_mean(packing.most_pairs(before)),
                           packing.percent_above_mean(ranks.most)),
               {draw(rows).text, rows_of(packing, layout, "")});
  }
}

/// Packs documents whose lengths have a long tail. The longest one is much longer than 2 N tokens,
/// so that it does not matter how an answer distributes the few remaining tokens.
Packing random_packing(Check& check) {
  const int N = check.number_from(1, 8);
  std::vector<int> documents{check.number_from(80 * N, 120 * N)};
  int length = documents.front();
  const int least = check.number_from(160 * N, 240 * N);
  while (length < least) {
    const double tail = std::log(40.0 * N) * check.number_from(0, 1000) / 1000;
    documents.push_back(static_cast<int>(std::exp(tail)));
    length += documents.back();
  }
  if (const int rest = length % (2 * N); rest != 0) documents.push_back(2 * N - rest);
  for (std::size_t i = documents.size(); i-- > 1;)
    std::swap(documents[i],
              documents[static_cast<std::size_t>(check.number_from(0, static_cast<int>(i)))]);
  return {N, documents};
}

}  // namespace

void check(Check& check) {
  check_one(check, {2, {12, 4}});
  check_one(check, {2, {4, 12}});
  check_one(check, {1, {5, 1}});
  check_one(check, {2, {1, 1, 1, 1}});
  check_one(check, {4, {5, 1, 1, 1}});
  check_one(check, {8, {10, 1, 1, 1, 1, 1, 1}});
  check_one(check, {3, {3, 50, 1}});
  check_one(check, {2, {16}});
  // Stripes of N tokens begin where documents begin, so their imbalances add up.
  check_one(check, {4, std::vector(12, 8)});
  check_one(check, {4, {70, 2, 1, 9, 3, 27, 6, 10}}, /*shown=*/true);
  check_one(check, {8, {300, 5, 80, 17, 2, 9, 41, 1, 25}});
  check_one(check, {8, std::vector(30, 16)});
  // Documents of N tokens and documents of one: what deals out positions in turns, whole rounds or
  // whole documents gives some rank the late tokens of too many of them.
  for (const int N : {4, 5, 7, 11}) {
    std::vector<int> in_turn, long_first(16, N);
    for (int i = 0; i < 16; ++i) {
      in_turn.push_back(N);
      in_turn.insert(in_turn.end(), at(N), 1);
    }
    long_first.insert(long_first.end(), at(16 * N), 1);
    check_one(check, {N, in_turn});
    check_one(check, {N, long_first});
  }
  for (int trial = 0; trial < 12; ++trial) check_one(check, random_packing(check));
}

}  // namespace lockstep::exercises
