#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/transport/control.h"
#include "core/device/host_copy.h"
#include "core/run/rank/rank.h"
#include "core/run/reference/parity.h"
#include "core/run/reference/solo_device.h"
#include "lessons/05_zero_3/prediction.h"
#include "lessons/15_3d/pipelined_zero_3.h"
#include "tests/support/bytes.h"
#include "tests/support/portion.h"
#include "viz/read/report/report.h"

/// Checks of data parallelism and the ZeRO stages that run under both threads and processes.
namespace lockstep::testing {

enum class Scheme { bucket, overlap, zero_1, zero_2, zero_3, tensors };
/// The schemes that use the flat layout. (Reducing tensor by tensor cuts the ring's chunks
/// differently, and therefore adds in a different order.)
constexpr Scheme all_schemes[] = {Scheme::bucket, Scheme::overlap, Scheme::zero_1, Scheme::zero_2,
                                  Scheme::zero_3};

inline const char* name_of(Scheme scheme) {
  constexpr const char* names[] = {"buckets", "overlap", "ZeRO-1", "ZeRO-2", "ZeRO-3", "tensors"};
  return names[static_cast<int>(scheme)];
}

/// A bucket size that gives each unit (the head, each block, the embedding) its own bucket.
constexpr std::int64_t unit_buckets = 1;

/// The stages of ZeRO allocate the model's values and gradients themselves.
inline Storage storage_of(Scheme scheme) {
  const bool zero =
      scheme == Scheme::zero_1 || scheme == Scheme::zero_2 || scheme == Scheme::zero_3;
  return zero ? Storage::none : Storage::own;
}

/// One rank of a run of any scheme.
class Copies {
 public:
  /// With `pipelined`, passes of several microbatches may follow one another as in a pipeline.
  Copies(Rank& rank, const Options& options, Scheme scheme, std::int64_t bucket_bytes,
         int prefetch = 1, bool pipelined = false)
      : rank_(rank), options_(options), scheme_(scheme) {
    model_ = std::make_unique<Gpt>(rank.plan, rank.place, rank.device, storage_of(scheme));
    Gpt& model = *model_;
    const AdamWOptions& adamw = options.plan.optimizer;
    if (scheme == Scheme::bucket || scheme == Scheme::overlap || scheme == Scheme::tensors) {
      optimizer_ = std::make_unique<AdamW>(model.parameters(), rank.device, adamw);
      copies_ = std::make_unique<DataParallel>(model, rank.world, bucket_bytes);
      const GradientSync sync = scheme == Scheme::overlap  ? GradientSync::overlap
                                : scheme == Scheme::bucket ? GradientSync::bucket
                                                           : GradientSync::none;
      copies_->set(sync);
      predicted = predict_data_parallel(rank.plan, rank.place, sync, bucket_bytes);
    } else if (scheme == Scheme::zero_1) {
      zero_1_ = std::make_unique<Zero1>(model, rank.world, bucket_bytes, adamw, options.plan.seed);
      predicted = predict_zero_1(rank.plan, rank.place, bucket_bytes);
    } else if (scheme == Scheme::zero_2) {
      zero_2_ = std::make_unique<Zero2>(model, rank.world, bucket_bytes, adamw, options.plan.seed);
      predicted = predict_zero_2(rank.plan, rank.place, bucket_bytes);
    } else {
      const auto seed = options.plan.seed;
      if (pipelined)
        zero_3_ = std::make_unique<PipelinedZero3>(model, rank.world, bucket_bytes, adamw, seed);
      else
        zero_3_ = std::make_unique<Zero3>(model, rank.world, bucket_bytes, adamw, seed);
      zero_3_->set_prefetch(prefetch);
      predicted = predict_zero_3(rank.plan, rank.place, bucket_bytes, prefetch);
    }
    if (predicted.sum_order) order = predicted.sum_order();  // else, not that of a ring
  }

  void zero_gradients() {
    if (zero_2_)
      zero_2_->zero_gradients();
    else if (zero_3_)
      zero_3_->zero_gradients();
    else
      model_->zero_gradients();
  }
  /// Runs the forward and backward passes of this rank's share of the batch. Returns this rank's
  /// share of the loss.
  double backward(const Corpus& corpus, int step) {
    zero_gradients();
    Batch mine = corpus.batch(options_.plan.seed, step, rank_.plan.samples(rank_.place));
    move_to(rank_.device, mine);
    return accumulate_gradients(*model_, mine);
  }
  /// Completes the gradients of updated() without updating the parameters.
  void sum() {
    if (copies_) copies_->sum_gradients();
    if (zero_1_) zero_1_->wait();
    if (zero_2_) zero_2_->wait();
    if (zero_3_) zero_3_->wait();
  }
  void update() {
    if (copies_) {
      copies_->sum_gradients();
      optimizer_->step();
    }
    if (zero_1_) zero_1_->step();
    if (zero_2_) zero_2_->step();
    if (zero_3_) zero_3_->step();
  }

  /// The parameters that this rank holds at the end: whole tensors, or its slices.
  std::vector<Parameter*> parameters() const {
    return zero_3_ ? zero_3_->parts() : model_->parameters();
  }
  /// The parameters, or slices, whose gradients are complete on this rank.
  std::vector<Parameter*> updated() const {
    if (zero_1_) return zero_1_->parts();
    if (zero_2_) return zero_2_->parts();
    return parameters();
  }

  Gpt& model() { return *model_; }

  Predicted predicted;
  SumOrder order;  ///< the order in which gradients are added

 private:
  Rank& rank_;
  const Options& options_;
  Scheme scheme_;
  std::unique_ptr<Gpt> model_;
  std::unique_ptr<AdamW> optimizer_;
  std::unique_ptr<DataParallel> copies_;
  std::unique_ptr<Zero1> zero_1_;
  std::unique_ptr<Zero2> zero_2_;
  std::unique_ptr<Zero3> zero_3_;
};

/// A model that is small enough to train a few hundred times but still learns; N may be 1, 2, 3, 4
/// or 8. None of its sizes is a multiple of N or of 64.
inline Options small_copies(int ranks) {
  Options options;
  options.plan.set_mesh(Mesh::along(Axis::dp, ranks));
  set_model(options.plan,
            {.layers = 3, .hidden = 20, .heads = 2, .sequence = 11, .vocabulary = 257});
  options.plan.batch.microbatches = 1;
  options.plan.batch.sequences = 24;
  options.run.steps = training_steps(50);
  options.plan.optimizer.learning_rate = 1e-3F;  // the lessons' default
  options.plan.optimizer.clip = 0;
  options.plan.modelled = {Cluster::load("ethernet")};
  return options;
}

inline Corpus copies_corpus(const GptConfig& config) {
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += fmt::format("rank {} has the sums of shard {} now. ", i % 7, (i * i) % 11);
  return Corpus{text, config};
}

inline NamedValues named(Device device, const Parameter& parameter, View view) {
  return {.name = parameter.name,
          .order = parameter.order,
          .values = to_host(device, view),
          .slice = parameter.slice};
}

/// The results of a run, collected on rank 0; empty on other ranks.
struct Outcome {
  std::vector<double> losses;
  std::vector<NamedValues> parameters;
  std::vector<NamedValues> gradients;  ///< of the first step
  /// A single-device reference that adds gradients in this run's order.
  Reference in_order;
};

/// Compares the rank's memory peaks, and the bytes that it has sent since it had sent `before`,
/// with the prediction of one step. Calls `complain` for each difference.
template <class Complain>
void compare_with_prediction(Rank& rank, const BytesSent& before, const Predicted& predicted,
                             const Complain& complain) {
  for (const MemoryCategory category : all_memory_categories) {
    const std::int64_t seen = rank.memory.peak().of(category);
    if (const std::int64_t derived = *predicted.peak_bytes[category]; seen != derived)
      complain(fmt::format("{} peak at {} bytes, derived {}", lockstep::name_of(category), seen,
                           derived));
  }
  const BytesSent sent = rank.transport->bytes_sent() - before;
  if (const BytesSent derived = bytes_of(predicted); sent != derived)
    complain(fmt::format("sent {}, derived {}", text_of(sent), text_of(derived)));
}

/// Collective: returns the results of all ranks on rank 0, and nothing on other ranks.
inline std::vector<RankResults> gathered(Rank& rank, const RankResults& mine) {
  std::vector<RankResults> all;
  for (const std::string& bytes : gather_to_root(*rank.transport, mine.to_bytes()))
    all.push_back(RankResults::from_bytes(bytes));
  return all;
}

/// Trains, and compares each step's bytes and memory peaks with the derived values. Appends errors
/// to `wrong`.
inline Outcome train_copies(Rank& rank, const Options& options, Scheme scheme,
                            std::int64_t bucket_bytes, std::string& wrong, int prefetch = 1) {
  const Corpus corpus = copies_corpus(options.plan.model());
  Copies copies{rank, options, scheme, bucket_bytes, prefetch};
  RankResults record{.rank = rank.id}, first{.rank = rank.id};
  const auto complain = [&](const std::string& what) {
    wrong += fmt::format("{}, rank {} of {}: {}\n", name_of(scheme), rank.id, rank.count, what);
  };
  for (int step = 0; step < options.run.steps; ++step) {
    const auto before = rank.transport->bytes_sent();
    rank.memory.reset_peak();
    const double loss = copies.backward(corpus, step);
    copies.update();
    record.losses.emplace_back(step, loss);
    if (step == 0)
      for (const Parameter* part : copies.updated())
        if (!part->frozen) first.parameters.push_back(named(rank.device, *part, part->gradient));
    if (step > 1) continue;  // later steps give the same values
    compare_with_prediction(rank, before, copies.predicted, complain);
  }
  // For 16-bit types, compares the master weights, which only their owners hold.
  for (const Parameter* parameter :
       is_narrow(options.plan.model().dtype) ? copies.updated() : copies.parameters())
    record.parameters.push_back(
        named(rank.device, *parameter, parameter->master ? parameter->master : parameter->value));

  const std::vector<RankResults> records = gathered(rank, record), firsts = gathered(rank, first);
  if (rank.id != 0) return {};
  return {collect_losses(records, options.run.steps), collect_parameters(records),
          collect_parameters(firsts),
          train_on_one_device(options, corpus,
                              {{"", 0, options.run.steps, options.plan.batch.microbatches}}, {},
                              {copies.order})};
}

/// Returns the whole model's gradients in the first step, computed on one device.
inline std::vector<NamedValues> first_gradients(const Options& options) {
  const Corpus corpus = copies_corpus(options.plan.model());
  SoloDevice device{options.platform.on_gpus()};
  Gpt model{options.plan.model(), device, StageLayers::whole(options.plan.model()),
            options.plan.seed};
  const int pieces = options.plan.mesh.size(Axis::dp) * options.plan.batch.microbatches;
  Batch batch =
      corpus.batch(options.plan.seed, 0,
                   {.microbatches = pieces, .size = options.plan.batch.sequences / pieces});
  move_to(device, batch);
  accumulate_gradients(model, batch);
  std::vector<NamedValues> gradients;
  for (const Parameter* parameter : model.parameters())
    if (!parameter->frozen) gradients.push_back(named(device, *parameter, parameter->gradient));
  return gradients;
}

/// Returns the largest ‖a - b‖ / ‖b‖ over tensors.
inline double worst_difference(const std::vector<NamedValues>& a,
                               const std::vector<NamedValues>& b) {
  if (a.size() != b.size()) return 1;
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].order != b[i].order || a[i].values.size() != b[i].values.size()) return 1;
    double difference = 0, norm = 0;
    for (std::size_t k = 0; k < a[i].values.size(); ++k) {
      difference += std::pow(static_cast<double>(a[i].values[k]) - b[i].values[k], 2);
      norm += std::pow(static_cast<double>(b[i].values[k]), 2);
    }
    worst = std::max(worst, norm > 0 ? std::sqrt(difference / norm) : difference);
  }
  return worst;
}

/// Runs all schemes on this run's ranks. Their results must be bitwise identical to each other and
/// to a single-device run that sums the replicas' gradients in the same order. They must be close
/// to a single-device run that sums the gradients in the order of the replicas. The final loss must
/// be below `left` times the initial loss.
inline std::string check_copies(Rank& rank, const Options& options, std::int64_t bucket_bytes,
                                double left = 0.8) {
  std::string wrong;
  Reference expected;
  std::vector<NamedValues> gradients;
  if (rank.id == 0) {
    expected = train_on_one_device(options, copies_corpus(options.plan.model()),
                                   {{"", 0, options.run.steps, options.plan.batch.microbatches}});
    gradients = first_gradients(options);
  }
  Outcome before;
  for (const Scheme scheme : all_schemes) {
    const Outcome outcome = train_copies(rank, options, scheme, bucket_bytes, wrong);
    if (rank.id != 0) continue;
    const auto complain = [&](const std::string& what) {
      wrong += fmt::format("{} on {} ranks: {}\n", name_of(scheme), rank.count, what);
    };
    const Parity parity = compare(outcome.losses, outcome.parameters, expected);
    // In 16 bits, a sum over ranks loses up to half a unit in the last place at each step, a
    // relative error of 2⁻⁹ in bf16.
    const bool narrow = is_narrow(options.plan.model().dtype);
    const Tolerance tolerance = narrow ? Tolerance{.loss = 1e-2, .parameter = 0.1}
                                       : Tolerance{.loss = 1e-6, .parameter = 1e-5};
    if (!parity.within(tolerance))
      complain(fmt::format("losses {:.1e}, parameters {:.1e} ({}) from one device",
                           parity.max_relative_loss, parity.max_relative_parameter,
                           parity.worst_parameter));
    if (const double off = worst_difference(outcome.gradients, gradients);
        !(off <= (narrow ? 2e-2 : 1e-6)))
      complain(fmt::format("first gradients {:.1e} from one device", off));
    if (!compare(outcome.losses, outcome.parameters, outcome.in_order).bitwise)
      complain("other bits than one device that adds in the same order");
    if (!(outcome.losses.back() < learned(left) * outcome.losses.front()))
      complain(fmt::format("the loss fell only from {} to {}", outcome.losses.front(),
                           outcome.losses.back()));
    // With several microbatches, ZeRO-2 and ZeRO-3 sum each microbatch over ranks before adding it
    // to the previous ones; data parallelism sums over ranks at the end. The order of additions
    // differs.
    if (scheme == Scheme::bucket ||
        (scheme == Scheme::zero_2 && options.plan.batch.microbatches > 1)) {
      before = outcome;
      continue;
    }
    if (!compare(outcome.losses, outcome.parameters, {before.losses, before.parameters}).bitwise)
      complain("other bits than the scheme before it");
  }
  return wrong;
}

}  // namespace lockstep::testing
