#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "exercises/18_moe/task.h"
#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "Expert parallelism moves tokens, not weights: an all-to-all to the experts and one back, "
    "after "
    "a small one for the counts, because nobody but the router knows how many rows will come. The "
    "rank with the popular expert is the one for which all others wait.";

namespace {

constexpr double microseconds_per_row = 1;

using Row = std::vector<float>;

/// E different functions of a row. Their inputs and results are integers, and all weights are
/// multiples of 1/16, so that the outputs are exact.
struct Functions {
  std::vector<float> own, next, constant;  // by expert

  Functions(Check& check, int E) {
    for (int e = 0; e < E; ++e) {
      own.push_back(static_cast<float>(2 + e));
      next.push_back(static_cast<float>(check.number_from(1, 9)));
      constant.push_back(static_cast<float>(check.number_from(1, 99)));
    }
  }
  Row operator()(int expert, std::span<const float> row) const {
    Row result;
    for (std::size_t j = 0; j < row.size(); ++j)
      result.push_back(own[at(expert)] * row[j] + next[at(expert)] * row[(j + 1) % row.size()] +
                       constant[at(expert)]);
    return result;
  }
};

enum class Router { random, two_experts, first_half };

struct Case {
  int N, E, h;
  std::vector<int> tokens;  ///< by rank
  Router router = Router::random;
};

/// The tokens of all ranks, and their choices of experts.
struct Batch {
  Case sizes;
  std::string what;
  Functions functions;
  std::vector<std::vector<Row>> tokens;      // by rank
  std::vector<std::vector<Choice>> choices;  // by rank, two per token

  Batch(Check& check, Case sizes_);

  int owner(int expert) const { return expert / (sizes.E / sizes.N); }
  const Choice& choice(int rank, std::size_t token, std::size_t k) const {
    return choices[at(rank)][2 * token + k];
  }
  bool has_chosen(int rank, std::size_t token, int expert) const {
    return choice(rank, token, 0).expert == expert || choice(rank, token, 1).expert == expert;
  }
  /// Returns the result for this token of the k-th of its two experts, times `weight`.
  Row result(int rank, std::size_t token, std::size_t k, float weight) const {
    Row all = functions(choice(rank, token, k).expert, tokens[at(rank)][token]);
    for (float& each : all) each *= weight;
    return all;
  }
  Row output(int rank, std::size_t token) const;
  int rows_of(int expert) const;
  std::string describe_choices(int rank, std::size_t token) const {
    return fmt::format("experts {} and {}", choice(rank, token, 0).expert,
                       choice(rank, token, 1).expert);
  }
};

Row sum(Row a, const Row& b) {
  for (std::size_t j = 0; j < a.size(); ++j) a[j] += b[j];
  return a;
}

Batch::Batch(Check& check, Case sizes_) : sizes(std::move(sizes_)), functions(check, sizes.E) {
  const auto& [N, E, h, counts, router] = sizes;
  what = fmt::format("{}, {} experts, h = {}, {} tokens", count_of(N, "rank"), E, h,
                     fmt::join(counts, " + "));
  // Two experts of the same rank, if each rank has more than one, so that the other ranks receive
  // no tokens at all.
  const int popular = E / N > 1 ? check.number_from(0, N - 1) * (E / N) : 0;
  if (router == Router::two_experts)
    what += fmt::format(", all for experts {} and {}", popular, popular + 1);
  if (router == Router::first_half) what += ", none for the second half of the experts";
  int number = 0;
  for (int r = 0; r < N; ++r) {
    tokens.emplace_back();
    choices.emplace_back();
    for (int t = 0; t < counts[at(r)]; ++t) {
      // The first number of the row differs from token to token.
      Row row{static_cast<float>(10 * ++number + check.number_from(0, 9))};
      while (static_cast<int>(row.size()) < h)
        row.push_back(static_cast<float>(check.number_from(-999, 999)));
      tokens.back().push_back(row);
      const int among = router == Router::first_half ? std::max(2, E / 2) : E;
      int first = check.number_from(0, among - 1), second = check.number_from(0, among - 2);
      if (second >= first) ++second;
      if (router == Router::two_experts) {
        first = popular + t % 2;
        second = popular + 1 - t % 2;
      }
      // The two weights are odd numbers of sixteenths, and differ from each other.
      const int weight = check.number_from(0, 3), step = check.number_from(1, 3);
      const auto sixteenths = [](int i) { return static_cast<float>(2 * (i % 7) + 3) / 16; };
      choices.back().push_back({first, sixteenths(weight)});
      choices.back().push_back({second, sixteenths(weight + step)});
    }
  }
}

Row Batch::output(int rank, std::size_t token) const {
  return sum(result(rank, token, 0, choice(rank, token, 0).weight),
             result(rank, token, 1, choice(rank, token, 1).weight));
}

int Batch::rows_of(int expert) const {
  int rows = 0;
  for (const auto& each : choices)
    for (const Choice& choice : each) rows += choice.expert == expert ? 1 : 0;
  return rows;
}

// --- The rows of an expert -----------------------------------------------------------------------

/// Explains why the expert should not have received this row, and names the token of the row.
Wrong why_not_its_row(const Batch& batch, int expert, const Row& row) {
  const std::string got = fmt::format("expert {} is applied to the row [{}]", expert, list(row));
  if (std::ranges::all_of(row, [](float each) { return each == 0; }))
    return {got,
            "This row is empty: more rows were sent or allocated than there are tokens. "
            "Exchange the counts, so that each rank knows how many rows come."};
  for (int r = 0; r < batch.sizes.N; ++r)
    for (std::size_t t = 0; t < batch.tokens[at(r)].size(); ++t) {
      if (row == batch.tokens[at(r)][t]) {
        const bool is_near = batch.owner(batch.choice(r, t, 0).expert) == batch.owner(expert) ||
                             batch.owner(batch.choice(r, t, 1).expert) == batch.owner(expert);
        return {fmt::format("{}. This is token {} of rank {}, which has chosen {}", got, t, r,
                            batch.describe_choices(r, t)),
                is_near
                    ? "The token is on the right rank, but it has not chosen this expert. "
                      "What a rank receives is ordered by sending rank first; each of these parts "
                      "has rows for all of its experts."
                    : fmt::format("Neither of them is on rank {}: expert e is on rank e / (E/N), "
                                  "here e / {}. Rows must leave in the order of their ranks.",
                                  batch.owner(expert), batch.sizes.E / batch.sizes.N)};
      }
      for (std::size_t k = 0; k < 2; ++k) {
        Row weighted = batch.tokens[at(r)][t];
        for (float& each : weighted) each *= batch.choice(r, t, k).weight;
        if (row == weighted)
          return {fmt::format("{}. This is token {} of rank {}, times its weight {:g}", got, t, r,
                              batch.choice(r, t, k).weight),
                  "The gate's weight belongs to the expert's result. An expert is not linear, so "
                  "its input must be the token as it is."};
      }
    }
  return {got + ", which is no token",
          "A row is h numbers that belong together. Do counts and places in the all-to-all count "
          "numbers, h per row?"};
}

/// The number of an expert's calls that had any rows, and the number of rows in the first of them.
struct Applied {
  int times = 0, rows = 0;
};

Wrong wrong_count(const Batch& batch, int expert, int found) {
  const int expected = batch.rows_of(expert);
  std::string why = found < expected
                        ? "Tokens are missing. The layer is dropless: an expert takes all rows "
                          "that come for it from all ranks."
                        : "Each token that has chosen the expert is one row, not more.";
  if (batch.sizes.N > 1 && batch.sizes.E > batch.sizes.N)
    why +=
        " What a rank receives is ordered by sending rank first; each of these parts has rows "
        "for all of its experts.";
  return {
      fmt::format("expert {} is applied to {}, and {} chosen it", expert, count_of(found, "row"),
                  expected == 1 ? "1 token has" : fmt::format("{} tokens have", expected)),
      why};
}

/// Applies an expert and checks the rows that it receives.
void apply(const Batch& batch, World& world, int expert, std::span<float> rows,
           std::vector<Applied>& applied) {
  const auto& [N, E, h, counts, router] = batch.sizes;
  const int own = E / N, first = world.rank() * own;
  expect_arrived("apply()", rows);
  expect_free(world, "apply()", rows);
  if (expert < first || expert >= first + own)
    throw Wrong{fmt::format("rank {} applies expert {}, and has {}", world.rank(), expert,
                            own == 1 ? fmt::format("expert {}", first)
                                     : fmt::format("experts {} to {}", first, first + own - 1)),
                expert >= 0 && expert < own
                    ? "Experts are numbered over all ranks: the first one of rank r is r E/N."
                    : "A rank applies only the experts that it has: r E/N to (r + 1) E/N - 1."};
  if (rows.size() % at(h) != 0)
    throw Wrong{fmt::format("expert {} is applied to {} numbers", expert, rows.size()),
                fmt::format("A row has h numbers, here {}.", h)};
  const int found = static_cast<int>(rows.size()) / h;
  if (found == 0) return;
  Applied& before = applied[at(expert)];
  if (++before.times > 1)
    throw Wrong{fmt::format("expert {} is applied more than once: to {}, and then to {}", expert,
                            count_of(before.rows, "row"), found),
                "Bring an expert's rows from all ranks together, and apply it once: it reads its "
                "weights once, and one large matrix product is faster than many small ones."};
  before.rows = found;
  for (int i = 0; i < found; ++i) {
    const auto data = rows.subspan(at(i) * at(h), at(h));
    const Row row(data.begin(), data.end());
    bool is_its_row = false;
    for (int r = 0; r < N; ++r)
      for (std::size_t t = 0; t < batch.tokens[at(r)].size(); ++t)
        is_its_row =
            is_its_row || (row == batch.tokens[at(r)][t] && batch.has_chosen(r, t, expert));
    if (!is_its_row) throw why_not_its_row(batch, expert, row);
    std::ranges::copy(batch.functions(expert, row), data.begin());
  }
  if (found > batch.rows_of(expert)) throw wrong_count(batch, expert, found);
  world.compute(fmt::format("E{}", expert), found * microseconds_per_row);
}

// --- The outputs ---------------------------------------------------------------------------------

std::string why_not_output(const Batch& batch, int r, std::size_t t, const Row& found) {
  const Choice &first = batch.choice(r, t, 0), &second = batch.choice(r, t, 1);
  const auto both = [&](float a, float b) {
    return sum(batch.result(r, t, 0, a), batch.result(r, t, 1, b));
  };
  if (found == both(1, 1))
    return "These are the results of both experts, but without their weights.";
  if (found == both(0.5, 0.5))
    return "This is the average of both results. The router's weights decide how much each counts.";
  const float all = first.weight + second.weight;
  const Row rescaled = both(first.weight / all, second.weight / all);
  if (std::ranges::equal(found, rescaled, [](float a, float b) { return std::abs(a - b) < 0.5F; }))
    return "The weights were rescaled to add up to 1. Here they are used as they are.";
  if (found == both(second.weight, first.weight))
    return "The two weights are exchanged: each belongs to the result of its own expert.";
  if (found == batch.tokens[at(r)][t]) return "This is the token itself: nothing was written.";
  if (found == sum(batch.output(r, t), batch.tokens[at(r)][t]))
    return "The token itself was added, too. Set it to 0 before the results are added up.";
  for (std::size_t k = 0; k < 2; ++k)
    if (found == batch.result(r, t, k, batch.choice(r, t, k).weight) ||
        found == batch.result(r, t, k, 1))
      return fmt::format(
          "This contains only the result of expert {}. A token gets two results: add them, so that "
          "the one that comes later does not replace the other.",
          batch.choice(r, t, k).expert);
  // Two expert results for this rank's tokens that do not belong together, each times any of this
  // rank's weights.
  const auto& choices = batch.choices[at(r)];
  for (std::size_t a = 0; a < choices.size(); ++a)
    for (std::size_t b = 0; b < choices.size(); ++b)
      for (const bool is_own_weight : {false, true}) {
        const float wa = is_own_weight ? choices[a].weight : first.weight;
        const float wb = is_own_weight ? choices[b].weight : second.weight;
        if (a != b &&
            found == sum(batch.result(r, a / 2, a % 2, wa), batch.result(r, b / 2, b % 2, wb)))
          return fmt::format(
              "These are results for token {}{}. Results come back in the order in which the rows "
              "were sent, by expert, and not in the order of the tokens: remember which choice "
              "each row belongs to.",
              a / 2, b / 2 == a / 2 ? "" : fmt::format(" and token {}", b / 2));
      }
  return "Each result must return to the token that its row was copied from, be multiplied by the "
         "weight of that choice, and be added to the other expert's result for the token.";
}

std::string diagnose(const Failure& failure) {
  if (failure.waits_for_finished)
    return "A rank has left while another one waits for it. A rank that has no tokens, or whose "
           "experts nobody has chosen, still takes part in all three all-to-alls.";
  if (failure.deadlock)
    return "The ranks wait for each other. All of them must call the same collectives in the same "
           "order; between two ranks, start the send and the receive before waiting for either.";
  return "The ranks disagree on how many numbers one sends and the other receives. How many rows "
         "come from another rank is decided by that rank's router: each rank must tell the others "
         "how many rows they get, before the rows are sent.";
}

// --- The check -----------------------------------------------------------------------------------

void check_bytes(const Batch& batch, const Outcome& outcome) {
  const auto& [N, E, h, counts, router] = batch.sizes;
  std::vector<int> rows(at(N));
  for (int r = 0; r < N; ++r)
    for (const Choice& choice : batch.choices[at(r)])
      if (const int owner = batch.owner(choice.expert); owner != r) {
        ++rows[at(r)];      // the token
        ++rows[at(owner)];  // its result
      }
  for (int r = 0; r < N; ++r) {
    const int own = E / N, numbers = rows[at(r)] * h + own * (N - 1);
    const std::int64_t sent = outcome.bytes_sent[at(r)];
    if (sent <= 4 * numbers) continue;
    const std::int64_t more = sent / 4 - numbers;
    std::string why =
        "The outputs are right, but too much is sent. A row goes only to the rank of its expert, "
        "and its result only to the rank of the token. What stays on a rank is not sent at all.";
    if (more == std::int64_t{E} * (N - 1) - own * (N - 1))
      why = fmt::format(
          "The rows are right, but all counts go to all ranks. A rank needs only those for its own "
          "experts, E/N = {} from each other rank: the counts are exchanged by an all-to-all, too.",
          own);
    throw Wrong{
        fmt::format("{}: rank {} sends {} B. Its {} rows to other ranks and the counts are {} B",
                    batch.what, r, sent, rows[at(r)], 4 * numbers),
        why};
  }
}

void check_one(Check& check, const Case& sizes) {
  const Batch batch{check, sizes};
  const auto& [N, E, h, counts, router] = batch.sizes;
  const Outcome outcome = check.run(
      batch.what, N,
      [&](World& world) {
        const int r = world.rank();
        Row mine;
        for (const Row& row : batch.tokens[at(r)]) mine.insert(mine.end(), row.begin(), row.end());
        const std::vector<Choice> choices = batch.choices[at(r)];  // so that its end is known
        std::vector<Applied> applied(at(E));
        mixture_of_experts(
            world,
            {.E = E,
             .width = h,
             .apply = [&](int expert,
                          std::span<float> rows) { apply(batch, world, expert, rows, applied); }},
            choices, mine);
        for (int e = r * (E / N); e < (r + 1) * (E / N); ++e) {
          // Checked only now, because rows that are missing from one call may come in a later one.
          if (const int found = applied[at(e)].rows; found > 0 && found < batch.rows_of(e))
            throw wrong_count(batch, e, found);
          if (applied[at(e)].times == 0 && batch.rows_of(e) > 0)
            throw Wrong{
                fmt::format("expert {} is never applied, and {} chosen it", e,
                            batch.rows_of(e) == 1
                                ? "1 token has"
                                : fmt::format("{} tokens have", batch.rows_of(e))),
                batch.tokens[at(r)].empty()
                    ? fmt::format("Rank {} has no tokens of its own. It still takes part in "
                                  "all three all-to-alls: its experts have been chosen by "
                                  "tokens of other ranks.",
                                  r)
                    : "Each rank applies all of its experts for which any rank has "
                      "tokens."};
        }
        return mine;
      },
      diagnose);
  for (int r = 0; r < N; ++r)
    for (std::size_t t = 0; t < batch.tokens[at(r)].size(); ++t) {
      const auto part = std::span{outcome.results[at(r)]}.subspan(t * at(h), at(h));
      const Row found(part.begin(), part.end()), right = batch.output(r, t);
      if (found == right) continue;
      throw Wrong{
          fmt::format("{}: token {} of rank {} is [{}] and has chosen {}, with weights {:g} "
                      "and {:g}. Its output should be [{}], and is [{}]",
                      batch.what, t, r, list(batch.tokens[at(r)][t]), batch.describe_choices(r, t),
                      batch.choice(r, t, 0).weight, batch.choice(r, t, 1).weight, list(right),
                      list(found)),
          why_not_output(batch, r, t, found)};
    }
  check_bytes(batch, outcome);
  if (N == 4 && router == Router::two_experts)
    check.show(
        "Your run on 4 ranks with all tokens for two experts of one rank: it computes, and the "
        "others wait for its results.",
        draw(outcome.rows));
}

}  // namespace

void check(Check& check) {
  for (const Case& sizes : {Case{2, 2, 2, {2, 1}},
                            {1, 3, 2, {4}},
                            {2, 4, 3, {3, 3}},
                            {2, 4, 3, {5, 2}, Router::two_experts},
                            {3, 6, 2, {4, 0, 3}},
                            {3, 3, 4, {2, 5, 3}, Router::first_half},
                            {4, 8, 3, {3, 4, 2, 3}, Router::two_experts},
                            {4, 8, 1, {0, 0, 0, 0}},
                            {4, 4, 1, {1, 0, 7, 2}},
                            {8, 16, 2, {3, 1, 4, 1, 5, 9, 2, 6}},
                            {11, 22, 2, {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}}})
    check_one(check, sizes);
  for (int trial = 0; trial < 6; ++trial) {
    Case sizes{check.number_from(1, 6), 0, check.number_from(1, 5), {}};
    sizes.E = sizes.N * check.number_from(sizes.N == 1 ? 2 : 1, 3);
    for (int r = 0; r < sizes.N; ++r) sizes.tokens.push_back(check.number_from(0, 6));
    check_one(check, sizes);
  }
}

}  // namespace lockstep::exercises
