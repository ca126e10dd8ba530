#include "core/run/files/own_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string_view>

#include "core/base/input_file.h"
#include "core/base/json_reader.h"
#include "core/operations/operations_file.h"
#include "core/trace/writer.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

bool is_own_report(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(file, error))) return false;
  if (fs::file_size(file, error) == 0) return true;
  try {
    const std::string text = content_of(file.string());
    JsonReader in{text};
    const auto any = [&] { in.skip(); };
    in.object({{"lesson", any}, {"clock", any}, {"config", any}});
    in.end();
  } catch (const std::runtime_error&) {  // InputError or JsonError
    return false;
  }
  return true;
}

bool is_own_results(const fs::path& file) {
  constexpr std::string_view begin = "{\"lockstep_results\":";
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(file, error))) return false;
  std::string text(begin.size(), '\0');
  std::ifstream in{file, std::ios::binary};
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  return in.gcount() == 0 || text == begin;
}

}  // namespace

bool is_run_file(const std::string& name) {
  for (const char* own : {"trace.json", "results.json", "report.json", "operations.json"})
    if (name == own) return true;
  if (!name.starts_with("rank") || !name.ends_with(".json")) return false;
  const std::string number = name.substr(4, name.size() - 9);
  return !number.empty() &&
         std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
}

bool is_own(const fs::path& file) {
  if (file.filename() == "results.json") return is_own_results(file);
  if (file.filename() == "report.json") return is_own_report(file);
  return file.filename() == "operations.json" ? is_operations_file(file.string())
                                              : is_own_trace(file);
}

std::string why_not_a_run_folder(const fs::path& folder) {
  std::error_code error;
  std::string other;
  bool has_run = false;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!is_run_file(name)) {
      if (!name.starts_with(".")) other = name;
    } else if (is_own(entry.path())) {
      has_run = true;
    } else {
      return fmt::format("its {} was not written by Lockstep and would be overwritten", name);
    }
  }
  if (has_run || other.empty()) return "";
  return fmt::format("this folder contains {}, but no run", other);
}

}  // namespace lockstep
