/// Each kernel here converts its arguments, calls the f32 kernel of the same name and rounds the
/// results; see NarrowKernels. Arguments that must be f32 (statistics, moments) are passed through
/// unchanged, and the f32 kernel checks them.

#include "kernels/cpu/narrow.h"

#include <array>
#include <cstddef>
#include <memory>

namespace lockstep::cpu {
namespace {

template <class... Views>
bool all_wide(const Views&... views) {
  return (!is_narrow(views.dtype) && ...);
}

/// Converts the narrow arguments of one call to f32.
class Widened {
 public:
  explicit Widened(const CpuKernels& kernels) : kernels_(kernels) {}

  /// Returns an f32 copy of an input argument.
  View in(View view) { return take(view, true, false); }
  /// Returns f32 memory for an output argument; round() writes it back.
  View out(View view) { return take(view, false, true); }
  /// Returns an f32 copy of an in-out argument; round() writes it back.
  View in_out(View view) { return take(view, true, true); }

  /// Rounds the outputs back to their narrow types. Call this after the f32 kernel.
  void round() const {
    for (std::size_t i = 0; i < written_; ++i) kernels_.convert({}, results_[i], targets_[i]);
  }

 private:
  static constexpr std::size_t most = 8;  // arguments of attention_backward

  View take(View view, bool read, bool written) {
    if (!is_narrow(view.dtype)) return view;
    View wide = view;
    wide.dtype = DType::f32;
    // The f32 kernel reports missing memory and overlapping rows.
    if (view.data == nullptr || view.elements() == 0 || view.row_stride < view.shape.last())
      return wide;
    // Keep the row stride: checking contiguity is up to the f32 kernel.
    const std::int64_t rows = view.shape.rows();
    const std::int64_t elements = (rows - 1) * view.row_stride + view.shape.last();
    auto& memory = memory_.at(taken_++);
    memory = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(elements));
    wide.data = memory.get();
    if (read) kernels_.convert({}, view, wide);
    if (written) {
      results_.at(written_) = wide;
      targets_.at(written_++) = view;
    }
    return wide;
  }

  const CpuKernels& kernels_;
  std::array<std::unique_ptr<float[]>, most> memory_;
  std::array<View, most> results_, targets_;
  std::size_t taken_ = 0, written_ = 0;
};

}  // namespace

void NarrowKernels::linear_forward(Queue q, View x, View w, View bias, View y,
                                   WeightLayout layout) const {
  if (all_wide(x, w, bias, y)) return f32_.linear_forward(q, x, w, bias, y, layout);
  Widened f{f32_};
  f32_.linear_forward(q, f.in(x), f.in(w), f.in(bias), f.out(y), layout);
  f.round();
}

void NarrowKernels::linear_backward_input(Queue q, View dy, View w, View dx,
                                          WeightLayout layout) const {
  if (all_wide(dy, w, dx)) return f32_.linear_backward_input(q, dy, w, dx, layout);
  Widened f{f32_};
  f32_.linear_backward_input(q, f.in(dy), f.in(w), f.out(dx), layout);
  f.round();
}

void NarrowKernels::linear_backward_weight(Queue q, View x, View dy, View dw, View db,
                                           WeightLayout layout) const {
  if (all_wide(x, dy, dw, db)) return f32_.linear_backward_weight(q, x, dy, dw, db, layout);
  Widened f{f32_};
  f32_.linear_backward_weight(q, f.in(x), f.in(dy), f.in_out(dw), f.in_out(db), layout);
  f.round();
}

void NarrowKernels::layernorm_forward(Queue q, View x, View gain, View bias, View y, View mean,
                                      View rstd) const {
  if (all_wide(x, gain, bias, y)) return f32_.layernorm_forward(q, x, gain, bias, y, mean, rstd);
  Widened f{f32_};
  f32_.layernorm_forward(q, f.in(x), f.in(gain), f.in(bias), f.out(y), mean, rstd);
  f.round();
}

void NarrowKernels::layernorm_backward_input(Queue q, View dy, View x, View gain, View mean,
                                             View rstd, View dx) const {
  if (all_wide(dy, x, gain, dx))
    return f32_.layernorm_backward_input(q, dy, x, gain, mean, rstd, dx);
  Widened f{f32_};
  f32_.layernorm_backward_input(q, f.in(dy), f.in(x), f.in(gain), mean, rstd, f.out(dx));
  f.round();
}

void NarrowKernels::layernorm_backward_weight(Queue q, View dy, View x, View mean, View rstd,
                                              View dgain, View dbias) const {
  if (all_wide(dy, x, dgain, dbias))
    return f32_.layernorm_backward_weight(q, dy, x, mean, rstd, dgain, dbias);
  Widened f{f32_};
  f32_.layernorm_backward_weight(q, f.in(dy), f.in(x), mean, rstd, f.in_out(dgain),
                                 f.in_out(dbias));
  f.round();
}

void NarrowKernels::attention_forward(Queue queue, View q, View k, View v, int heads, View y,
                                      View lse, View probabilities) const {
  if (all_wide(q, k, v, y))
    return f32_.attention_forward(queue, q, k, v, heads, y, lse, probabilities);
  Widened f{f32_};
  f32_.attention_forward(queue, f.in(q), f.in(k), f.in(v), heads, f.out(y), lse, probabilities);
  f.round();
}

void NarrowKernels::attention_backward(Queue queue, View dy, View q, View k, View v, View y,
                                       View lse, View probabilities, int heads, View dq, View dk,
                                       View dv) const {
  if (all_wide(dy, q, k, v, y, dq, dk, dv))
    return f32_.attention_backward(queue, dy, q, k, v, y, lse, probabilities, heads, dq, dk, dv);
  Widened f{f32_};
  f32_.attention_backward(queue, f.in(dy), f.in(q), f.in(k), f.in(v), f.in(y), lse, probabilities,
                          heads, f.out(dq), f.out(dk), f.out(dv));
  f.round();
}

void NarrowKernels::embedding_forward(Queue q, View tokens, View tokens_table, View positions_table,
                                      View x) const {
  if (all_wide(tokens_table, positions_table, x))
    return f32_.embedding_forward(q, tokens, tokens_table, positions_table, x);
  Widened f{f32_};
  f32_.embedding_forward(q, tokens, f.in(tokens_table), f.in(positions_table), f.out(x));
  f.round();
}

void NarrowKernels::embedding_backward(Queue q, View tokens, View dx, View dtokens_table,
                                       View dpositions_table) const {
  if (all_wide(dx, dtokens_table, dpositions_table))
    return f32_.embedding_backward(q, tokens, dx, dtokens_table, dpositions_table);
  Widened f{f32_};
  f32_.embedding_backward(q, tokens, f.in(dx), f.in_out(dtokens_table), f.in_out(dpositions_table));
  f.round();
}

void NarrowKernels::cross_entropy_forward(Queue q, View logits, View targets, View losses,
                                          View lse) const {
  Widened f{f32_};
  f32_.cross_entropy_forward(q, f.in(logits), targets, losses, lse);
}

void NarrowKernels::cross_entropy_backward(Queue q, View logits, View targets, View lse,
                                           float scale, View dlogits) const {
  if (all_wide(logits, dlogits))
    return f32_.cross_entropy_backward(q, logits, targets, lse, scale, dlogits);
  Widened f{f32_};
  f32_.cross_entropy_backward(q, f.in(logits), targets, lse, scale, f.out(dlogits));
  f.round();
}

void NarrowKernels::gelu_forward(Queue q, View x, View y) const {
  if (all_wide(x, y)) return f32_.gelu_forward(q, x, y);
  Widened f{f32_};
  f32_.gelu_forward(q, f.in(x), f.out(y));
  f.round();
}

void NarrowKernels::gelu_backward(Queue q, View x, View dy, View dx) const {
  if (all_wide(x, dy, dx)) return f32_.gelu_backward(q, x, dy, dx);
  Widened f{f32_};
  f32_.gelu_backward(q, f.in(x), f.in(dy), f.out(dx));
  f.round();
}

void NarrowKernels::add(Queue q, View a, View b, View y) const {
  if (all_wide(a, b, y)) return f32_.add(q, a, b, y);
  Widened f{f32_};
  f32_.add(q, f.in(a), f.in(b), f.out(y));
  f.round();
}

void NarrowKernels::scale(Queue q, View x, float factor) const {
  Widened f{f32_};
  f32_.scale(q, f.in_out(x), factor);
  f.round();
}

void NarrowKernels::fill(Queue q, View x, float value) const {
  Widened f{f32_};
  f32_.fill(q, f.out(x), value);
  f.round();
}

void NarrowKernels::copy(Queue q, View from, View to) const {
  f32_.copy(q, from, to);
}

void NarrowKernels::convert(Queue q, View from, View to) const {
  f32_.convert(q, from, to);
}

void NarrowKernels::adamw(Queue q, View parameter, View gradient, View momentum, View variance,
                          const AdamWStep& step) const {
  if (all_wide(parameter, gradient))
    return f32_.adamw(q, parameter, gradient, momentum, variance, step);
  Widened f{f32_};
  f32_.adamw(q, f.in_out(parameter), f.in(gradient), momentum, variance, step);
  f.round();
}

double NarrowKernels::sum_of_squares(Queue q, View x) const {
  Widened f{f32_};
  return f32_.sum_of_squares(q, f.in(x));
}

bool NarrowKernels::finite(Queue q, View x) const {
  Widened f{f32_};
  return f32_.finite(q, f.in(x));
}

double NarrowKernels::sum(Queue q, View x) const {
  Widened f{f32_};
  return f32_.sum(q, f.in(x));
}

}  // namespace lockstep::cpu
