#include "viz/data/feed/trace_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "core/base/input_file.h"
#include "core/base/printable.h"
#include "viz/data/feed/packed_files.h"
#include "viz/data/feed/perfetto_manifest.h"
#include "viz/data/feed/run_schedule.h"
#include "viz/read/kineto/import.h"
#include "viz/read/kineto/reader.h"

namespace lockstep::viz {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t sniffed_bytes = 1 << 16;  // bytes of a file that identify its format
constexpr std::array endings{".json", ".json.gz", ".zip", ".tar", ".tar.gz", ".tgz"};

bool may_be_trace(const fs::path& file) {
  const std::string name = file.filename().string();
  return std::ranges::any_of(endings, [&](const char* ending) { return name.ends_with(ending); });
}

/// Returns whether a file has the ending of PyTorch's traces.
bool is_torch(const std::string& name) {
  return name.find(".pt.trace.json") != std::string::npos;
}

/// The files of one run by the tool that wrote them.
struct Inputs {
  std::vector<fs::path> lines;           ///< traces of Lockstep and of other tools, on disk
  std::vector<PackedFile> packed_lines;  ///< the same kinds of traces, unpacked
  std::vector<kineto::Trace> kineto;
  ReadReport report;
};

void take_document(PackedFile document, Inputs& inputs) {
  if (!kineto::is_kineto(document.content)) {
    inputs.packed_lines.push_back(std::move(document));
    return;
  }
  kineto::Trace trace = kineto::read_trace(std::move(document.content), document.name);
  ++inputs.report.files;
  inputs.report.lines += static_cast<std::int64_t>(trace.events.size());
  inputs.report.malformed += trace.skipped;
  if (inputs.report.first_malformed.empty() && trace.skipped > 0)
    inputs.report.first_malformed = excerpt(trace.file) + ", " + trace.first_skipped;
  inputs.kineto.push_back(std::move(trace));
}

void take_archive(const fs::path& file, const MemoryLimit& limit, Inputs& inputs) {
  std::vector<PackedFile> members = unpack(file, limit.bytes());
  const std::string name = file.filename().string();
  std::vector<ManifestEntry> manifest;
  int manifests = 0;
  std::erase_if(members, [&](const PackedFile& member) {
    if (!is_manifest(member.content)) return false;
    if (++manifests > 1) throw UsageError(excerpt(name) + ": has two manifests");
    manifest = parse_manifest(member.content, name);
    return true;
  });
  const auto offsets = clock_offsets(manifest, name);
  if (members.empty()) throw UsageError(excerpt(file.string()) + ": has no trace in it");
  for (PackedFile& member : members) {
    const std::string path = member.name;
    const std::size_t before = inputs.kineto.size();
    take_document(std::move(member), inputs);
    if (inputs.kineto.size() == before) continue;
    kineto::Trace& trace = inputs.kineto.back();
    for (const ManifestEntry& entry : manifest)
      if (entry.path == path && !entry.machine.empty()) trace.host = entry.machine;
    if (const auto offset = offsets.find(path); offset != offsets.end()) {
      // The manifest relates the times as written, without baseTimeNanoseconds.
      trace.origin_ns -= trace.base_ns;
      if (__builtin_add_overflow(trace.origin_ns, offset->second, &trace.origin_ns))
        trace.origin_ns = offset->second;
    }
  }
}

bool is_kineto_file(const fs::path& file) {
  std::ifstream in{file, std::ios::binary};
  std::string start(sniffed_bytes, '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(in.gcount()));
  return kineto::is_kineto(start);
}

Inputs sort_inputs(const std::vector<fs::path>& paths, const MemoryLimit& limit) {
  Inputs inputs;
  for (const fs::path& path : paths)
    for (const fs::path& file : input_files(path)) {
      if (is_packed(file)) {
        take_archive(file, limit, inputs);
      } else if (is_kineto_file(file)) {
        try {
          take_document({file.filename().string(), content_of(file.string())}, inputs);
        } catch (const InputError& error) {
          throw UsageError(fmt::format("{}: {}", excerpt(file.string()), error.what()));
        }
      } else {
        inputs.lines.push_back(file);
      }
    }
  return inputs;
}

}  // namespace

std::vector<fs::path> input_files(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return trace_files(path);
  std::vector<fs::path> others;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (!is_torch(name) &&
        (name == "trace.json" || (name.starts_with("rank") && name.ends_with(".json"))))
      return trace_files(path);
    if (may_be_trace(entry.path())) others.push_back(entry.path());
  }
  if (others.empty())
    throw UsageError(path.string() +
                     ": has no traces (trace.json, rank*.json, *.pt.trace.json, *.json.gz, *.zip); "
                     "give a trace file, or a run's folder such as runs/latest");
  // PyTorch's ending distinguishes traces from other JSON files in the folder.
  std::vector<fs::path> torch;
  std::ranges::copy_if(others, std::back_inserter(torch),
                       [](const fs::path& file) { return is_torch(file.filename().string()); });
  if (!torch.empty()) others = std::move(torch);
  std::ranges::sort(others);
  return others;
}

ReadReport read_inputs(const std::vector<fs::path>& paths, const MemoryLimit& limit,
                       Timeline& timeline) {
  Inputs inputs = sort_inputs(paths, limit);
  const bool lines = !inputs.lines.empty() || !inputs.packed_lines.empty();
  if (!inputs.kineto.empty() && lines) {
    const std::string other = inputs.lines.empty() ? inputs.packed_lines.front().name
                                                   : inputs.lines.front().filename().string();
    throw UsageError(fmt::format(
        "{} is PyTorch's and {} is not: a run has the traces of one tool; give those of one",
        excerpt(inputs.kineto.front().file), excerpt(other)));
  }
  if (!inputs.kineto.empty()) {
    kineto::fill(kineto::analyse(std::move(inputs.kineto)), timeline);
    name_schedule(timeline);
    // The trace does not name its run, but its folder or file may.
    const fs::path& first = paths.front();
    const fs::path name = first.filename().empty() ? first.parent_path() : first;
    timeline.run().lesson = "PyTorch " + excerpt(name.stem().stem().string(), 40);
    return inputs.report;
  }
  ReadReport report = read_traces(inputs.lines, timeline);
  for (const PackedFile& file : inputs.packed_lines) {
    TraceReader reader{timeline};
    reader.feed(file.content);
    reader.finish();
    ++report.files;
    report.lines += reader.lines();
    report.malformed += reader.malformed();
    if (report.first_malformed.empty() && !reader.first_malformed().empty())
      report.first_malformed = excerpt(file.name) + ", " + reader.first_malformed();
  }
  timeline.settle();
  return report;
}

void export_archive(const std::vector<fs::path>& paths, const MemoryLimit& limit,
                    const fs::path& file) {
  std::vector<PackedFile> members;
  for (const fs::path& path : paths)
    for (const fs::path& each : input_files(path)) {
      if (is_packed(each)) {
        for (PackedFile& member : unpack(each, limit.bytes()))
          if (!is_manifest(member.content)) members.push_back(std::move(member));
      } else {
        members.push_back({each.filename().string(), content_of(each.string())});
      }
    }
  // Each trace's shift, from its clock as written to the common one, at its first event.
  Inputs inputs = sort_inputs(paths, limit);
  std::vector<ManifestEntry> entries;
  std::map<std::string, std::int64_t> written;  // the first event's time as written, by file
  for (const kineto::Trace& trace : inputs.kineto)
    written[trace.file] =
        trace.written_ns + (trace.events.empty() ? 0 : trace.events.front().start / 1000);
  if (!inputs.kineto.empty()) {
    const kineto::Import import = kineto::analyse(std::move(inputs.kineto));
    std::map<std::string, std::int64_t> offsets;
    for (const kineto::Trace& trace : import.traces)
      offsets[trace.file] =
          (trace.events.empty() ? 0 : trace.events.front().start / 1000) - written[trace.file];
    const kineto::Trace& first = import.traces.front();
    for (std::size_t i = 0; i < import.traces.size(); ++i) {
      const kineto::Trace& trace = import.traces[i];
      ManifestEntry entry{.path = trace.file, .machine = fmt::format("rank {}", import.numbers[i])};
      if (!trace.host.empty()) entry.machine += " on " + trace.host;
      if (i > 0) {
        entry.sync_to = first.file;
        entry.offset_ns = offsets[trace.file] - offsets[first.file];
      }
      entries.push_back(std::move(entry));
    }
  } else {
    for (const PackedFile& member : members) entries.push_back({.path = member.name});
  }
  members.insert(members.begin(), PackedFile{"perfetto_manifest.json", manifest_json(entries)});
  pack(file, members);
}

}  // namespace lockstep::viz
