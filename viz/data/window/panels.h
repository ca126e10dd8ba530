#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "viz/data/layout/series.h"

namespace lockstep::viz {

/// The contents of a run's trace that determine which panels have something to show.
struct RunContents {
  bool pipeline = false;       ///< more than one stage
  bool computation = false;    ///< forward and backward passes, or kernels
  bool communication = false;  ///< messages or collectives
  bool buckets = false;        ///< collectives of data parallelism, see is_of_bucket()
  bool experts = false;        ///< the tokens of each expert
  bool loss = false;
  bool memory = false;
  bool plan = false;     ///< the trace describes the mesh of its ranks
  bool rings = false;    ///< collectives that ran as rings
  bool shards = false;   ///< the trace lists the slices that the ranks store
  bool waits = false;    ///< the run has stalled; not set by contents_of()
  bool waiting = false;  ///< the trace has waits
};

/// Reads the run's description and the first spans of each lane, so that it is fast enough for
/// every frame.
RunContents contents_of(const Timeline& timeline);

/// The panels, from left to right. `all_panels` describes them, in the same order.
enum class Panel : std::uint8_t {
  bubble,
  communication,
  loss,
  memory,
  waits,
  what_if,
  experts,
  buckets,
  traffic,
  rings,
  shards,
  plan,
  longest_waits,
  retime,
};

/// The properties of a panel, except for its drawing (viz/app/screen.cpp).
struct PanelInfo {
  Panel panel;
  const char* name;
  const char* purpose;  ///< what it shows
  float share;          ///< of the width, relative to the other cards
  bool choice;          ///< one of the choices for the last card, rather than always shown
  bool (*fits)(const RunContents& contents);  ///< whether the run has something to show
};
extern const std::array<PanelInfo, 14> all_panels;
inline const PanelInfo& info_of(Panel panel) {
  return all_panels[static_cast<std::size_t>(panel)];
}

/// Returns the panel with this name on the command line, such as "what-if", in upper or lower case,
/// if the user can choose it for the last card.
std::optional<Panel> panel_named(std::string_view name);
/// Lists names on the command line: "buckets, traffic".
std::string panel_names(const std::vector<Panel>& panels);
/// All panels that the user can choose for the last card.
std::vector<Panel> choosable_panels();

/// The panels for a run, from left to right: the `fixed` ones, and one of the `choices`, because
/// there is no room for all of them.
struct PanelRow {
  std::vector<Panel> fixed;
  std::vector<Panel> choices;

  /// Returns the chosen panel if this run has it, and otherwise the first.
  std::optional<Panel> shown(std::optional<Panel> chosen) const;
  /// Returns the choice after the one that is shown; after the last, the first.
  std::optional<Panel> next(std::optional<Panel> chosen) const;
  bool operator==(const PanelRow&) const = default;
};
PanelRow panels_for(const RunContents& contents);

/// Returns the first and the last (exclusive) of consecutive buttons that fit into `room`: as many
/// as possible, `shown` among them, and preferably the first ones.
std::pair<std::size_t, std::size_t> range_that_fits(const std::vector<float>& widths,
                                                    std::size_t shown, float room);

}  // namespace lockstep::viz
