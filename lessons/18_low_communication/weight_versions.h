#pragma once

#include <map>
#include <vector>

#include "core/model/gpt.h"

namespace lockstep {

/// The versions of a stage's parameters (weight stashing: Narayanan 2019, section 3.3). Every
/// update makes a new version. An older version is kept as long as a microbatch is in flight whose
/// forward pass has used it, because its backward pass needs the same values. Memory is reused: a
/// version that no microbatch needs any more becomes the next one.
class WeightVersions {
 public:
  /// Takes over the parameters' values as version 0, and returns the latest version to the
  /// parameters at the end. The stage must outlive this object.
  explicit WeightVersions(Gpt& stage) : stage_(stage) {
    for (Parameter* parameter : stage_.parameters())
      versions_[0].values.push_back(std::move(parameter->value_storage));
  }
  ~WeightVersions() {
    use(latest_);
    Version& last = versions_.at(latest_);
    for (std::size_t i = 0; i < last.values.size(); ++i)
      stage_.parameters()[i]->value_storage = std::move(last.values[i]);
  }
  WeightVersions(const WeightVersions&) = delete;
  WeightVersions& operator=(const WeightVersions&) = delete;

  /// A microbatch's forward pass uses the latest version. Returns that version, which is kept until
  /// the microbatch passes it to next().
  int hold() {
    ++versions_.at(latest_).users;
    return latest_;
  }
  /// Points the stage's parameters to a version.
  void use(int version) {
    const Version& chosen = versions_.at(version);
    for (std::size_t i = 0; i < chosen.values.size(); ++i)
      stage_.parameters()[i]->value = chosen.values[i];
  }
  /// A microbatch no longer needs version `held`. Makes a new version with the values of the latest
  /// one, for the optimizer to update, and points the parameters to it.
  void next(int held) {
    std::vector<Tensor> free;
    if (--versions_.at(held).users == 0 && held != latest_)
      free = std::move(versions_.extract(held).mapped().values);
    if (versions_.at(latest_).users == 0) {  // updated in place
      versions_[latest_ + 1] = std::move(versions_.extract(latest_).mapped());
    } else {
      versions_[latest_ + 1].values = copied(versions_.at(latest_).values, std::move(free));
    }
    use(++latest_);
  }

  std::size_t count() const { return versions_.size(); }

 private:
  struct Version {
    std::vector<Tensor> values;  ///< by parameter
    int users = 0;               ///< microbatches in flight
  };

  /// Returns a copy of `values` in the memory of `into`, or in new memory if that is empty.
  std::vector<Tensor> copied(const std::vector<Tensor>& values, std::vector<Tensor> into) {
    Device device = stage_.device();
    Cost cost;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const MemoryLayer layer{device.memory, stage_.parameters()[i]->layer()};
      if (into.size() == i)
        into.emplace_back(device.memory, values[i].shape(), MemoryCategory::parameters,
                          values[i].dtype(), "weight versions");
      cost.bytes += 2 * static_cast<double>(values[i].bytes());
    }
    device.compute.launch(Span{.name = "copy"}, cost, [&](const Kernels& k, Queue q) {
      for (std::size_t i = 0; i < values.size(); ++i) k.copy(q, values[i], into[i]);
    });
    return into;
  }

  Gpt& stage_;
  std::map<int, Version> versions_;
  int latest_ = 0;
};

}  // namespace lockstep
