#include "viz/data/feed/perfetto_manifest.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/printable.h"

namespace lockstep::viz {
namespace {

constexpr std::string_view manifest_key = "perfetto_manifest";
constexpr std::size_t longest_manifest = std::size_t{1} << 20;  // bytes

std::string text_at(const nlohmann::json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string{};
}

}  // namespace

bool is_manifest(std::string_view content) {
  std::string start;
  for (const char each : content.substr(0, 256))
    if (each != ' ' && each != '\n' && each != '\r' && each != '\t') start += each;
  return start.starts_with(fmt::format("{{\"{}\"", manifest_key));
}

std::vector<ManifestEntry> parse_manifest(const std::string& content, const std::string& file) {
  const auto fail = [&](const std::string& why) -> UsageError {
    return UsageError(fmt::format("{}: its manifest {}", excerpt(file), why));
  };
  if (content.size() > longest_manifest) throw fail("is too long");
  const auto document = nlohmann::json::parse(content, nullptr, false);
  if (document.is_discarded() || !document.is_object())
    throw fail("is not a complete JSON document");
  const auto manifest = document.find(manifest_key);
  if (manifest == document.end() || !manifest->is_object()) throw fail("is not an object");
  const auto version = manifest->find("version");
  if (version == manifest->end() || !version->is_number_integer() || version->get<int>() != 1)
    throw fail("does not have version 1, the only supported one");
  std::vector<ManifestEntry> entries;
  const auto files = manifest->find("files");
  if (files == manifest->end()) return entries;
  if (!files->is_array()) throw fail("has files that are not a list");
  for (const auto& each : *files) {
    if (!each.is_object() || text_at(each, "path").empty())
      throw fail("has an entry without a path");
    ManifestEntry entry{.path = text_at(each, "path")};
    if (const auto machine = each.find("machine"); machine != each.end() && machine->is_object())
      entry.machine = text_at(*machine, "name");
    if (const auto clocks = each.find("clocks"); clocks != each.end()) {
      const auto other = clocks->is_object() ? clocks->find("sync_to") : clocks->end();
      if (!clocks->is_object() || other == clocks->end() || !other->is_object() ||
          text_at(*other, "file").empty())
        throw fail(fmt::format("has clocks of {} without sync_to.file", excerpt(entry.path)));
      entry.sync_to = text_at(*other, "file");
      if (const auto offset = clocks->find("offset_ns"); offset != clocks->end()) {
        if (!offset->is_number_integer())
          throw fail(
              fmt::format("has an offset_ns of {} that is not an integer", excerpt(entry.path)));
        entry.offset_ns = offset->get<std::int64_t>();
      }
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string manifest_json(const std::vector<ManifestEntry>& entries) {
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const ManifestEntry& entry : entries) {
    nlohmann::ordered_json file{{"path", entry.path}};
    if (!entry.machine.empty()) file["machine"] = {{"name", entry.machine}};
    if (!entry.sync_to.empty())
      file["clocks"] = {{"sync_to", {{"file", entry.sync_to}}}, {"offset_ns", entry.offset_ns}};
    files.push_back(std::move(file));
  }
  const nlohmann::ordered_json document{{manifest_key, {{"version", 1}, {"files", files}}}};
  return document.dump(2) + "\n";
}

std::map<std::string, std::int64_t> clock_offsets(const std::vector<ManifestEntry>& entries,
                                                  const std::string& file) {
  std::map<std::string, const ManifestEntry*> by_path;
  bool any = false;
  for (const ManifestEntry& entry : entries) {
    by_path[entry.path] = &entry;
    any = any || !entry.sync_to.empty();
  }
  std::map<std::string, std::int64_t> offsets;
  if (!any) return offsets;
  for (const ManifestEntry& entry : entries) {
    std::int64_t offset = 0;
    const ManifestEntry* at = &entry;
    for (std::size_t links = 0; !at->sync_to.empty(); ++links) {
      const auto other = by_path.find(at->sync_to);
      if (other == by_path.end())
        throw UsageError(fmt::format("{}: its manifest relates {} to {}, which it does not list",
                                     excerpt(file), excerpt(at->path), excerpt(at->sync_to)));
      if (links > entries.size() || __builtin_add_overflow(offset, at->offset_ns, &offset))
        throw UsageError(fmt::format("{}: its manifest relates clocks in a cycle", excerpt(file)));
      at = other->second;
    }
    offsets[entry.path] = offset;
  }
  return offsets;
}

}  // namespace lockstep::viz
