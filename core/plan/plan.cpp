#include "core/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "core/plan/divisions.h"

namespace lockstep {

namespace {

constexpr Axis every_axis[] = {Axis::tp, Axis::cp,  Axis::dp,   Axis::pp,
                               Axis::ep, Axis::edp, Axis::dp_cp};

std::size_t index(Axis axis) {
  return static_cast<std::size_t>(axis);
}

Slice slice_of(const ParameterSpec& spec, const Mesh& mesh, const Place& place) {
  std::vector<DimensionCut> cuts;
  for (const Cut& cut : spec.cuts)
    if (const int parts = mesh.size(cut.axis); parts > 1)
      cuts.push_back({.dimension = cut.dimension,
                      .part = place.coordinate(cut.axis),
                      .parts = parts,
                      .sections = cut.sections,
                      .grain = cut.grain});
  return Slice{spec.shape, cuts};
}

}  // namespace

Plan::Plan(const GptConfig& config, const Mesh& mesh_)
    : model_(config),
      parameters_(std::make_shared<const std::vector<ParameterSpec>>(gpt_parameters(config))) {
  set_mesh(mesh_);
}

void Plan::set_mesh(const Mesh& mesh_) {
  mesh = mesh_;
  rank_of_stage.resize(static_cast<std::size_t>(mesh.size(Axis::pp)));
  std::iota(rank_of_stage.begin(), rank_of_stage.end(), 0);
}

Plan Plan::on_one_device() const {
  Plan one = *this;
  one.set_mesh({});
  one.split.clear();
  return one;
}

void Plan::set_model(const GptConfig& config, std::shared_ptr<const ModelBuilder> builder,
                     std::vector<ParameterSpec> parameters) {
  if (!std::ranges::is_sorted(parameters, std::less{}, &ParameterSpec::order))
    throw std::invalid_argument("Plan: the model's parameters are not in ascending order");
  model_ = config;
  builder_ = std::move(builder);
  parameters_ = std::make_shared<const std::vector<ParameterSpec>>(std::move(parameters));
}

int Place::only_stage() const {
  if (stages.size() != 1)
    throw std::logic_error(fmt::format(
        "rank {} holds {} stages, but this technique needs exactly one", rank, stages.size()));
  return stages.front();
}

Place Plan::place(int rank) const {
  if (rank < 0 || rank >= mesh.ranks())
    throw std::invalid_argument(fmt::format("no rank {} in a mesh of {}", rank, mesh.ranks()));
  Place place{.rank = rank};
  for (const Axis axis : every_axis) {
    place.coordinates[index(axis)] = mesh.coordinate(rank, axis);
    place.members[index(axis)] = mesh.group(rank, axis);
  }
  const std::vector<ParameterSpec>& all = parameters();
  for (int stage = 0; stage < stages(); ++stage) {
    if (rank_of_stage[static_cast<std::size_t>(stage)] != place.coordinate(Axis::pp)) continue;
    place.stages.push_back(stage);
    const StageLayers layers = layers_of(stage);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool table = all[i].order == token_table_order && model_.tied && layers.head;
      if (table || layers.runs(all[i].unit(), model_))
        place.held.push_back({stage, static_cast<int>(i), slice_of(all[i], mesh, place)});
    }
  }
  return place;
}

std::vector<int> Plan::replicas(int parameter, int rank) const {
  const ParameterSpec& spec = parameters().at(static_cast<std::size_t>(parameter));
  std::vector<bool> uses(static_cast<std::size_t>(mesh.size(Axis::pp)));
  for (int stage = 0; stage < stages(); ++stage) {
    const StageLayers layers = layers_of(stage);
    if (layers.runs(spec.unit(), model_) ||
        (spec.order == token_table_order && model_.tied && layers.head))
      uses[static_cast<std::size_t>(rank_of_stage[static_cast<std::size_t>(stage)])] = true;
  }
  std::vector<int> replicas;
  for (int other = 0; other < mesh.ranks(); ++other) {
    const bool same_cut = std::ranges::all_of(spec.cuts, [&](const Cut& cut) {
      return mesh.coordinate(other, cut.axis) == mesh.coordinate(rank, cut.axis);
    });
    if (same_cut && uses[static_cast<std::size_t>(mesh.coordinate(other, Axis::pp))])
      replicas.push_back(other);
  }
  return replicas;
}

std::vector<StoredUnit> Plan::units(const Place& place, int stage) const {
  std::vector<SlicedParameter> held;
  for (const Held& each : place.held)
    if (each.stage == stage)
      held.push_back({parameters()[static_cast<std::size_t>(each.parameter)], each.slice});
  return stored_units(model_, layers_of(stage), held);
}

int Plan::microbatch_size(int microbatches) const {
  if (batch.shares.empty()) return batch.sequences / mesh.size(Axis::dp) / microbatches;
  return batch.sequences / std::accumulate(batch.shares.begin(), batch.shares.end(), 0);
}

BatchShape Plan::samples(const Place& place, int microbatches) const {
  BatchShape shape{.microbatches = microbatches_of(place.coordinate(Axis::dp), microbatches),
                   .size = microbatch_size(microbatches),
                   .replicas = mesh.size(Axis::dp),
                   .replica = place.coordinate(Axis::dp),
                   .documents = batch.documents,
                   .shares = batch.shares};
  if (const int n = mesh.size(Axis::cp); n > 1)
    shape.context = {batch.context, place.coordinate(Axis::cp), n};
  return shape;
}

Boundary Plan::boundary(int microbatches) const {
  Boundary boundary = stage_boundary(model_, microbatch_size(microbatches));
  boundary.shape = {boundary.shape[0], boundary.shape[1] / mesh.size(Axis::cp), boundary.shape[2]};
  return boundary;
}

Clock Plan::clock(int rank, double pace) const {
  return modelled ? Clock::modelled(*modelled, rank, pace) : Clock::wall(ranks_per_node);
}

void Plan::validate() const {
  model_.validate();
  layers_of(0);
  const int tp = mesh.size(Axis::tp);
  check_heads(model_, fmt::format("--tp {} with --heads {}", tp, model_.heads), Axis::tp, tp);
  check_division({.flags = fmt::format("--tp {} with --mlp-width {}", tp, model_.mlp_width()),
                  .whole = model_.mlp_width(),
                  .items = "columns of the MLP",
                  .by = tp,
                  .into = fmt::format("{} equal parts", tp)},
                 [&] { return nearest_multiples("--mlp-width", tp, model_.mlp_width()); });
  if (const int cp = mesh.size(Axis::cp); cp > 1)
    context_positions(batch.context, model_.sequence, 0, cp);
  check_batch(*this, {batch.microbatches});
}

bool Plan::operator==(const Plan& other) const {
  return model_ == other.model_ && mesh == other.mesh && rank_of_stage == other.rank_of_stage &&
         split == other.split && batch == other.batch && optimizer == other.optimizer &&
         seed == other.seed && modelled == other.modelled && collectives == other.collectives &&
         receives_combine == other.receives_combine && on_meta == other.on_meta &&
         builder_ == other.builder_ && parameters() == other.parameters();
}

}  // namespace lockstep
