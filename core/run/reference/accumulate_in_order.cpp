#include "core/run/reference/accumulate_in_order.h"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace lockstep {

namespace {

/// All gradients of a model, keyed by ParameterSpec::order.
using Gradients = std::map<int, Tensor>;

/// Moves the gradients out of the model and leaves zeros in their place. Does not touch a tied
/// head's separate gradient.
Gradients taken(Gpt& model) {
  Gradients gradients;
  for (Parameter* parameter : model.parameters()) {
    if (parameter->frozen) continue;
    Tensor copy{model.device().memory, parameter->slice.local(), MemoryCategory::gradients,
                parameter->dtype};
    model.device().compute.kernels().copy(model.device().compute.queue(), parameter->gradient,
                                          copy);
    fill_with_zeros(model.device(), parameter->gradient);
    gradients.emplace(parameter->order, std::move(copy));
  }
  return gradients;
}

View part_of(View whole, const Slice::Run& run) {
  return whole.reshaped({whole.elements()}).columns(run.in_box, run.elements);
}

}  // namespace

double accumulate_in_order(Gpt& model, const std::vector<Batch>& batches, const SumOrder& order) {
  std::map<int, std::int64_t> covered;  // number of elements, by parameter
  for (const SumOrder::Segment& segment : order.segments)
    covered[segment.parameter] += segment.slice.elements();
  for (const Parameter* parameter : model.parameters())
    if (!parameter->frozen && covered[parameter->order] != parameter->shape.elements())
      throw std::invalid_argument("a SumOrder that leaves a part of " + parameter->name + " out");
  const std::size_t m = batches.front().microbatches.size();
  std::vector<std::vector<Gradients>> rounds(order.every_microbatch ? m : 1);  // [round][replica]
  double loss = 0;
  for (const Batch& batch : batches) {
    model.zero_gradients();
    double share = 0;
    const std::size_t own = batch.microbatches.size();
    if (order.every_microbatch && own != m)
      throw std::invalid_argument("a SumOrder of every microbatch, but replicas' shares differ");
    for (std::size_t i = 0; i < own; ++i) {
      Stash stash;
      model.forward(batch.microbatches[i], {}, stash);
      share += model.loss(stash);
      model.backward({}, stash);
      if (order.every_microbatch)
        rounds[i].push_back(taken(model));
      else if (i + 1 == own)
        rounds[0].push_back(taken(model));
    }
    loss += share;
  }
  std::map<int, View> sums;
  for (const Parameter* parameter : model.parameters())
    sums[parameter->order] = parameter->gradient;
  const Kernels& k = model.device().compute.kernels();
  const Queue queue = model.device().compute.queue();
  for (const std::vector<Gradients>& replicas : rounds) {
    const std::size_t n = replicas.size();
    for (const SumOrder::Segment& segment : order.segments)
      for (const Slice::Run& run : segment.slice.runs()) {
        const auto of = [&](std::size_t step) {
          const std::size_t replica = (static_cast<std::size_t>(segment.begin) + step) % n;
          return part_of(replicas[replica].at(segment.parameter), run);
        };
        const View ring = of(0);
        for (std::size_t step = 1; step < n; ++step) k.add(queue, ring, of(step), ring);
        const View sum = part_of(sums.at(segment.parameter), run);
        k.add(queue, sum, ring, sum);
      }
  }
  return loss;
}

}  // namespace lockstep
