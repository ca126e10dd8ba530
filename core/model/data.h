#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/model/microbatch.h"
#include "core/plan/batch.h"
#include "core/plan/config.h"

namespace lockstep {

/// Byte-level: token i is the byte i, V = 256. Any file can be trained on.
struct Tokenizer {
  static constexpr int vocabulary = 256;
  static std::vector<std::int32_t> encode(const std::string& text);
  /// Tokens outside [0, 256) become '?'.
  static std::string decode(const std::vector<std::int32_t>& tokens);
};

/// Lets the microbatches be where a model on `device` reads them: copies them to a GPU, and is
/// nothing on the CPU. The batch is released before the device's stream is.
void move_to(Device device, Batch& batch);

/// A text to train on.
class Corpus {
 public:
  /// Throws UsageError where `text` has no sequence + 1 tokens, or tokens that are not in the
  /// vocabulary. `name` is what messages call it.
  Corpus(const std::string& text, const GptConfig& config, std::string name = "the text");
  /// --data FILE. Throws UsageError for a file that is missing, a directory, unreadable, empty or
  /// too short.
  static Corpus from_file(const std::string& path, const GptConfig& config);

  /// This replica's part of the batch of `step`: every sample is a window of sequence + 1 tokens
  /// whose place in the text depends on seed, step and the sample's number only, so any rank can
  /// make its share, and every way to split a batch into replicas and microbatches sees the same
  /// samples. loss_scale is 1 / (tokens of all replicas): over all microbatches of all replicas
  /// losses, and gradients, add up to those of the whole batch's mean.
  Batch batch(std::uint64_t seed, int step, const BatchShape& shape) const;

  std::size_t tokens() const { return tokens_.size(); }

 private:
  std::vector<std::int32_t> tokens_;
  int sequence_;
};

}  // namespace lockstep
