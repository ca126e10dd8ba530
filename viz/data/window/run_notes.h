#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/time/time.h"
#include "viz/data/layout/viewport.h"

namespace lockstep::viz {

/// A note that the user has attached to a time of a rank.
struct Note {
  int rank = 0;
  Picoseconds at = 0;
  std::string text{};
  bool operator==(const Note&) const = default;
};
constexpr std::size_t most_notes = 1000, longest_note = 400;  ///< bytes

/// The user's notes and bookmarks of a run. A bookmark is a window of time.
struct RunNotes {
  static constexpr std::size_t most_bookmarks = 9;

  std::string run{};  ///< the run's name, as in its trace
  std::vector<Note> notes{};
  std::array<std::optional<TimeWindow>, most_bookmarks> bookmarks{};

  bool empty() const;
  bool operator==(const RunNotes&) const = default;
  /// Adds a note, replaces the note at the same place, or, with an empty text, removes that note.
  /// Does nothing if there are `most_notes`.
  void put(Note note);
  /// Returns the note of a rank closest to `at`, if it is within `near`; or null.
  const Note* find(int rank, Picoseconds at, Picoseconds near) const;
};

/// Returns the file beside a run's trace that holds the user's notes. It is not part of the trace:
/// it is lockstep-viewer.notes in a run's folder, or x.json.notes beside a trace file x.json.
std::filesystem::path notes_file(const std::filesystem::path& trace);
/// Reads notes from JSON. Returns none, with the run's name, if the text is not valid or belongs to
/// another run.
RunNotes parse_notes(std::string_view text, const std::string& run);
/// Reads the notes beside a trace.
RunNotes load_notes(const std::filesystem::path& file, const std::string& run);
/// Writes notes through a temporary file, or removes the file if there are no notes. Returns
/// whether this succeeded.
bool save_notes(const RunNotes& notes, const std::filesystem::path& file);

}  // namespace lockstep::viz
