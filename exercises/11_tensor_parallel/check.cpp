#include "exercises/11_tensor_parallel/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "Columns first, then rows: the pair needs one all-reduce forward, after the rows, and one "
    "backward, before the columns. A sum whose terms are on different ranks has the same gradient "
    "on all of them, and an input that all ranks use has a gradient from each.";

// --- The functions of task.h ---------------------------------------------------------------------

Matrix multiply(const Matrix& a, const Matrix& b) {
  if (a.columns != b.rows)
    throw Wrong{fmt::format("multiply() is called with {} x {} and {} x {}", a.rows, a.columns,
                            b.rows, b.columns),
                "A product needs as many rows in the second matrix as columns in the first. Does "
                "one of them have to be transposed?"};
  Matrix product{a.rows, b.columns};
  for (int i = 0; i < a.rows; ++i)
    for (int k = 0; k < a.columns; ++k)
      for (int j = 0; j < b.columns; ++j) product(i, j) += a(i, k) * b(k, j);
  return product;
}

Matrix transposed(const Matrix& a) {
  Matrix result{a.columns, a.rows};
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j < a.columns; ++j) result(j, i) = a(i, j);
  return result;
}

void add_to_each_row(Matrix& a, const std::vector<float>& bias) {
  if (static_cast<int>(bias.size()) != a.columns)
    throw Wrong{fmt::format("add_to_each_row() is called with {} x {} and a bias of {}", a.rows,
                            a.columns, bias.size()),
                "A bias is as long as a row of the layer's output."};
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j < a.columns; ++j) a(i, j) += bias[at(j)];
}

std::vector<float> sum_of_rows(const Matrix& a) {
  std::vector<float> sum(static_cast<std::size_t>(a.columns));
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j < a.columns; ++j) sum[at(j)] += a(i, j);
  return sum;
}

namespace {

// --- The whole MLP on one device, in f64 ---------------------------------------------------------

struct Case {
  int N, tokens, inputs, hidden, outputs;
  std::string text() const {
    return fmt::format("{}, {}, X is {} x {}, A is {} x {}, B is {} x {}", count_of(N, "rank"),
                       count_of(tokens, "token"), tokens, inputs, inputs, hidden, hidden, outputs);
  }
};

using Numbers = std::vector<double>;

struct Whole {
  Case sizes;
  Matrix X, A, B, dY;
  Matrix a, b;  // the biases, 1 x n
};

/// The rows or columns of rank r: those from `begin` to before `end`.
struct Range {
  Range(int n, int r, int N) : begin(r * (n / N) + std::min(r, n % N)) {
    end = begin + n / N + (r < n % N ? 1 : 0);
  }
  int begin, end;
  int size() const { return end - begin; }
};

Matrix cut(const Matrix& all, Range rows, Range columns) {
  Matrix part{rows.size(), columns.size()};
  for (int i = 0; i < part.rows; ++i)
    for (int j = 0; j < part.columns; ++j) part(i, j) = all(rows.begin + i, columns.begin + j);
  return part;
}

/// The results of a rank that computes with the hidden columns in `mine`. With all columns, they
/// are the results of one device.
struct Results {
  Results(const Whole& whole, Range mine);
  Numbers H, term, dZ, dB, db, dX, dA, da;  // `term` is Z B without the bias
};

Results::Results(const Whole& whole, Range mine) {
  const auto& [N, tokens, inputs, hidden, outputs] = whole.sizes;
  term.resize(at(tokens * outputs));
  dX.resize(at(tokens * inputs));
  db.resize(at(outputs));
  dB.resize(at(mine.size() * outputs));
  dA.resize(at(inputs * mine.size()));
  da.resize(at(mine.size()));
  for (int t = 0; t < tokens; ++t) {
    for (int o = 0; o < outputs; ++o) db[at(o)] += whole.dY(t, o);
    for (int k = mine.begin; k < mine.end; ++k) {
      const std::size_t column = at(k - mine.begin);
      double h = whole.a(0, k), dz = 0;
      for (int i = 0; i < inputs; ++i) h += double{whole.X(t, i)} * whole.A(i, k);
      for (int o = 0; o < outputs; ++o) {
        dz += double{whole.dY(t, o)} * whole.B(k, o);
        term[at(t * outputs + o)] += h * h * whole.B(k, o);
        dB[column * at(outputs) + at(o)] += h * h * whole.dY(t, o);
      }
      const double dh = 2 * h * dz;
      H.push_back(h);
      dZ.push_back(dz);
      da[column] += dh;
      for (int i = 0; i < inputs; ++i) {
        dX[at(t * inputs + i)] += dh * whole.A(i, k);
        dA[at(i * mine.size()) + column] += dh * whole.X(t, i);
      }
    }
  }
}

// --- The run on several ranks --------------------------------------------------------------------

void expect_shape(const std::string& what, const Matrix& found, int rows, int columns) {
  if (found.rows == rows && found.columns == columns && found.numbers.size() == at(rows * columns))
    return;
  throw Wrong{fmt::format("{} is {} x {}, and should be {} x {}", what, found.rows, found.columns,
                          rows, columns),
              "A rank computes its own columns of H and of Z, and all of X's and Y's. A gradient "
              "has the shape of what it is the gradient of."};
}

void append(std::vector<float>& all, const std::vector<float>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

/// Calls the answer's functions, and returns their results in one vector. The function between the
/// layers is the square, so that integers remain integers.
std::vector<float> run_layers(World& world, const Whole& whole, bool backward) {
  const auto& [N, tokens, inputs, hidden, outputs] = whole.sizes;
  const Range mine{hidden, world.rank(), N}, one{1, 0, 1};
  const Linear first{cut(whole.A, {inputs, 0, 1}, mine), cut(whole.a, one, mine).numbers};
  const Linear second{cut(whole.B, mine, {outputs, 0, 1}), whole.b.numbers};
  std::vector<float> results;

  world.compute("XA", 5);
  const Matrix H = column_forward(world, first, whole.X);
  expect_shape("column_forward's result", H, tokens, mine.size());
  append(results, H.numbers);
  Matrix Z = H;
  for (float& each : Z.numbers) each *= each;
  world.compute("ZB", 5);
  const Matrix Y = row_forward(world, second, Z);
  expect_shape("row_forward's result", Y, tokens, outputs);
  append(results, Y.numbers);
  if (!backward) return results;

  world.compute("dZ", 10);
  const Gradients by_row = row_backward(world, second, Z, whole.dY);
  expect_shape("row_backward's gradient of Z", by_row.input, tokens, mine.size());
  expect_shape("row_backward's gradient of the weight", by_row.weight, mine.size(), outputs);
  Matrix bias{1, static_cast<int>(by_row.bias.size())};
  expect_shape("row_backward's gradient of the bias", bias, 1, outputs);
  append(results, by_row.input.numbers);
  append(results, by_row.weight.numbers);
  append(results, by_row.bias);
  Matrix dH = by_row.input;
  for (std::size_t i = 0; i < dH.numbers.size(); ++i) dH.numbers[i] *= 2 * H.numbers[i];
  world.compute("dX", 10);
  const Gradients by_column = column_backward(world, first, whole.X, dH);
  expect_shape("column_backward's gradient of X", by_column.input, tokens, inputs);
  expect_shape("column_backward's gradient of the weight", by_column.weight, inputs, mine.size());
  bias = Matrix{1, static_cast<int>(by_column.bias.size())};
  expect_shape("column_backward's gradient of the bias", bias, 1, mine.size());
  append(results, by_column.input.numbers);
  append(results, by_column.weight.numbers);
  append(results, by_column.bias);
  return results;
}

std::string diagnose_failure(const Failure& failure) {
  if (failure.deadlock || failure.waits_for_finished)
    return "All ranks must call the same collectives in the same order, whatever their parts are; "
           "a rank may also have no columns at all.";
  return "Are all ranks' arrays equally long in each collective? Parts are not: their sizes may "
         "differ by one.";
}

// --- Diagnoses -----------------------------------------------------------------------------------

Numbers sum(const Numbers& a, const Numbers& b, double times = 1) {
  Numbers result = a;
  for (std::size_t i = 0; i < a.size(); ++i) result[i] += times * b[i % b.size()];
  return result;
}

Numbers scaled(const Numbers& a, double factor) {
  return sum(a, a, factor - 1);
}

bool is(std::span<const float> found, const Numbers& numbers) {
  return std::ranges::equal(found, numbers, [](double x, double y) {
    return std::abs(x - y) <= 1e-4 * std::max(1.0, std::abs(y));
  });
}

using Why = std::function<std::string(std::span<const float>)>;

std::string why_not_H(std::span<const float> found, const Results& own, const Numbers& bias) {
  if (bias.empty()) return "";
  if (is(found, sum(own.H, bias, -1)))
    return "The bias is missing: each rank adds its own elements of it to its own columns.";
  return "Each rank has all of X and some columns of A: it multiplies them and adds its part of "
         "the bias, without asking anybody.";
}

std::string why_not_Y(std::span<const float> found, const Results& own, const Results& all,
                      const Numbers& bias, int N) {
  if (is(found, own.term) || is(found, sum(own.term, bias)))
    return "This is only the term of this rank. Its columns of Z and its rows of B give one term "
           "of a sum, which needs those of all ranks.";
  if (is(found, all.term)) return "The bias is missing: it is added to the sum.";
  if (N > 1 && is(found, sum(all.term, bias, N)))
    return fmt::format(
        "The bias is contained {} times: it was added once by each rank, before the "
        "sum over the ranks. It belongs to the sum, and not to its terms.",
        N);
  if (is(found, sum(scaled(all.term, 1.0 / N), bias)) ||
      is(found, scaled(sum(all.term, bias), 1.0 / N)) ||
      is(found, scaled(sum(all.term, bias, N), 1.0 / N)))
    return "This is an average. Each rank has one term of the product: they are added, and nothing "
           "is divided.";
  return "Y is the sum over ranks of Z_i B_i, plus the bias, once.";
}

std::string why_not_row_gradient(std::span<const float> found, const Numbers& expected, int N,
                                 bool replicated) {
  if (N > 1 && is(found, scaled(expected, N)))
    return fmt::format(
        "This is {} times the gradient. {}", N,
        replicated ? "Each rank computes it from the same dY, so it is the same on all ranks "
                     "already, and adding these copies is wrong."
                   : "Y is a sum with one term from each rank, and the gradient of a term is the "
                     "gradient of the sum: dY, which each rank has.");
  return "On one device, dZ = dY Bᵀ, dB = Zᵀ dY, and the bias's gradient is the sum of dY's rows. "
         "For a rank's columns of Z and rows of B it is the same.";
}

std::string why_not_dX(std::span<const float> found, const Results& own, const Results& all,
                       int N) {
  if (is(found, own.dX))
    return "This is only this rank's part of the gradient of X. Every rank has used X for its own "
           "columns, so each has a part of the gradient, and they must be added.";
  if (is(found, scaled(all.dX, 1.0 / N)))
    return "This is the average of the ranks' parts. They belong to the same loss: they are added, "
           "and nothing is divided.";
  if (N > 1 && is(found, scaled(all.dX, N)))
    return fmt::format("This is {} times the gradient: is it added twice?", N);
  return "The gradient of X is the sum over ranks of dH_i A_iᵀ.";
}

// --- The check -----------------------------------------------------------------------------------

Whole random_whole(Check& check, const Case& sizes) {
  const auto matrix = [&](int rows, int columns) {
    Matrix all{rows, columns};
    // Never 0, which would hide mistakes, and small enough that products are exact in f32.
    for (float& each : all.numbers)
      each = static_cast<float>(check.number_from(1, 5) * (check.number_from(0, 1) ? 1 : -1));
    return all;
  };
  const auto& [N, tokens, inputs, hidden, outputs] = sizes;
  return {sizes,
          matrix(tokens, inputs),
          matrix(inputs, hidden),
          matrix(hidden, outputs),
          matrix(tokens, outputs),
          matrix(1, hidden),
          matrix(1, outputs)};
}

/// Throws Wrong if a rank sends more bytes or more messages than its part of the all-reduces.
void check_pattern(const std::string& what, const Outcome& outcome, int N, int outputs, int inputs,
                   bool backward) {
  const auto longest = [&](int numbers) { return 4 * ((numbers + N - 1) / N); };
  const std::int64_t rounds = std::int64_t{2} * (N - 1);
  const std::int64_t most_bytes = rounds * (longest(outputs) + (backward ? longest(inputs) : 0));
  const std::int64_t most_messages = rounds * (backward ? 2 : 1);
  const char* const pass = backward ? "forward and backward" : "forward";
  for (int r = 0; r < N; ++r) {
    const std::int64_t bytes = outcome.bytes_sent[at(r)];
    const std::int64_t messages = outcome.messages_sent[at(r)];
    if (messages > most_messages)
      throw Wrong{
          fmt::format("{}: {}, rank {} has sent {}, and the all-reduces of this pass have {}", what,
                      pass, r, count_of(messages, "message"), most_messages),
          "The results are right, and so are the bytes, but they are sent in pieces, each of which "
          "costs a latency. One all-reduce takes the whole matrix, and has 2 (N - 1) messages of "
          "each rank."};
    if (bytes > most_bytes)
      throw Wrong{
          fmt::format("{}: {}, rank {} sends {} B, and its part of the all-reduces is at most {} B",
                      what, pass, r, bytes, most_bytes),
          "The results are right, and the ranks send no more together than they should, but this "
          "one sends more than the others, which wait for it. In an all-reduce, all ranks send "
          "equally much."};
  }
}

void check_bytes(const std::string& what, const Outcome& outcome, int N, int outputs, int inputs,
                 bool backward) {
  const auto all_reduce_of = [&](int numbers) { return std::int64_t{2} * (N - 1) * 4 * numbers; };
  const std::int64_t sent = outcome.all_bytes_sent();
  const std::int64_t right = all_reduce_of(outputs) + (backward ? all_reduce_of(inputs) : 0);
  if (sent == right) {
    check_pattern(what, outcome, N, outputs, inputs, backward);
    return;
  }
  if (!backward)
    throw Wrong{fmt::format("{}: forward, the ranks send {} B together, and one all-reduce of Y is "
                            "{} B",
                            what, sent, right),
                "Y is right, but more is sent than necessary. Between the two products, a rank "
                "needs nothing of what the others have computed: its columns of H become its "
                "columns of Z. Only the terms of Y must be added."};
  throw Wrong{
      fmt::format("{}: backward, the ranks send {} B together, and one all-reduce of the gradient "
                  "of X is {} B",
                  what, sent - all_reduce_of(outputs), all_reduce_of(inputs)),
      "The gradients are right, but more is sent than necessary. Only the gradient of X is a sum "
      "over the ranks: the others belong to one rank alone, or are the same on all of them."};
}

void check_one(Check& check, const Case& sizes) {
  const auto& [N, tokens, inputs, hidden, outputs] = sizes;
  const Whole whole = random_whole(check, sizes);
  const Results all{whole, {hidden, 0, 1}};
  const Numbers b{whole.b.numbers.begin(), whole.b.numbers.end()};
  const std::string what = sizes.text();
  for (const bool backward : {false, true}) {
    const Outcome outcome = check.run(
        what, N, [&](World& world) { return run_layers(world, whole, backward); },
        diagnose_failure);
    for (int r = 0; r < N; ++r) {
      const Range mine{hidden, r, N};
      const Results own{whole, mine};
      const std::vector<float> a = cut(whole.a, {1, 0, 1}, mine).numbers;
      std::span<const float> rest{outcome.results[at(r)]};
      const auto expect = [&](const std::string& name, const Numbers& expected, const Why& why) {
        const std::span<const float> found = rest.first(expected.size());
        rest = rest.subspan(expected.size());
        if (is(found, expected)) return;
        throw Wrong{
            fmt::format("{}: {} of rank {} should be [{}], and is [{}]", what, name, r,
                        list(std::vector<float>(expected.begin(), expected.end())), list(found)),
            why(found)};
      };
      const auto why_not_gradient = [&](const Numbers& expected, bool replicated) -> Why {
        return [&, replicated](auto found) {
          return why_not_row_gradient(found, expected, N, replicated);
        };
      };
      expect("column_forward's H", own.H, [&](auto found) {
        return why_not_H(found, own, {a.begin(), a.end()});
      });
      expect("row_forward's Y", sum(all.term, b),
             [&](auto found) { return why_not_Y(found, own, all, b, N); });
      if (!backward) continue;
      expect("row_backward's gradient of Z", own.dZ, why_not_gradient(own.dZ, false));
      expect("row_backward's gradient of the weight", own.dB, why_not_gradient(own.dB, false));
      expect("row_backward's gradient of the bias", own.db, why_not_gradient(own.db, true));
      expect("column_backward's gradient of X", all.dX,
             [&](auto found) { return why_not_dX(found, own, all, N); });
      const Why columns = [](auto) {
        return "A rank's columns of A have been used on this rank alone, so their gradient is "
               "Xᵀ dH with its own dH, and the bias's is the sum of dH's rows.";
      };
      expect("column_backward's gradient of the weight", own.dA, columns);
      expect("column_backward's gradient of the bias", own.da, columns);
    }
    check_bytes(what, outcome, N, tokens * outputs, tokens * inputs, backward);
    if (N == 4 && backward)
      check.show(
          "Your run on 4 ranks: the ranks send nothing between X A and Z B, then the all-reduce of "
          "Y; backward, nothing until all parts of X's gradient are computed.",
          draw(outcome.rows));
  }
}

}  // namespace

void check(Check& check) {
  // With {4, 3, 2, 3, 4}, one rank has no columns.
  const Case cases[]{{2, 1, 2, 2, 2}, {2, 2, 3, 4, 2},  {3, 2, 2, 7, 3},  {1, 2, 3, 4, 3},
                     {4, 3, 2, 3, 4}, {8, 1, 1, 11, 1}, {11, 2, 2, 24, 3}};
  for (const Case& sizes : cases) check_one(check, sizes);
  for (int trial = 0; trial < 4; ++trial)
    check_one(check, {check.number_from(1, 8), check.number_from(1, 4), check.number_from(1, 3),
                      check.number_from(1, 11), check.number_from(1, 5)});
}

}  // namespace lockstep::exercises
