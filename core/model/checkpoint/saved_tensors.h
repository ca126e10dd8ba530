#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/model/checkpoint/manifest.h"
#include "core/model/checkpoint/safetensors.h"
#include "core/plan/slice.h"

namespace lockstep {

/// The tensors of a checkpoint, in any of these forms:
///
/// - a folder that --save has written: shards and a manifest;
/// - a folder of an older Lockstep: whole tensors and a manifest;
/// - a folder that --export or transformers' save_pretrained has written: model.safetensors, or
///   several files and model.safetensors.index.json;
/// - a single .safetensors file.
///
/// Each tensor is a list of boxes, and each box is a tensor of some file, so reading a slice is the
/// same in all forms. Files are opened when they are needed.
class SavedTensors {
 public:
  /// Reads the manifest, the index, or the file's header. Throws UsageError, in one line that names
  /// --load and the file, if there is none or if it is malformed.
  explicit SavedTensors(const std::string& path);

  const std::optional<Manifest>& manifest() const { return manifest_; }
  /// Identifies the manifest's text; "" if there is none.
  const std::string& state() const { return state_; }
  /// Returns the state() of a checkpoint with this manifest.
  static std::string state_of(const std::string& manifest);
  /// Names are as in the files. Moments of the older form are flat, (elements).
  const std::vector<SavedTensor>& tensors() const {
    return manifest_ && manifest_->is_sharded() ? manifest_->tensors : tensors_;
  }
  const std::vector<SavedTensor>& moments() const {
    return manifest_ && manifest_->is_sharded() ? manifest_->moments : moments_;
  }
  /// Returns nullptr if there is no such tensor.
  const SavedTensor* find(const std::string& name) const;
  const SavedTensor* find_moment(const std::string& name) const;
  /// Returns the number of optimizer steps taken, or nothing without an optimizer's state.
  std::optional<std::int64_t> optimizer_steps();

  /// Reads a slice of a tensor into `values`, of shape slice.local(). Reads only the bytes that the
  /// slice needs.
  /// Leaves padding unchanged. Throws UsageError, naming the file and the tensor, if a file is
  /// missing or lacks data that the manifest lists.
  void read(const SavedTensor& tensor, const Slice& slice, float* values);
  /// Reads everything once. Throws UsageError, naming the file and the tensor, if a file is
  /// missing, if its size or content differs from the manifest, or if it has an element that is not
  /// a finite number.
  void check_values();

 private:
  std::string path_of(const std::string& file) const;
  /// Opens one of the files; its tensors must match the manifest.
  SafetensorsFile& open(const std::string& file);
  void check_file(const std::string& name, const Manifest::File& expected) const;
  void check_value(const SavedTensor& tensor, const SavedBox& saved, bool may_be_negative);
  /// Describes, for messages, which tensors a file holds.
  std::string contents_of(const std::string& file) const;
  /// Adds the tensors of a file that stores whole tensors.
  void add_whole_tensors(const std::string& file, std::vector<SavedTensor>& to);
  void read_index(const std::string& index);

  std::string path_;    ///< as given
  std::string folder_;  ///< empty for a single file
  std::optional<Manifest> manifest_;
  std::string state_;
  std::vector<SavedTensor> tensors_, moments_;  ///< unless the manifest lists them
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;
};

}  // namespace lockstep
