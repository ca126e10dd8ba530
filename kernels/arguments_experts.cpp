#include "kernels/arguments.h"
#include "kernels/check.h"

/// The checks of the kernels for a mixture of experts.

namespace lockstep::arguments {
namespace {

/// Checks the router's results for N rows of E columns, and returns the sizes.
Experts routed(const char* kernel, Named probabilities, Named experts) {
  want_statistics(kernel, {probabilities});
  want_indices(kernel, experts);
  const View &p = probabilities.view, &e = experts.view;
  want(kernel,
       p.shape.rank() == 2 && e.shape.rank() == 2 && p.shape[0] == e.shape[0] && e.shape[1] >= 1 &&
           e.shape[1] <= p.shape[1],
       experts, probabilities, "experts must be (N, k) and probabilities (N, E), with k <= E");
  return {.rows = p.shape[0], .h = 0, .slots = 0, .experts = p.shape[1], .k = e.shape[1]};
}

/// Checks combine_rows or its backward pass, whose `y` is dy.
Experts combined(const char* kernel, Named y, Named x, Named slots, View probabilities,
                 View experts) {
  want_contiguous(kernel, {y, x});
  want_indices(kernel, slots);
  want_one_type(kernel, {y, x});
  const bool two = slots.view.shape.rank() == 2;
  want(kernel, two && slots.view.shape[0] == y.view.shape.rows(), slots, y,
       "slots must be (N, k), with as many rows as y");
  want(kernel, y.view.shape.last() == x.view.shape.last(), y, x, "both must have h columns");
  Experts n{.rows = y.view.shape.rows(),
            .h = y.view.shape.last(),
            .slots = x.view.shape.rows(),
            .experts = 0,
            .k = slots.view.shape[1]};
  if (probabilities.elements() == 0) return n;
  const Experts chosen = routed(kernel, {"probabilities", probabilities}, {"experts", experts});
  want(kernel, experts.shape == slots.view.shape, {"experts", experts}, slots,
       "both must be (N, k)");
  n.experts = chosen.experts;
  return n;
}

}  // namespace

Experts router_forward(View logits, View probabilities, View experts, View gaps) {
  constexpr const char* kernel = "router_forward";
  want_contiguous(kernel, {{"logits", logits}});
  const Experts n = routed(kernel, {"probabilities", probabilities}, {"experts", experts});
  want_same_rows(kernel, {"probabilities", probabilities}, {"logits", logits});
  want_one_per_row(kernel, {"gaps", gaps}, {"logits", logits});
  return n;
}

Experts router_backward(View probabilities, View experts, View dweights, View balance,
                        View dlogits) {
  constexpr const char* kernel = "router_backward";
  const Experts n = routed(kernel, {"probabilities", probabilities}, {"experts", experts});
  want_statistics(kernel, {{"dweights", dweights}, {"balance", balance}});
  want_contiguous(kernel, {{"dlogits", dlogits}});
  want_same_elements(kernel, {"dweights", dweights}, {"experts", experts});
  want(kernel, balance.elements() == n.experts, {"balance", balance},
       {"probabilities", probabilities}, "balance must have one element for each expert");
  want_same_rows(kernel, {"dlogits", dlogits}, {"probabilities", probabilities});
  return n;
}

Experts gather_rows(View x, View rows, View y) {
  constexpr const char* kernel = "gather_rows";
  want_contiguous(kernel, {{"x", x}, {"y", y}});
  want_indices(kernel, {"rows", rows});
  want_one_type(kernel, {{"x", x}, {"y", y}});
  want(kernel, x.shape.last() == y.shape.last(), {"x", x}, {"y", y}, "both must have h columns");
  want(kernel, rows.elements() == y.shape.rows(), {"rows", rows}, {"y", y},
       "there must be one index for each row of y");
  return {
      .rows = x.shape.rows(), .h = x.shape.last(), .slots = y.shape.rows(), .experts = 0, .k = 1};
}

Experts combine_rows(View x, View slots, View probabilities, View experts, View y) {
  return combined("combine_rows", {"y", y}, {"x", x}, {"slots", slots}, probabilities, experts);
}

Experts combine_rows_backward(View dy, View x, View slots, View probabilities, View experts,
                              View dx, View dweights) {
  constexpr const char* kernel = "combine_rows_backward";
  const Experts n =
      combined(kernel, {"dy", dy}, {"x", x}, {"slots", slots}, probabilities, experts);
  want_contiguous(kernel, {{"dx", dx}});
  want_one_type(kernel, {{"dx", dx}, {"dy", dy}});
  want_same_rows(kernel, {"dx", dx}, {"x", x});
  want_statistics(kernel, {{"dweights", dweights}});
  want_same_elements(kernel, {"dweights", dweights}, {"slots", slots});
  want(kernel, n.experts > 0, {"probabilities", probabilities}, {"slots", slots},
       "the gradients need the probabilities");
  return n;
}

}  // namespace lockstep::arguments
