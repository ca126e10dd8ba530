#include "viz/data/window/run_notes.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/base/json_reader.h"
#include "core/base/printable.h"
#include "viz/data/window/settings.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep::viz {
namespace {

constexpr std::uintmax_t largest_notes = std::uintmax_t{4} << 20;
constexpr int most_note_rank = 1 << 30;

Picoseconds apart(Picoseconds a, Picoseconds b) {
  return a > b ? a - b : b - a;
}

}  // namespace

bool RunNotes::empty() const {
  return notes.empty() &&
         std::ranges::none_of(bookmarks, [](const auto& each) { return each.has_value(); });
}

void RunNotes::put(Note note) {
  std::erase_if(notes,
                [&](const Note& each) { return each.rank == note.rank && each.at == note.at; });
  if (note.text.empty() || notes.size() >= most_notes) return;
  if (note.text.size() > longest_note) note.text.resize(longest_note);
  notes.push_back(std::move(note));
}

const Note* RunNotes::find(int rank, Picoseconds at, Picoseconds near) const {
  const Note* best = nullptr;
  for (const Note& note : notes)
    if (note.rank == rank && apart(note.at, at) <= near &&
        (!best || apart(note.at, at) < apart(best->at, at)))
      best = &note;
  return best;
}

std::filesystem::path notes_file(const std::filesystem::path& trace) {
  std::error_code error;
  if (std::filesystem::is_directory(trace, error)) return trace / "lockstep-viewer.notes";
  return std::filesystem::path{trace.string() + ".notes"};
}

RunNotes parse_notes(std::string_view text, const std::string& run) {
  using Use = JsonReader::Field::Use;
  RunNotes found{.run = run};
  JsonReader in{text};
  const auto time = [&] { return in.whole(earliest_time, latest_time); };
  const auto note = [&] {
    Note each;
    in.object({{"rank", [&] { each.rank = static_cast<int>(in.whole(0, most_note_rank)); }},
               {"at", [&] { each.at = time(); }},
               {"text", [&] { each.text = excerpt(in.string(), longest_note); }}});
    found.put(std::move(each));
  };
  const auto bookmark = [&] {
    std::size_t number = 0;
    TimeWindow window;
    in.object({{"number",
                [&] { number = static_cast<std::size_t>(in.whole(1, RunNotes::most_bookmarks)); }},
               {"begin", [&] { window.begin = static_cast<double>(time()); }},
               {"end", [&] { window.end = static_cast<double>(time()); }}});
    if (window.end > window.begin) found.bookmarks[number - 1] = window;
  };
  std::string of_run;
  try {
    in.object({{"run", [&] { of_run = in.string(); }},
               {"notes", [&] { in.elements(note); }, Use::optional},
               {"bookmarks", [&] { in.elements(bookmark); }, Use::optional}});
    in.end();
  } catch (const JsonError&) {
    return {.run = run};
  }
  if (of_run != run) return {.run = run};
  return found;
}

RunNotes load_notes(const std::filesystem::path& file, const std::string& run) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error) ||
      std::filesystem::file_size(file, error) > largest_notes || error)
    return {.run = run};
  std::ifstream in{file, std::ios::binary};
  const std::string text{std::istreambuf_iterator<char>{in}, {}};
  return parse_notes(text, run);
}

bool save_notes(const RunNotes& notes, const std::filesystem::path& file) {
  std::error_code error;
  if (notes.empty()) {
    std::filesystem::remove(file, error);
    return !error;
  }
  nlohmann::ordered_json json{{"run", notes.run},
                              {"notes", nlohmann::ordered_json::array()},
                              {"bookmarks", nlohmann::ordered_json::array()}};
  for (const Note& note : notes.notes)
    json["notes"].push_back({{"rank", note.rank}, {"at", note.at}, {"text", note.text}});
  const auto whole = [](double at) {
    return static_cast<Picoseconds>(std::clamp(std::round(at), static_cast<double>(earliest_time),
                                               static_cast<double>(latest_time)));
  };
  for (std::size_t i = 0; i < notes.bookmarks.size(); ++i)
    if (const auto& window = notes.bookmarks[i])
      json["bookmarks"].push_back(
          {{"number", i + 1}, {"begin", whole(window->begin)}, {"end", whole(window->end)}});
  return replace_file(file, json.dump(2, ' ', false, decltype(json)::error_handler_t::replace));
}

}  // namespace lockstep::viz
