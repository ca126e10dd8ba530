#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/crc32.h"
#include "core/base/json_reader.h"
#include "kernels/view.h"

namespace lockstep {

// The safetensors format: an 8-byte header length (little endian); a JSON header with each tensor's
// dtype, shape and byte range [begin, end) in the data; then the data, row-major
// (https://github.com/huggingface/safetensors#format).

/// Returns whether a tensor may have this name: all characters are printable, and it is not longer
/// than 1000 bytes.
bool is_tensor_name(const std::string& name);

/// A file open for reading. The constructor checks the whole header: each tensor has as many bytes
/// as its dtype and shape require, and together they fill the file without overlaps or gaps.
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
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  /// The largest number of tensors in a file; it bounds the memory that opening a file takes.
  static constexpr std::size_t most_tensors = 1 << 17;

  const std::vector<Entry>& entries() const { return entries_; }
  /// Returns nullptr if there is no such tensor.
  const Entry* find(const std::string& name) const;
  /// Reads a tensor into `to`: host memory, contiguous, f32 or i32. Throws UsageError if there is
  /// no such tensor, or if its dtype or shape differs from that of `to`.
  void read(const std::string& name, View to);
  /// Reads elements [first, first + to.elements()) of a tensor in row-major order, whatever the
  /// tensor's shape. Widens 16-bit floating-point elements if `to` is f32. Otherwise throws
  /// UsageError if the tensor's dtype differs from that of `to`, or if the tensor ends before `to`
  /// is full.
  void read_part(const std::string& name, std::int64_t first, View to);
  /// Reads an f32 or 16-bit tensor and returns its checksum. Throws UsageError if an element is not
  /// a finite number, or is negative although it may not be.
  Crc32 check_values(const std::string& name, bool may_be_negative = true);
  /// Throws UsageError for the fault `what`; the message names the file and the remedy.
  [[noreturn]] void unfit(const std::string& what) const;

 private:
  const Entry& entry_of(const std::string& name, DType wanted) const;
  void read_bytes(const Entry& entry, std::uint64_t offset, View to);
  void parse(const std::string& header, std::uint64_t data_bytes);
  Entry entry_from(JsonReader& in, const std::string& name) const;
  void check(const Entry& entry, std::uint64_t data_bytes) const;

  std::string path_;
  std::ifstream file_;
  std::uint64_t data_start_ = 0;
  std::vector<Entry> entries_;         ///< sorted by position in the data
  std::vector<const Entry*> by_name_;  ///< sorted by name
};

/// The header of a file that is to be written, in which tensors follow one another.
class SafetensorsHeader {
 public:
  struct Entry {
    std::string name;
    Shape shape;
    DType dtype = DType::f32;
  };
  explicit SafetensorsHeader(const std::vector<Entry>& tensors);

  /// Returns the bytes that begin the file: the length, and the JSON.
  const std::string& bytes() const { return bytes_; }
  /// Returns the offset of the i-th tensor's data in the file.
  std::uint64_t offset(std::size_t i) const { return bytes_.size() + offsets_.at(i); }
  std::uint64_t file_bytes() const { return bytes_.size() + offsets_.back(); }

 private:
  std::string bytes_;
  std::vector<std::uint64_t> offsets_;  ///< in the data; the last one is the size of the data
};

}  // namespace lockstep
