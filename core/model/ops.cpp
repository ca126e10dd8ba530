#include "core/model/ops.h"

namespace lockstep {

namespace {

/// Returns the memory traffic of reading or writing each operand once.
template <class... Views>
Cost moved(const Views&... views) {
  return {.flops = 0, .bytes = (static_cast<double>(views.bytes()) + ...)};
}

double bytes_of(std::int64_t elements, std::size_t width) {
  return static_cast<double>(width) * static_cast<double>(elements);
}

double product_flops(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
}

/// Returns the FLOPs of one (s, s) product over all heads; causal, so counted half: b s² h.
double causal_product_flops(const Shape& y) {
  return static_cast<double>(y.elements()) * static_cast<double>(y[1]);
}

}  // namespace

Cost cost::linear_forward(std::int64_t rows, std::int64_t in, std::int64_t out, bool bias,
                          std::size_t width) {
  return {product_flops(rows, in, out),
          bytes_of(rows * in + in * out + rows * out + (bias ? out : 0), width)};
}
Cost cost::linear_backward_input(std::int64_t rows, std::int64_t in, std::int64_t out,
                                 std::size_t width) {
  return {product_flops(rows, in, out), bytes_of(rows * out + in * out + rows * in, width)};
}
Cost cost::linear_backward_weight(std::int64_t rows, std::int64_t in, std::int64_t out, bool bias,
                                  std::size_t width) {
  // The weight gradient is read and written.
  return {product_flops(rows, in, out),
          bytes_of(rows * in + rows * out + 2 * in * out + (bias ? 2 * out : 0), width)};
}
Cost cost::attention_forward(const Shape& y, int heads, std::size_t width, bool probabilities) {
  const std::int64_t rows = y.rows() * heads;
  return {2 * causal_product_flops(y), bytes_of(4 * y.elements(), width) +
                                           bytes_of(rows + (probabilities ? rows * y[1] : 0), 4)};
}
Cost cost::attention_backward(const Shape& y, int heads, std::size_t width, bool probabilities) {
  // Reads dy, q, k, v, y and either lse or the probabilities; writes dq, dk, dv.
  const std::int64_t rows = y.rows() * heads;
  return {(probabilities ? 4 : 5) * causal_product_flops(y),
          bytes_of(8 * y.elements(), width) + bytes_of(probabilities ? rows * y[1] : rows, 4)};
}

void Ops::linear_forward(View x, View w, View bias, View y, WeightLayout layout) const {
  launch("linear",
         cost::linear_forward(x.shape.rows(), x.shape.last(), y.shape.last(), bias.elements() > 0,
                              size_of(x.dtype)),
         [&](const Kernels& k, Queue q) { k.linear_forward(q, x, w, bias, y, layout); });
}
void Ops::linear_backward_input(View dy, View w, View dx, WeightLayout layout) const {
  launch("linear_backward_input",
         cost::linear_backward_input(dy.shape.rows(), dx.shape.last(), dy.shape.last(),
                                     size_of(dx.dtype)),
         [&](const Kernels& k, Queue q) { k.linear_backward_input(q, dy, w, dx, layout); });
}
void Ops::linear_backward_weight(View x, View dy, View dw, View db, WeightLayout layout) const {
  launch("linear_backward_weight",
         cost::linear_backward_weight(x.shape.rows(), x.shape.last(), dy.shape.last(),
                                      db.elements() > 0, size_of(x.dtype)),
         [&](const Kernels& k, Queue q) { k.linear_backward_weight(q, x, dy, dw, db, layout); });
}

void Ops::layernorm_forward(View x, View gain, View bias, View y, View mean, View rstd) const {
  launch("layernorm", moved(x, gain, bias, y, mean, rstd),
         [&](const Kernels& k, Queue q) { k.layernorm_forward(q, x, gain, bias, y, mean, rstd); });
}
void Ops::layernorm_backward_input(View dy, View x, View gain, View mean, View rstd,
                                   View dx) const {
  launch("layernorm_backward_input", moved(dy, x, gain, mean, rstd, dx),
         [&](const Kernels& k, Queue q) {
           k.layernorm_backward_input(q, dy, x, gain, mean, rstd, dx);
         });
}
void Ops::layernorm_backward_weight(View dy, View x, View mean, View rstd, View dgain,
                                    View dbias) const {
  launch("layernorm_backward_weight", moved(dy, x, mean, rstd, dgain, dgain, dbias, dbias),
         [&](const Kernels& k, Queue q) {
           k.layernorm_backward_weight(q, dy, x, mean, rstd, dgain, dbias);
         });
}

void Ops::gelu_forward(View x, View y) const {
  launch("gelu", moved(x, y), [&](const Kernels& k, Queue q) { k.gelu_forward(q, x, y); });
}
void Ops::gelu_backward(View x, View dy, View dx) const {
  launch("gelu_backward", moved(x, dy, dx),
         [&](const Kernels& k, Queue q) { k.gelu_backward(q, x, dy, dx); });
}

void Ops::attention_forward(View queries, View keys, View values, int heads, View y, View lse,
                            View probabilities) const {
  launch("attention",
         cost::attention_forward(y.shape, heads, size_of(y.dtype), probabilities.elements() > 0),
         [&](const Kernels& k, Queue q) {
           k.attention_forward(q, queries, keys, values, heads, y, lse, probabilities);
         });
}
void Ops::attention_backward(View dy, View queries, View keys, View values, View y, View lse,
                             View probabilities, int heads, View dq, View dk, View dv) const {
  launch("attention_backward",
         cost::attention_backward(y.shape, heads, size_of(y.dtype), probabilities.elements() > 0),
         [&](const Kernels& k, Queue q) {
           k.attention_backward(q, dy, queries, keys, values, y, lse, probabilities, heads, dq, dk,
                                dv);
         });
}

void Ops::embedding_forward(View tokens, View tokens_table, View positions_table, View x) const {
  // Reads one row of each table for every row of x.
  launch("embedding", moved(tokens, x, x, x), [&](const Kernels& k, Queue q) {
    k.embedding_forward(q, tokens, tokens_table, positions_table, x);
  });
}
void Ops::embedding_backward(View tokens, View dx, View dtokens_table,
                             View dpositions_table) const {
  launch("embedding_backward", moved(tokens, dx, dx, dx, dx, dx), [&](const Kernels& k, Queue q) {
    k.embedding_backward(q, tokens, dx, dtokens_table, dpositions_table);
  });
}

void Ops::cross_entropy_forward(View logits, View targets, View losses, View lse) const {
  launch("cross_entropy", moved(logits, targets, losses, lse), [&](const Kernels& k, Queue q) {
    k.cross_entropy_forward(q, logits, targets, losses, lse);
  });
}
void Ops::cross_entropy_backward(View logits, View targets, View lse, float scale,
                                 View dlogits) const {
  launch("cross_entropy_backward", moved(logits, targets, lse, dlogits),
         [&](const Kernels& k, Queue q) {
           k.cross_entropy_backward(q, logits, targets, lse, scale, dlogits);
         });
}

void Ops::add(View a, View b, View y) const {
  launch("add", moved(a, b, y), [&](const Kernels& k, Queue q) { k.add(q, a, b, y); });
}
double Ops::sum(View x) const {
  if (!x) return 0;
  device_.compute.synchronise();  // wait here, where the watchdog can see it, not inside the kernel
  return device_.compute.kernels().sum(device_.compute.queue(), x);
}

}  // namespace lockstep
