#include "kernels/cuda/product_table.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "kernels/cuda/check.h"

namespace lockstep::cuda {

ProductTable::ProductTable(std::string path, std::size_t version) : path_(std::move(path)) {
  if (path_.empty()) return;
  const std::string title = fmt::format("cuBLASLt {}", version);
  std::ifstream file{path_};
  is_being_made_ = !file;
  if (is_being_made_) {
    if (!(std::ofstream{path_} << title << '\n'))
      throw GpuError(fmt::format("can't write the table of matrix products {}", path_));
    return;
  }
  std::string line;
  std::getline(file, line);
  if (line != title)
    throw GpuError(
        fmt::format("the table of matrix products {} begins with \"{}\", and this is {}; "
                    "remove the file to measure again",
                    path_, line, title));
  for (int index = 0; file >> index && std::getline(file >> std::ws, line);) choices_[line] = index;
  if (!file.eof())
    throw GpuError(fmt::format("the table of matrix products {} has an invalid line after \"{}\"",
                               path_, line));
}

ProductTable& ProductTable::of_process() {
  static const char* const path = std::getenv("LOCKSTEP_PRODUCTS");
  static ProductTable table{path != nullptr ? path : "", cublasLtGetVersion()};
  return table;
}

int ProductTable::choice(const std::string& product, const std::function<int()>& measure) {
  const std::lock_guard lock(mutex_);
  if (const auto found = choices_.find(product); found != choices_.end()) return found->second;
  if (!is_being_made_) return 0;
  const int index = measure();
  choices_[product] = index;
  if (!(std::ofstream{path_, std::ios::app} << index << ' ' << product << '\n'))
    throw GpuError(fmt::format("can't write the table of matrix products {}", path_));
  return index;
}

}  // namespace lockstep::cuda
