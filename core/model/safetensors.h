#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "core/model/new_file.h"
#include "kernels/view.h"

namespace lockstep {

// The safetensors format: an 8-byte header length (little endian); a JSON header with each tensor's
// dtype, shape and byte range [begin, end) in the data; then the data, row-major
// (https://github.com/huggingface/safetensors#format).

/// A file open for reading. The constructor checks the whole header: each tensor lies inside the
/// file, overlaps no other, and has as many bytes as its dtype and shape require.
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    std::string dtype;  ///< as spelled in the file: "F32", "I32", "BF16", ...
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0;  ///< byte offset in the data
    std::uint64_t end = 0;
  };

  /// Throws UsageError if the file is missing or malformed; the one-line message names the file,
  /// the tensor, the fault and a remedy.
  explicit SafetensorsFile(const std::string& path);

  const std::vector<Entry>& entries() const { return entries_; }
  /// Returns nullptr if there is no such tensor.
  const Entry* find(const std::string& name) const;
  /// Reads a tensor into `to`: host memory, contiguous, f32 or i32. Throws UsageError if there is
  /// no such tensor, or if its dtype or shape differs from that of `to`.
  void read(const std::string& name, View to);
  /// Reads elements [first, first + to.elements()) of a tensor in row-major order, whatever the
  /// tensor's shape. Throws UsageError if the tensor's dtype differs from that of `to`, or if the
  /// tensor ends before `to` is full.
  void read_part(const std::string& name, std::int64_t first, View to);
  /// Throws UsageError if the f32 tensor has an element that is not a finite number, or that is
  /// negative if `may_be_negative` is false.
  void check_values(const std::string& name, bool may_be_negative = true);

 private:
  const Entry& entry_of(const std::string& name, DType wanted) const;
  void read_bytes(const Entry& entry, std::uint64_t offset, View to);
  [[noreturn]] void unfit(const std::string& what) const;
  void parse(const std::string& header, std::uint64_t data_bytes);

  std::string path_;
  std::ifstream file_;
  std::uint64_t data_start_ = 0;
  std::vector<Entry> entries_;  ///< sorted by position in the data
};

/// A tensor to write. The view must be host memory, contiguous, f32 or i32.
struct NamedView {
  std::string name;
  View view;
};

void write_safetensors(NewFile& file, const std::vector<NamedView>& tensors);
/// Writes the file completely or not at all; see write_whole_file().
void write_safetensors(const std::string& path, const std::vector<NamedView>& tensors);

}  // namespace lockstep
