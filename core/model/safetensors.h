#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/view.h"

namespace lockstep {

// The safetensors format: 8 bytes of header length (little endian), a JSON header that names each
// tensor's dtype, shape and [begin, end) in what follows, and the data, row-major
// (https://github.com/huggingface/safetensors#format).

/// A file that is read from. Everything that its header says is checked when it is opened: no
/// tensor outside of the file, none overlapping another, none whose bytes don't fit its shape.
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    std::string dtype;  ///< the file's: "F32", "I32", "BF16", ...
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0;  ///< in the data
    std::uint64_t end = 0;
  };

  /// Throws UsageError, one line that names the file, the tensor, what is wrong and what would do.
  explicit SafetensorsFile(const std::string& path);

  const std::vector<Entry>& entries() const { return entries_; }
  /// nullptr where there is none.
  const Entry* find(const std::string& name) const;
  /// Reads a tensor into `to`: host memory, contiguous, f32 or i32. Throws UsageError for another
  /// dtype or shape, and for a tensor that is not there.
  void read(const std::string& name, View to);
  /// Reads elements [first, first + to.elements()) of a tensor, in row-major order, whatever their
  /// shape. Throws UsageError for another dtype, and for elements that are not there.
  void read_part(const std::string& name, std::int64_t first, View to);

 private:
  const Entry& entry_of(const std::string& name, DType wanted) const;
  void read_bytes(const Entry& entry, std::uint64_t offset, View to);
  [[noreturn]] void unfit(const std::string& what) const;
  void parse(const std::string& header, std::uint64_t data_bytes);

  std::string path_;
  std::ifstream file_;
  std::uint64_t data_start_ = 0;
  std::vector<Entry> entries_;  ///< in the order of their data
};

/// A tensor to be written. The view is of host memory, contiguous, f32 or i32.
struct NamedView {
  std::string name;
  View view;
};

/// Writes a file whole or not at all: under another name first, renamed when complete. Throws
/// UsageError where that is not possible.
void write_safetensors(const std::string& path, const std::vector<NamedView>& tensors);

}  // namespace lockstep
