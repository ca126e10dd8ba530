#include "viz/app/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "core/base/error.h"

namespace lockstep::viz {
namespace {

constexpr int smallest_window = 320;
constexpr int largest_window = 8192;

void parse_size(const std::string& text, ViewerOptions& options) {
  int width = 0, height = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%dx%d%c", &width, &height, &rest) != 2 ||
      width < smallest_window || height < smallest_window || width > largest_window ||
      height > largest_window) {
    throw UsageError("--size " + text + ": wants WIDTHxHEIGHT in pixels, such as 1600x900");
  }
  options.width = width;
  options.height = height;
}

}  // namespace

ParsedOptions parse_options(int argc, char** argv) {
  ParsedOptions parsed;
  ViewerOptions& options = parsed.options;
  std::string listen, size, when, screenshot, stats, hover;

  CLI::App app{
      "The timeline of a run, live or from its traces.\n\n"
      "Without files it waits for a run to connect: start one with --view, in another terminal.\n"
      "With files or folders (runs/latest) it shows those, ours or PyTorch's; with - what is "
      "piped\n"
      "into it, as it comes, and opens no port: ssh HOST 'tail -n +1 -f RUN/rank*.json' | ..."};
  app.name("lockstep_view");
  app.add_option("traces", options.paths, "Trace files, or folders of a run; - is standard input")
      ->type_name("FILE|DIR|-");
  app.add_option("--listen", listen, "Where runs connect to (default 127.0.0.1:7077)")
      ->type_name("[HOST:]PORT");
  app.add_option("--token", options.token,
                 "What ranks must present; needed to listen beyond this machine")
      ->type_name("T");
  app.add_option("--steps", options.steps, "Show these steps of a file, such as 3 or 2-4")
      ->type_name("N[-N]");
  app.add_option("--size", size, "Of the window in pixels (default 1600x900)")
      ->type_name("WIDTHxHEIGHT");
  app.add_option(
         "--screenshot", screenshot,
         "Write a picture (PNG) and exit; of a live run when it ends, unless told otherwise")
      ->type_name("FILE");
  app.add_option("--after-steps", options.after_steps,
                 "Take the picture once every rank has ended N steps")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("--when", when, "Take the picture once all ranks have sent spans")
      ->type_name("all-ranks")
      ->check(CLI::IsMember({"all-ranks"}));
  app.add_option("--hover", hover, "Have the cursor there in the picture, in pixels")
      ->type_name("X,Y");
  app.add_flag("--exit-when-done", options.exit_when_done, "Exit when the run has ended");
  app.add_option("--stats", stats,
                 "On exit, write what was received and how soon it was shown (JSON)")
      ->type_name("FILE");
  app.footer(
      "\nKeys: wheel or W S zoom, drag or A D pan, left right go by steps, F shows all, L follows\n"
      "the run, C folds communication lanes, click keeps what is under the cursor, Q quits.\n"
      "Without a display: xvfb-run -a lockstep_view runs/latest --screenshot run.png");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    parsed.exit_code = app.exit(done);
    return parsed;
  } catch (const CLI::ParseError& error) {
    throw UsageError(std::string{error.what()} + "; lockstep_view --help lists what there is");
  }
  if (!listen.empty() && !options.paths.empty()) {
    throw UsageError("--listen and files together: a live run or a trace, one at a time");
  }
  if (options.paths.size() > 1 &&
      std::count(options.paths.begin(), options.paths.end(), std::filesystem::path{"-"}) > 0) {
    throw UsageError("- and files together: what is piped or traces, one at a time");
  }
  if (options.piped() && ::isatty(STDIN_FILENO) != 0) {
    throw UsageError("-: nothing is piped into it; as in: cat trace.json | ./lockstep view -");
  }
  if (!listen.empty()) options.listen = parse_endpoint(listen);
  if (!size.empty()) parse_size(size, options);
  if (!screenshot.empty()) options.screenshot = screenshot;
  if (!stats.empty()) options.stats = stats;
  options.when_all_ranks = !when.empty();
  if (!hover.empty()) {
    int x = 0, y = 0;
    if (std::sscanf(hover.c_str(), "%d,%d", &x, &y) != 2) {
      throw UsageError("--hover " + hover + ": wants X,Y in pixels, such as 800,300");
    }
    options.hover = {x, y};
  }
  return parsed;
}

}  // namespace lockstep::viz
