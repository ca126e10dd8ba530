#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

/// The lengths of the documents that are packed into one sequence, in order; together they are as
/// long as the sequence. A token attends only to its own document, up to itself, so the token at
/// place i of a document (from 0) has i + 1 keys.
using Documents = std::vector<int>;

/// Positions [begin, end) of a sequence.
struct Positions {
  int begin = 0;
  int end = 0;
  bool operator==(const Positions&) const = default;
};

/// Returns the number of pairs of a query and a key that see each other, for queries at these
/// positions: the work of their attention.
std::int64_t attention_pairs(const Documents& documents, const std::vector<Positions>& queries);

/// Returns the positions of each of n ranks, in ascending order, such that all ranks get equally
/// many tokens and about the same attention work, whatever the documents are.
///
/// Zigzag pairs the cheapest chunk of a causal sequence with the most expensive one. Zigzag ignores
/// where documents begin, and gives the beginnings of some documents to one rank and their ends to
/// another. Here, the sequence is cut into blocks (balanced_block), which are sorted by their work
/// and dealt out in rounds of n, the most expensive first. In each round, the rank with the least
/// work so far gets the most expensive block of the round, and so on. Two ranks whose work differs
/// by d, and whose blocks differ by e, then differ by |d - e| <= max(d, e). Any two ranks therefore
/// end up no further apart than the most expensive and the cheapest block of some round
/// (balance_bound).
std::vector<std::vector<Positions>> balanced_positions(const Documents& documents, int n);

/// Returns the number of tokens per block. It divides the number of a rank's tokens, and is the
/// largest that gives each of n ranks at least 32 blocks, or 1 if a rank has fewer tokens.
int balanced_block(int sequence, int n);

/// Returns how much more attention the busiest rank of balanced_positions() may have than the mean,
/// in pairs: (n - 1) / n times the largest difference between two blocks of one round.
double balance_bound(const Documents& documents, int n);

}  // namespace lockstep
