#pragma once

#include <memory>
#include <vector>

#include "core/model/gpt.h"

namespace lockstep {

/// The models of the stages that one rank of a pipeline holds, in ascending order of stage.
class RankStages {
 public:
  /// Builds the stages of `place`; see Gpt for the parameters.
  RankStages(const Plan& plan, const Place& place, Device device, Storage storage = Storage::own,
             AxisGroups* groups = nullptr) {
    for (const int stage : place.stages)
      models_.push_back(std::make_unique<Gpt>(plan, place, stage, device, storage, groups));
  }

  std::vector<Gpt*> models() const {
    std::vector<Gpt*> all;
    for (const auto& model : models_) all.push_back(model.get());
    return all;
  }
  /// Returns the parameters of all stages. A rank that holds both the first and the last stage
  /// holds two copies of a tied table.
  std::vector<Parameter*> parameters() const {
    std::vector<Parameter*> all;
    for (const auto& model : models_)
      all.insert(all.end(), model->parameters().begin(), model->parameters().end());
    return all;
  }
  void zero_gradients() {
    for (const auto& model : models_) model->zero_gradients();
  }

 private:
  std::vector<std::unique_ptr<Gpt>> models_;
};

}  // namespace lockstep
