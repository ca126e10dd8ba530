#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/model/microbatch.h"
#include "core/plan/batch.h"
#include "core/plan/gpt_config.h"

namespace lockstep {

/// Byte-level tokenizer: token i is byte i, V = 256. Any file can be used for training.
struct Tokenizer {
  static constexpr int vocabulary = 256;
  static std::vector<std::int32_t> encode(const std::string& text);
  /// Tokens outside [0, 256) become '?'.
  static std::string decode(const std::vector<std::int32_t>& tokens);
};

/// Makes the microbatches accessible to a model on `device`: copies them to a GPU, and does nothing
/// on the CPU. Destroy the batch before the device's stream.
void move_to(Device device, Batch& batch);

/// A training text.
class Corpus {
 public:
  /// Throws UsageError if `text` has fewer than sequence + 1 tokens, or tokens outside the
  /// vocabulary. `name` identifies the text in messages.
  Corpus(std::string text, const GptConfig& config, const std::string& name = "the text");
  /// Reads the file of --data FILE. Throws UsageError if the file is missing, not a regular file,
  /// unreadable, empty, too short, or too large for memory.
  static Corpus from_file(const std::string& path, const GptConfig& config);

  /// Returns this replica's part of the batch of `step`. Each sample is a window of sequence + 1
  /// tokens whose position in the text depends only on the seed, the step and the sample's number.
  /// Any rank can therefore produce its share, and the samples of a batch are the same however it
  /// is split into replicas and microbatches. loss_scale is 1 / (the number of tokens in all
  /// replicas' batches). The losses of all microbatches of all replicas therefore add up to the
  /// whole batch's mean loss, and their gradients add up to the gradient of that mean.
  Batch batch(std::uint64_t seed, int step, const BatchShape& shape) const;

  std::size_t tokens() const { return text_.size(); }

 private:
  std::string text_;  ///< token i is byte i
  int sequence_;
};

}  // namespace lockstep
