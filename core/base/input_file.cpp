#include "core/base/input_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/available_memory.h"

namespace lockstep {

std::string content_of(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::none)
    throw InputError{"can't be read: " + error.message()};
  if (!std::filesystem::exists(status)) throw InputError{"no such file"};
  if (std::filesystem::is_directory(status)) throw InputError{"is a directory"};
  if (!std::filesystem::is_regular_file(status)) throw InputError{"is not a regular file"};
  const auto size = std::filesystem::file_size(path, error);
  if (error) throw InputError{"can't be read"};
  if (const auto available = available_memory(); size > static_cast<std::uintmax_t>(available))
    throw InputError{fmt::format("has {}, and is read into memory, of which {} are available",
                                 text_of_bytes(static_cast<double>(size)),
                                 text_of_bytes(static_cast<double>(available)))};
  std::ifstream file{path, std::ios::binary};
  if (!file) throw InputError{fmt::format("can't be read: {}", std::strerror(errno))};
  std::string text(size, '\0');
  file.read(text.data(), static_cast<std::streamsize>(size));
  if (file.gcount() != static_cast<std::streamsize>(size)) throw InputError{"can't be read"};
  return text;
}

}  // namespace lockstep
