#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/support/temporary_folder.h"
#include "viz/app/preferences.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

/// Sets $XDG_CONFIG_HOME for a test.
struct ConfigFolder {
  testing::TemporaryFolder folder;
  std::string before;
  bool was_set = false;
  ConfigFolder() {
    if (const char* value = std::getenv("XDG_CONFIG_HOME")) {
      before = value;
      was_set = true;
    }
    ::setenv("XDG_CONFIG_HOME", folder.path().c_str(), 1);
  }
  ~ConfigFolder() {
    if (was_set)
      ::setenv("XDG_CONFIG_HOME", before.c_str(), 1);
    else
      ::unsetenv("XDG_CONFIG_HOME");
  }
};

ViewState state_of(const ViewerOptions& options) {
  ViewState view;
  view.theme = options.theme.value_or(Theme::dark);
  view.scale = options.scale.value_or(0);
  view.critical_path = options.critical_path;
  view.ghost = options.ghost;
  return view;
}

}  // namespace

TEST_CASE("settings come back as they were saved") {
  const ConfigFolder config;
  CHECK(settings_file() == config.folder.path() / "lockstep" / "viewer.json");
  CHECK(load_settings(settings_file()) == Settings{});
  const Settings settings{.theme = Theme::light,
                          .scale = 1.25,
                          .width = 1366,
                          .height = 768,
                          .critical_path = true,
                          .predicted = true,
                          .recent = {"/a/run", "/b \"quoted\""}};
  REQUIRE(save_settings(settings, settings_file()));
  CHECK(load_settings(settings_file()) == settings);
  // Only the file itself is left.
  int files = 0;
  for ([[maybe_unused]] const auto& each :
       std::filesystem::directory_iterator(config.folder.path() / "lockstep"))
    ++files;
  CHECK(files == 1);
  CHECK_FALSE(save_settings(settings, "/proc/no/such/folder/viewer.json"));
}

TEST_CASE("malformed settings are the defaults") {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "viewer.json";
  for (const char* text :
       {"", "{", "[]", "7", R"({"theme":7,"scale":"x","width":-5,"height":1e99,"recent":{}})",
        R"({"scale":1e-9,"recent":[1,{}],"critical_path":"yes"})"}) {
    std::ofstream{file} << text;
    CAPTURE(text);
    CHECK(load_settings(file) == Settings{});
  }
}

TEST_CASE("text grows with a very tall window, unless the screen asks for more") {
  CHECK(scale_of_window(1, 768) == 1);
  CHECK(scale_of_window(1, 1440) == 1);
  CHECK(scale_of_window(1, 2160) == 1.5);
  CHECK(scale_of_window(1, 2880) == 2);
  CHECK(scale_of_window(2, 2160) == 2);
  CHECK(scale_of_window(1.25, 900) == 1.25);
  CHECK(scale_of_window(0, 900) == 1);
  CHECK(scale_of_window(100, 900) == most_scale);
}

TEST_CASE("the latest trace comes first, once, and only a few are kept") {
  Settings settings;
  for (int i = 0; i < 20; ++i) remember(settings, "/run" + std::to_string(i));
  remember(settings, "/run15");
  REQUIRE(settings.recent.size() == most_recent);
  CHECK(settings.recent[0] == "/run15");
  CHECK(settings.recent[1] == "/run19");
  CHECK(std::count(settings.recent.begin(), settings.recent.end(), "/run15") == 1);
}

TEST_CASE("what the user changes holds at the next start, unless the command line says otherwise") {
  const ConfigFolder config;
  ViewerOptions options;
  options.paths = {"/some/run"};
  Preferences first{options};
  ViewState view = state_of(options);
  view.theme = Theme::light;
  view.scale = 1.5;
  view.critical_path = true;
  first.save(options, view, {1000, 700});

  ViewerOptions next;
  next.paths = {"/other/run"};
  const Preferences second{next};
  CHECK(next.theme == Theme::light);
  CHECK(next.scale == 1.5);
  CHECK(next.width == 1000);
  CHECK(next.height == 700);
  CHECK(next.critical_path);
  CHECK(second.settings().recent == std::vector<std::string>{"/some/run"});

  ViewerOptions given;
  given.theme = Theme::dark;
  given.scale = 2;
  given.size_given = true;
  Preferences third{given};
  CHECK(given.theme == Theme::dark);
  CHECK(given.scale == 2);
  CHECK(given.width == 1600);
  // Flags apply to one start only.
  third.save(given, state_of(given), {given.width, given.height});
  CHECK(load_settings(settings_file()).theme == Theme::light);
}

TEST_CASE("pictures, --no-settings and live runs without changes leave no file") {
  const ConfigFolder config;
  const auto use = [](ViewerOptions options, bool changes) {
    Preferences preferences{options};
    ViewState view = state_of(options);
    if (changes) view.theme = Theme::light;
    preferences.save(options, view, {options.width, options.height});
  };
  ViewerOptions picture;
  picture.paths = {"/some/run"};
  picture.screenshot = "x.png";
  use(picture, true);
  ViewerOptions forgetful;
  forgetful.paths = {"/some/run"};
  forgetful.remembers = false;
  use(forgetful, true);
  const ViewerOptions live;
  use(live, false);
  CHECK_FALSE(std::filesystem::exists(config.folder.path() / "lockstep"));
  use(live, true);
  CHECK(std::filesystem::exists(settings_file()));
}
