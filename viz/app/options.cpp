#include "viz/app/options.h"

#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <cstdio>

#include "core/base/error.h"
#include "core/base/token.h"
#include "core/run/options/command_line.h"
#include "viz/views/help_view.h"

namespace lockstep::viz {
namespace {

void parse_size(const std::string& text, ViewerOptions& options) {
  int width = 0, height = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%dx%d%c", &width, &height, &rest) != 2 ||
      width < smallest_window || height < smallest_window || width > largest_window ||
      height > largest_window) {
    throw UsageError("--size " + text + ": give WIDTHxHEIGHT in pixels, such as 1600x900");
  }
  options.width = width;
  options.height = height;
}

std::pair<int, int> parse_pixel(const char* option, const std::string& text) {
  int x = 0, y = 0;
  if (std::sscanf(text.c_str(), "%d,%d", &x, &y) != 2) {
    throw UsageError(fmt::format("{} {}: give X,Y in pixels, such as 800,300", option, text));
  }
  return {x, y};
}

}  // namespace

std::optional<ViewerOptions> parse_options(int argc, char** argv) {
  ViewerOptions options;
  std::string listen, token, token_file, memory, size, when, screenshot, stats, hover, click;
  std::vector<std::string> shown;
  std::string theme, panel;
  bool forgets = false;

  CommandLine line;
  CLI::App& app = line.app;
  app.description(
      "Shows the timeline of a run, live or from its traces.\n\n"
      "Without files it waits for a run to connect: start one with --view in another terminal.\n"
      "With files or folders (such as runs/latest) it shows these traces: Lockstep's, or those "
      "that\n"
      "PyTorch's profiler wrote for one or several ranks, also compressed (.gz) or in a .zip.\n"
      "With the dumps of PyTorch's flight recorder (nccl_trace_rank_0, ...) it shows which ranks "
      "wait\nfor which.\n"
      "With the traces of two runs it compares them; give a run twice to compare two of its "
      "steps.\n"
      "With - it shows the trace that arrives on standard input and opens no port:\n"
      "ssh HOST 'tail -n +1 -f RUN/rank*.json' | lockstep_view -\n"
      "With --lab it needs neither: it simulates pipeline schedules, and runs them and the "
      "lessons.");
  app.name("lockstep_view");
  app.add_option("traces", options.paths, "Trace files or run folders; - is standard input")
      ->type_name("FILE|DIR|-");
  app.add_option("--listen", listen, "The address that runs connect to (default 127.0.0.1:7077)")
      ->type_name("[HOST:]PORT");
  app.add_option("--token-file", token_file,
                 fmt::format("A file that only you can read, with the token that ranks must send; "
                             "or set {}. Required to accept runs from other machines; without a "
                             "token, only your own runs on this machine are accepted",
                             token_variable))
      ->type_name("FILE");
  app.add_option(
         "--token", token,
         "The token itself; other users of this machine may see it in the list of processes")
      ->type_name("T");
  app.add_option("--memory", memory,
                 "Read no more of a live trace once the viewer takes this much memory (default "
                 "2GB). Ranks then wait, or leave the rest in their files")
      ->type_name("SIZE");
  app.add_option("--steps", options.steps,
                 "Show only these steps of a file, such as 3 or 2-4; of two runs, compare step 3 "
                 "of both, or with 3,7 step 3 of the first and step 7 of the second")
      ->type_name("N[-N]|N,N");
  app.add_option("--size", size, "Window size in pixels (default 1600x900)")
      ->type_name("WIDTHxHEIGHT");
  app.add_option(
         "--screenshot", screenshot,
         "Write a picture (PNG) and exit; by default, a live run's picture is taken when it ends")
      ->type_name("FILE");
  line.only(app.add_option("--after-steps", options.after_steps,
                           "Take the picture once every rank has completed N steps")
                ->type_name("N"),
            at_least(1));
  line.only(app.add_option("--when", when, "Take the picture once all ranks have sent spans")
                ->type_name("all-ranks"),
            among({"all-ranks"}));
  app.add_option("--hover", hover, "Place the cursor at this pixel in the picture")
      ->type_name("X,Y");
  app.add_option("--click", click, "Click this pixel before the picture is taken; with two, drag")
      ->type_name("X,Y[,X,Y]");
  line.only(app.add_option("--show", shown, "What to show from the start: critical-path, predicted")
                ->type_name("NAME,...")
                ->delimiter(','),
            among({"critical-path", "predicted"}));
  app.add_option(
         "--panel", panel,
         "The panel in the last card: " + panel_names(choosable_panels()) + ", if the run has it")
      ->type_name("NAME");
  line.only(
      app.add_option(
             "--lab", options.lab,
             "Open the lab: schedules on sliders, a board to build one by hand, or lessons to "
             "start; needs no trace [schedules]")
          ->type_name("schedules|board|lessons")
          ->expected(0, 1)
          ->default_str("schedules"),
      among({"schedules", "board", "lessons"}));
  app.add_option("--board", options.board,
                 "Open the lab's board on a schedule, such as 1f1b or the one in a CSV file of "
                 "PyTorch's grammar; with :N, on its first N moves")
      ->type_name("NAME|FILE.csv[:N]");
  line.only(
      app.add_option("--theme", theme, "Colours on a dark or on a light background (default dark)")
          ->type_name("dark|light"),
      among({"dark", "light"}));
  line.only(app.add_option(
                   "--scale", options.scale,
                   "The size of text and everything else, from 0.5 to 4; by default as the screen "
                   "asks, and larger in a very tall window")
                ->type_name("FACTOR"),
            positive(/*or_zero=*/false));
  line.only(
      app.add_option("--font", options.font, "A TrueType font for all text")->type_name("FILE"),
      [](const std::string& file) {
        return std::filesystem::is_regular_file(file) ? std::string{} : "there is no such file";
      });
  app.add_flag("--summary", options.summary,
               "Print where each rank's time went, whom it waited for, the collectives and the "
               "kernels by time; of flight-recorder dumps, which ranks everything waits for, and "
               "who called what in each process group; and exit. Needs no display");
  app.add_flag("--verbose", options.verbose, "With --summary: print every table of a run's report");
  app.add_flag("--json", options.json, "With --summary: print JSON, with times in seconds");
  app.add_option("--export", options.exports,
                 "Write the timeline (.svg) or the statistics (.csv) of --steps, the sentences "
                 "that compare two runs (.json), or the traces and the offsets of their clocks as "
                 "an archive for Perfetto (.zip), and exit; needs no display")
      ->type_name("FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--export-to", options.export_folder,
                 "The folder for files written with E (default runs/exports)")
      ->type_name("DIR");
  app.add_flag("--no-settings", forgets,
               "Neither read nor write the settings file, lockstep/viewer.json in "
               "$XDG_CONFIG_HOME or ~/.config; keep no notes and bookmarks beside the trace");
  app.add_flag("--exit-when-done", options.exit_when_done, "Exit when the run ends");
  app.add_option(
         "--stats", stats,
         "On exit, write statistics as JSON: spans received, and the latency until they were shown")
      ->type_name("FILE");
  app.footer("\n" + help_text() +
             "Without a display: --screenshot, which then needs xvfb-run, and --export");
  if (!line.parse(argc, argv, {"--lab"})) {
    fmt::print("{}", app.help());
    return {};
  }
  if (app.count("--lab") > 0 && options.lab.empty()) options.lab = "schedules";
  if (!options.board.empty()) options.lab = "board";
  options.listen_given = !listen.empty();
  if (!listen.empty() && !options.paths.empty()) {
    throw UsageError(
        "--listen with files: the viewer shows either a live run or traces; leave one of them out");
  }
  if (options.paths.size() > 1 &&
      std::count(options.paths.begin(), options.paths.end(), std::filesystem::path{"-"}) > 0) {
    throw UsageError(
        "- with files: the viewer shows either standard input or traces; leave one of them out");
  }
  if (options.piped() && ::isatty(STDIN_FILENO) != 0) {
    throw UsageError(
        "-: standard input is a terminal; pipe a trace into it: cat trace.json | ./lockstep view "
        "-");
  }
  options.token = find_token("--token", token, "--token-file", token_file);
  hide_value("--token", argc, argv);
  if (!listen.empty()) options.listen = parse_endpoint(listen);
  if (!memory.empty()) options.memory = parse_memory(memory);
  if (!size.empty()) parse_size(size, options);
  if (!screenshot.empty()) options.screenshot = screenshot;
  if (!stats.empty()) options.stats = stats;
  options.size_given = !size.empty();
  if (options.scale && (*options.scale < least_scale || *options.scale > most_scale))
    throw UsageError(
        fmt::format("--scale {}: give {} to {}", *options.scale, least_scale, most_scale));
  if (!theme.empty()) options.theme = theme == "light" ? Theme::light : Theme::dark;
  if (!panel.empty()) {
    options.panel = panel_named(panel);
    if (!options.panel)
      throw UsageError(
          fmt::format("--panel {}: give one of {}", panel, panel_names(choosable_panels())));
  }
  options.remembers = !forgets;
  for (const auto& file : options.exports) {
    if (file.extension() != ".svg" && file.extension() != ".csv" && file.extension() != ".json" &&
        file.extension() != ".zip")
      throw UsageError("--export " + file.string() +
                       ": give a name that ends in .svg, .csv, .zip or, for two runs, .json; "
                       "--screenshot writes a PNG");
  }
  if (options.json && !options.summary)
    throw UsageError("--json: prints a summary as JSON; give --summary, too");
  if (options.verbose && !options.summary)
    throw UsageError("--verbose: prints every table of a summary; give --summary, too");
  if (options.summary && options.live())
    throw UsageError("--summary needs traces; give a trace file, or a folder such as runs/latest");
  options.when_all_ranks = !when.empty();
  if (!hover.empty()) options.hover = parse_pixel("--hover", hover);
  if (!click.empty()) {
    options.click = parse_pixel("--click", click);
    const std::size_t second = click.find(',', click.find(',') + 1);
    options.drag_to = second == std::string::npos
                          ? options.click
                          : parse_pixel("--click", click.substr(second + 1));
  }
  options.critical_path = std::ranges::count(shown, "critical-path") > 0;
  options.ghost = std::ranges::count(shown, "predicted") > 0;
  return options;
}

}  // namespace lockstep::viz
