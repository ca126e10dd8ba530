#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/box.h"

namespace lockstep {

/// A box of a tensor, stored as a tensor of a safetensors file.
struct SavedBox {
  Box box;
  std::string file;                      ///< in the checkpoint's folder
  std::optional<std::uint32_t> crc32{};  ///< of its elements; known for all boxes in shards
  std::string name{};  ///< its name in the file, unless that is shard_name() or the tensor's name
  bool operator==(const SavedBox&) const = default;
};

/// A tensor of the whole model. Its boxes contain each element exactly once.
struct SavedTensor {
  std::string name;
  std::string dtype;  ///< as spelled in safetensors
  std::vector<std::int64_t> shape;
  std::vector<SavedBox> boxes;
  bool operator==(const SavedTensor&) const = default;

  /// Returns the name that `saved`, one of the boxes, has in its file.
  std::string name_of(const SavedBox& saved) const;
};

/// Returns the name of a tensor's box in a shard: "transformer.wte.weight[0:64, 0:16]".
std::string shard_name(const std::string& tensor, const Box& box);
/// Returns the name of a rank's shard: "rank-00001-of-00004.safetensors".
std::string shard_file(int rank, int ranks);
/// Returns whether a file's name is that of a shard.
bool is_shard_file(const std::string& name);

/// The content of manifest.json: which files belong together, and which part of each tensor is in
/// which shard.
struct Manifest {
  struct File {
    std::uint64_t bytes = 0;
    std::optional<std::uint32_t> crc32{};  ///< none for a shard: its boxes have their own
    bool operator==(const File&) const = default;
  };
  /// The largest number of steps; no training takes that many.
  static constexpr std::int64_t most_steps = 1'000'000'000;
  std::int64_t step = 0;             ///< training steps taken
  std::int64_t optimizer_steps = 0;  ///< `step`, less the steps that loss scaling has skipped
  std::map<std::string, File> files;
  /// In the model's order. Empty in version 1, whose model.safetensors and optimizer.safetensors
  /// contain whole tensors.
  std::vector<SavedTensor> tensors;
  std::vector<SavedTensor> moments;

  bool is_sharded() const { return !tensors.empty(); }
  std::string to_json() const;
  bool operator==(const Manifest&) const = default;
};

constexpr const char* manifest_name = "manifest.json";
/// transformers' name for the list of each tensor's file.
constexpr const char* index_name = "model.safetensors.index.json";

/// Returns the text of a folder's manifest, or nothing if there is none. Throws UsageError if it
/// can't be read.
std::optional<std::string> manifest_text(const std::string& folder);

/// Parses the text of a folder's manifest. Throws UsageError, which names --load, the folder, the
/// key and its value, if it is malformed, or if a tensor's boxes do not contain every element
/// exactly once.
Manifest parse_manifest(std::string_view text, const std::string& folder);

}  // namespace lockstep
