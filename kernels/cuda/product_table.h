#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace lockstep::cuda {

/// Chooses, for each matrix product, one of the algorithms that cuBLASLt proposes. cuBLASLt orders
/// its proposals by the times that it predicts, and the first need not be the fastest. But
/// algorithms add in different orders: if each rank measured them and chose for itself, ranks would
/// compute different bits. Therefore, one process measures and writes the choices to a file, which
/// all ranks of later runs read. Without a file, every product uses the first proposal.
///
/// The file has one line per product: its index among the proposals, then its name. Thread-safe.
class ProductTable {
 public:
  /// Opens the table in file `path`; "" means no file. If the file does not exist, this process
  /// measures each product when it first occurs, and adds it to the file. If the file exists,
  /// products that are not in it use the first proposal. Throws GpuError if the file cannot be read
  /// or written, or was made with another `version` of cuBLASLt, whose proposals may differ.
  ProductTable(std::string path, std::size_t version);
  ProductTable(const ProductTable&) = delete;
  ProductTable& operator=(const ProductTable&) = delete;

  /// The table of all ranks in this process, from file $LOCKSTEP_PRODUCTS.
  static ProductTable& of_process();

  /// Returns the index of the product's proposal. Calls `measure`, which returns an index, if the
  /// product is new and the file is being made; other ranks of the process wait meanwhile.
  int choice(const std::string& product, const std::function<int()>& measure);

 private:
  std::string path_;
  bool is_being_made_ = false;
  std::mutex mutex_;
  std::map<std::string, int> choices_;
};

}  // namespace lockstep::cuda
