#include "core/plan/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "core/base/error.h"

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
    : mesh(mesh_),
      rank_of_stage(static_cast<std::size_t>(mesh_.size(Axis::pp))),
      model_(config),
      parameters_(std::make_shared<const std::vector<ParameterSpec>>(gpt_parameters(config))) {
  std::iota(rank_of_stage.begin(), rank_of_stage.end(), 0);
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
  const StageLayers layers = layers_of(stage);
  std::vector<StoredUnit> units;
  if (layers.embedding) units.push_back({.index = 0});
  for (int block = layers.first; block < layers.last; ++block)
    units.push_back({.index = block + 1});
  if (layers.head) units.push_back({.index = model_.layers + 1});
  const auto unit_at = [&](int number) -> StoredUnit& {
    return *std::ranges::find(units, number, &StoredUnit::index);
  };
  const Held* table = nullptr;  // the table of a tied head
  const auto store = [&](int unit, const Held& held) {
    const ParameterSpec& spec = parameters()[static_cast<std::size_t>(held.parameter)];
    const bool on_two_stages =
        model_.tied && spec.order == token_table_order && !(layers.embedding && layers.head);
    unit_at(unit).parameters.push_back(
        {spec.order, held.slice, spec.dtype, spec.frozen, on_two_stages});
  };
  for (const Held& held : place.held) {
    if (held.stage != stage) continue;
    const ParameterSpec& spec = parameters()[static_cast<std::size_t>(held.parameter)];
    if (model_.tied && spec.order == token_table_order) table = &held;
    const int unit = spec.unit();
    if (layers.runs(unit, model_)) store(unit, held);
  }
  if (layers.head && table != nullptr) store(model_.layers + 1, *table);
  return units;
}

BatchShape Plan::samples(const Place& place, int microbatches) const {
  BatchShape shape{.microbatches = microbatches,
                   .size = microbatch_size(microbatches),
                   .replicas = mesh.size(Axis::dp),
                   .replica = place.coordinate(Axis::dp)};
  if (const int n = mesh.size(Axis::cp); n > 1)
    shape.positions =
        context_positions(batch.context, model_.sequence, place.coordinate(Axis::cp), n);
  return shape;
}

Boundary Plan::boundary(int microbatches) const {
  Boundary boundary = stage_boundary(model_, microbatch_size(microbatches));
  boundary.shape = {boundary.shape[0], boundary.shape[1] / mesh.size(Axis::cp), boundary.shape[2]};
  return boundary;
}

Clock Plan::clock() const {
  return modelled ? Clock::modelled(modelled->cluster, modelled->times) : Clock::wall();
}

std::string divisions_of_heads(const GptConfig& model, Axis axis, int size) {
  std::vector<std::string> ways;
  const auto divides = [&](int t) { return model.heads % t == 0; };
  for (int t = std::min(size, model.heads); t > 1; --t)
    if (divides(t)) {
      ways.push_back(fmt::format("--{} {}", name_of(axis), t));
      break;
    }
  for (int t = size; t <= model.heads; ++t)
    if (divides(t)) {
      ways.push_back(fmt::format("--{} {}", name_of(axis), t));
      break;
    }
  const int fewer = model.heads / size * size, more = fewer + size;
  bool any = false;
  for (const int heads : {fewer, more})
    if (heads > 0 && model.hidden % heads == 0) {
      ways.push_back(fmt::format("--heads {}", heads));
      any = true;
    }
  if (!any)
    ways.push_back(
        fmt::format("--heads {} with --hidden {}", more, (model.hidden + more - 1) / more * more));
  std::string text = ways.back();
  ways.pop_back();
  return ways.empty() ? text : fmt::format("{} or {}", fmt::join(ways, ", "), text);
}

void Plan::validate() const {
  model_.validate();
  layers_of(0);
  if (const int tp = mesh.size(Axis::tp); model_.heads % tp != 0)
    throw UsageError(
        fmt::format("--tp {} with --heads {}: every rank takes the same number of whole heads; use "
                    "{}",
                    tp, model_.heads, divisions_of_heads(model_, Axis::tp, tp)));
  if (const int cp = mesh.size(Axis::cp); cp > 1)
    context_positions(batch.context, model_.sequence, 0, cp);
  const int pieces = mesh.size(Axis::dp) * batch.microbatches;
  if (pieces == 0 || batch.sequences % pieces != 0)
    throw UsageError(fmt::format(
        "--batch {} with --microbatches {}: {} sequences can't be cut into {} equal microbatches; "
        "use --batch {}",
        batch.sequences, batch.microbatches, batch.sequences, pieces,
        std::max(1, batch.sequences / std::max(1, pieces)) * pieces));
}

bool Plan::operator==(const Plan& other) const {
  return model_ == other.model_ && mesh == other.mesh && rank_of_stage == other.rank_of_stage &&
         split == other.split && batch == other.batch && optimizer == other.optimizer &&
         seed == other.seed && modelled == other.modelled && collectives == other.collectives &&
         receives_combine == other.receives_combine && builder_ == other.builder_ &&
         parameters() == other.parameters();
}

}  // namespace lockstep
