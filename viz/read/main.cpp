// lockstep_read: what the record of a run says. A run starts it at its end, and `./lockstep retime`
// and `./lockstep view --summary` call it.

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/program.h"
#include "core/run/files/run_folder.h"
#include "viz/read/explain/retime.h"
#include "viz/read/report/report.h"

using namespace lockstep;

namespace {

Detail detail_of(const std::string& word) {
  if (word == "brief") return Detail::brief;
  if (word == "summary") return Detail::summary;
  if (word == "full") return Detail::full;
  throw UsageError(
      fmt::format("--detail {}: no such detail; there are brief, summary and full", excerpt(word)));
}

/// report FOLDER [--detail brief|summary|full] [--quiet] [--json FILE]: prints the report, and
/// writes it to report.json in the folder, if the trace is there, and to FILE.
int report(const std::vector<std::string>& words) {
  std::string folder, file;
  Detail detail = Detail::summary;
  bool quiet = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto value = [&] {
      if (i + 1 == words.size()) throw UsageError(words[i] + ": wants a value");
      return words[++i];
    };
    if (words[i] == "--detail")
      detail = detail_of(value());
    else if (words[i] == "--json")
      file = value();
    else if (words[i] == "--quiet")
      quiet = true;
    else if (folder.empty() && !words[i].starts_with("--"))
      folder = words[i];
    else
      throw UsageError(fmt::format("report: {}: give a run's folder, --detail, --json and --quiet",
                                   excerpt(words[i])));
  }
  if (folder.empty()) throw UsageError("report: name a run's folder, such as runs/latest");
  const Report report = read_run(folder);
  if (!quiet) fmt::print("{}", report.text(Console::detect(), detail));
  if (!report.timeline.ranks().empty())
    write_text_file(std::filesystem::path{folder} / "report.json", report.json());
  if (!file.empty()) write_text_file(file, report.json());
  return 0;
}

constexpr const char* usage =
    "lockstep_read report FOLDER [--detail brief|summary|full] [--quiet] [--json FILE]\n"
    "lockstep_read retime RUN [--cluster NAME|FILE] [--change CHANGE]... [--report FILE]\n";

}  // namespace

int main(int argc, char** argv) {
  return run_program([&]() -> int {
    const std::vector<std::string> words{argv + 1, argv + argc};
    if (words.empty()) throw UsageError("lockstep_read: say what to read: report or retime");
    if (words.front() == "--help" || words.front() == "-h") {
      fmt::print("{}", usage);
      return 0;
    }
    const std::vector<std::string> rest{words.begin() + 1, words.end()};
    if (words.front() == "report") return report(rest);
    if (words.front() == "retime") return retime(rest);
    throw UsageError(fmt::format("lockstep_read {}: no such verb; there are report and retime",
                                 excerpt(words.front())));
  });
}
