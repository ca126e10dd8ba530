// lockstep_read: what the record of a run says. A run starts it at its end, and `./lockstep retime`
// and `./lockstep view --summary` call it.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/program.h"
#include "core/run/files/run_folder.h"
#include "core/run/options/command_line.h"
#include "viz/read/explain/retime.h"
#include "viz/read/report/report.h"

using namespace lockstep;

namespace {

int help() {
  fmt::print(
      "lockstep_read report FOLDER [--detail brief|summary|full] [--quiet] [--json FILE]\n"
      "lockstep_read retime RUN [--cluster NAME|FILE] [--change CHANGE]... [--report FILE]\n");
  return 0;
}

/// Prints the report, and writes it to report.json in the folder, if the trace is there, and to
/// the file of --json.
int report(int argc, char** argv) {
  CommandLine line;
  std::string folder, file, detail = "summary";
  bool quiet = false;
  line.word("FOLDER", folder, "");
  line.choice("--detail", detail, {"brief", "summary", "full"}, "");
  line.word("--json", file, "");
  line.app.add_flag("--quiet", quiet);
  if (!line.parse(argc, argv)) return help();
  if (folder.empty()) throw UsageError("report: name a run's folder, such as runs/latest");
  const Report report = read_run(folder);
  if (!quiet)
    fmt::print("{}", report.text(Console::detect(), detail == "brief"  ? Detail::brief
                                                    : detail == "full" ? Detail::full
                                                                       : Detail::summary));
  if (!report.timeline.ranks().empty())
    write_text_file(std::filesystem::path{folder} / "report.json", report.json());
  if (!file.empty()) write_text_file(file, report.json());
  return 0;
}

int retime(int argc, char** argv) {
  CommandLine line;
  RetimeRequest request;
  std::vector<std::string> runs;
  line.app.add_option("RUN", runs);
  line.word("--cluster", request.cluster, "");
  line.app.add_option("--change", request.changes)->allow_extra_args(false);
  line.word("--report", request.report, "");
  if (!line.parse(argc, argv)) return help();
  if (runs.empty()) throw UsageError("retime: name a run's folder, such as runs/latest");
  if (runs.size() > 1)
    throw UsageError(fmt::format("{}: retime takes one run, and already has {}", excerpt(runs[1]),
                                 excerpt(runs[0])));
  request.run = runs.front();
  retime(request);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program([&]() -> int {
    const std::string verb = argc > 1 ? argv[1] : "";
    if (verb == "report") return report(argc - 1, argv + 1);
    if (verb == "retime") return retime(argc - 1, argv + 1);
    if (verb == "--help" || verb == "-h") return help();
    if (verb.empty()) throw UsageError("lockstep_read: say what to read: report or retime");
    throw UsageError(
        fmt::format("lockstep_read {}: no such verb; there are report and retime", excerpt(verb)));
  });
}
