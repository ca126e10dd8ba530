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

/// Returns a rank's batch of sequences of `sequence` tokens without the tokens: only the shapes and
/// the masks' numbers of pairs, for the meta device. `seed` and `step` select the documents that
/// are packed into the sequences.
Batch batch_without_tokens(const BatchShape& shape, int sequence, std::uint64_t seed = 1,
                           int step = 0);

/// Makes the loss a share of the mean over `replicas` batches of as many tokens as this one.
void weigh(Batch& batch, int replicas);
/// Drops all microbatches of a whole batch except those of `replicas`; the batch divides evenly
/// among `of` replicas, in order. The loss becomes the mean over the samples that stay.
void keep_replicas(Batch& batch, const std::vector<int>& replicas, int of);

/// A training text: bytes, each of which is a token, or 16-bit tokens.
class Corpus {
 public:
  /// Throws UsageError if `text` has fewer than sequence + 1 tokens, or tokens outside the
  /// vocabulary. `name` identifies the text in messages.
  Corpus(std::string text, const GptConfig& config, const std::string& name = "the text");
  /// Reads the file of --data FILE. Throws UsageError if the file is missing, not a regular file,
  /// unreadable, empty, too short, or too large for memory.
  static Corpus from_file(const std::string& path, const GptConfig& config);
  /// Reads the file of --tokens FILE, which holds little-endian uint16 tokens: alone, as nanoGPT
  /// writes them, or after the 1024-byte header of llm.c's GPT-2 files (256 int32: 20240520, the
  /// version 1, the number of tokens, zeros). Throws UsageError as from_file() does, and if the
  /// file has the header of another format.
  static Corpus from_tokens(const std::string& path, const GptConfig& config);

  /// Returns this replica's part of the batch of `step`. Each document of a sample, usually the
  /// only one, is a window of the text, with one more token for the last target. The window's
  /// position in the text depends only on the seed, the step and the sample's number. Any rank can
  /// therefore produce its share, and the samples of a batch are the same however it is split into
  /// replicas and microbatches. token_weight is 1 / (the number of tokens in all replicas'
  /// batches). The losses of all microbatches of all replicas therefore add up to the whole batch's
  /// mean loss, and their gradients add up to the gradient of that mean.
  Batch batch(std::uint64_t seed, int step, const BatchShape& shape) const;

  std::size_t tokens() const { return text_.size() / width_; }
  std::int32_t token(std::size_t i) const {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(text_.data()) + i * width_;
    return width_ == 1 ? bytes[0] : bytes[0] | bytes[1] << 8;
  }

 private:
  Corpus(std::string text, std::size_t width, const GptConfig& config, const std::string& flag,
         const std::string& name);

  std::string text_;
  std::size_t width_;  ///< bytes per token: 1 or 2, little-endian
  int sequence_;
};

}  // namespace lockstep
