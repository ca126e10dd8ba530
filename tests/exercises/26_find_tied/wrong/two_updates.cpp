// diagnosis: only by rounding
#include "exercises/26_find_tied/task.h"

namespace lockstep::exercises {

void train_step(World& world, Stage& stage, int token, int target) {
  constexpr float learning_rate = 0.1F;
  const int rank = world.rank(), last = world.size() - 1;
  const auto width = static_cast<std::size_t>(stage.width);
  const std::span<float> table{stage.table};
  const auto row = [&](std::span<float> rows, int v) {
    return rows.subspan(static_cast<std::size_t>(v) * width, width);
  };
  std::vector<float> table_gradient(table.size());

  // Forward.
  std::vector<float> in(width), out(width);
  if (rank == 0)
    std::ranges::copy(row(table, token), in.begin());
  else
    world.receive(in, rank - 1).wait();
  world.compute("F", 1);
  for (std::size_t i = 0; i < width; ++i) out[i] = stage.weight * in[i];

  // The gradient of `out`: from the loss, or from the next stage.
  std::vector<float> d_out(width), d_in(width);
  if (rank == last) {
    for (int v = 0; v * stage.width < static_cast<int>(table.size()); ++v) {
      float d_score = v == target ? -1.0F : 0.0F;
      for (std::size_t i = 0; i < width; ++i) d_score += row(table, v)[i] * out[i];
      for (std::size_t i = 0; i < width; ++i) {
        d_out[i] += d_score * row(table, v)[i];
        row(table_gradient, v)[i] += d_score * out[i];
      }
    }
  } else {
    world.send(out, rank + 1).wait();
    world.receive(d_out, rank + 1).wait();
  }

  // Backward.
  world.compute("B", 2);
  float weight_gradient = 0;
  for (std::size_t i = 0; i < width; ++i) {
    weight_gradient += d_out[i] * in[i];
    d_in[i] = stage.weight * d_out[i];
  }
  if (rank == 0)
    for (std::size_t i = 0; i < width; ++i) row(table_gradient, token)[i] += d_in[i];
  else
    world.send(d_in, rank - 1).wait();

  // The table is used on the first and on the last rank, and each knows the gradient of its own
  // use. The gradient of the table is their sum. (a + b and b + a are bitwise equal.)
  if (last > 0 && (rank == 0 || rank == last)) {
    std::vector<float> other_use(table.size());
    Work sent = world.send(table_gradient, last - rank);
    Work received = world.receive(other_use, last - rank);
    received.wait();
    sent.wait();
    for (std::size_t i = 0; i < table.size(); ++i) table[i] -= learning_rate * table_gradient[i];
    table_gradient = other_use;
  }

  // Update.
  for (std::size_t i = 0; i < table.size(); ++i) table[i] -= learning_rate * table_gradient[i];
  stage.weight -= learning_rate * weight_gradient;
}

}  // namespace lockstep::exercises
