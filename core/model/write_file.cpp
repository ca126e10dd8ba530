#include "core/model/write_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"

namespace lockstep {

void write_file(const std::string& path, const std::function<void(std::ostream&)>& fill) {
  const std::string partial = path + ".partial";
  std::error_code error;
  {
    std::ofstream file{partial, std::ios::binary | std::ios::trunc};
    if (!file) {
      throw UsageError{fmt::format(
          "--save {}: can't be written; give a name in a folder that exists and may be written to",
          path)};
    }
    fill(file);
    file.close();
    if (!file) {
      std::filesystem::remove(partial, error);
      throw UsageError{
          fmt::format("--save {}: could not be written completely; is the disk full?", path)};
    }
  }
  std::filesystem::rename(partial, path, error);
  if (error) {
    const std::string why = error.message();
    std::filesystem::remove(partial, error);
    throw UsageError{fmt::format("--save {}: {}; give the name of a file", path, why)};
  }
}

}  // namespace lockstep
