#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <limits>
#include <map>
#include <thread>

#include "core/base/crc32.h"
#include "core/model/checkpoint/checkpoint_folder.h"
#include "core/model/checkpoint/save_lock.h"
#include "tests/model/checkpoint_files.h"
#include "tests/support/complaints.h"

// A checkpoint's folder is complete or absent, and holds the files of a single run.

using namespace lockstep;
using namespace lockstep::test;
using lockstep::testing::complaint_of;
using lockstep::testing::unlike;
namespace fs = std::filesystem;

namespace {

/// Writes a folder whose files all contain `letter`, many times.
void write_state(const std::string& folder, char letter, Replacement replacement) {
  const std::string text(50'000, letter);
  NewFolder fresh{"--save", folder};
  Manifest manifest{.step = letter, .files = {}, .tensors = {}, .moments = {}};
  for (const char* name : {"config.json", "model.safetensors", "optimizer.safetensors"})
    manifest.files[name] = fresh.write(name, text);
  fresh.write(manifest_name, manifest.to_json());
  fresh.take_place(replacement);
}

/// Returns the letter that write_state() wrote to the folder that a loader would read.
char state_of(const std::string& path) {
  const std::string folder = folder_to_load(path);
  const auto text = manifest_text(folder);
  REQUIRE(text);
  const Manifest manifest = parse_manifest(*text, folder);
  REQUIRE(manifest.files.size() == 3);
  for (const auto& [name, file] : manifest.files)
    CHECK(slurp(folder + "/" + name) == std::string(50'000, static_cast<char>(manifest.step)));
  return static_cast<char>(manifest.step);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator{folder})
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

OptimizerState some_moments(const Model& model) {
  OptimizerState state{.moments = {}, .steps = 7};
  for (const Parameter* parameter : model.gpt.parameters())
    for (const char* moment : {".momentum", ".variance"})
      state.moments.push_back(
          {parameter->name + moment,
           Floats(static_cast<std::size_t>(parameter->value.elements()), 0.5F)});
  return state;
}

void save_with_moments(const std::string& folder, const Model& model) {
  save_whole(folder, model.gpt.config(), model.gpt.device(), model.gpt.parameters(),
             some_moments(model));
}

std::string complaint(const std::string& path) {
  return complaint_of<UsageError>([&] { check_checkpoint_fits(path, tiny(false)); });
}

}  // namespace

TEST_CASE("CRC-32 has its published check value, in pieces of any size") {
  const std::string text = "123456789";
  Crc32 whole;
  whole.add(text.data(), text.size());
  CHECK(whole.text() == "cbf43926");  // the check value in Williams' catalogue of CRCs
  std::mt19937 random{3};
  std::string longer(1000, '\0');
  for (char& c : longer) c = static_cast<char>(random());
  Crc32 once, pieces;
  once.add(longer.data(), longer.size());
  for (std::size_t at = 0; at < longer.size();) {
    const std::size_t n = std::min<std::size_t>(random() % 40, longer.size() - at);
    pieces.add(longer.data() + at, n);
    at += n;
  }
  CHECK(pieces.value() == once.value());
}

TEST_CASE("a writer that is killed at any time leaves the old checkpoint or the new one") {
  for (const Replacement replacement : {Replacement::exchange, Replacement::rename}) {
    const TemporaryFolder folder;
    const std::string path = folder / "run";
    const auto began = std::chrono::steady_clock::now();
    write_state(path, 'a', replacement);
    const std::chrono::microseconds took = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now() - began);
    std::mt19937 random{21};
    std::map<char, int> found;
    // Runs at least 25 rounds and, on a slow disk, more rounds until one is long enough to save.
    for (int round = 0; round < 25 || (round < 1000 && found['b'] + found['c'] == 0); ++round) {
      const pid_t writer = ::fork();
      REQUIRE(writer >= 0);
      if (writer == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (true)
          for (const char letter : {'b', 'c'}) write_state(path, letter, replacement);
      }
      const std::int64_t longest = took.count() * (1 + round / 10);
      std::this_thread::sleep_for(
          std::chrono::microseconds{static_cast<std::int64_t>(random()) % (longest + 1)});
      ::kill(writer, SIGKILL);
      ::waitpid(writer, nullptr, 0);
      ++found[state_of(path)];
    }
    CHECK(found['b'] + found['c'] > 0);
    // The next save deletes the files that the interrupted one left.
    write_state(path, 'd', replacement);
    CHECK(state_of(path) == 'd');
    CHECK(names_in(folder.path()) == std::vector<std::string>{"run"});
  }
}

TEST_CASE("a loader finds the old checkpoint between two renames, and the next save restores it") {
  const TemporaryFolder folder;
  const std::string path = folder / "run";
  write_state(path, 'a', Replacement::rename);
  fs::rename(path, path + ".previous");
  CHECK(state_of(path) == 'a');
  write_state(path, 'b', Replacement::rename);
  CHECK(state_of(path) == 'b');
  CHECK(names_in(folder.path()) == std::vector<std::string>{"run"});
}

TEST_CASE("no link is followed and no other file is deleted at the partial name") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "elsewhere");
  spill(folder / "elsewhere/config.json", "mine");
  fs::create_directory_symlink(folder / "elsewhere", folder / "run.partial");
  write_state(folder / "run", 'a', Replacement::exchange);
  CHECK(state_of(folder / "run") == 'a');
  CHECK(slurp(folder / "elsewhere/config.json") == "mine");

  spill(folder / "target", "mine");
  fs::create_symlink(folder / "target", folder / "one.safetensors.partial");
  const Model model{tiny(false)};
  export_alone(model, "--save", folder / "one.safetensors");
  CHECK(slurp(folder / "target") == "mine");
  Model{tiny(false), 2}.load(folder / "one.safetensors");

  fs::create_directory(folder / "other.partial");
  spill(folder / "other.partial/notes.txt", "mine");
  CHECK(unlike(complaint_of<UsageError>(
                   [&] { write_state(folder / "other", 'a', Replacement::exchange); }),
               {"--save", "other.partial is in the way"}) == "");
  CHECK(slurp(folder / "other.partial/notes.txt") == "mine");
}

TEST_CASE("a folder with other files is not replaced, and the checkpoint is kept beside it") {
  const TemporaryFolder folder;
  const std::string path = folder / "run";
  write_state(path, 'a', Replacement::exchange);
  spill(path + "/notes.txt", "mine");
  CHECK(unlike(complaint_of<RunError>([&] { write_state(path, 'b', Replacement::exchange); }),
               {"--save " + path, "notes.txt", "is complete in", "run.partial"}) == "");
  CHECK(state_of(path) == 'a');
  CHECK(state_of(path + ".partial") == 'b');
  CHECK(slurp(path + "/notes.txt") == "mine");
}

TEST_CASE("a link to a folder leads to the folder") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "disk/run");
  fs::create_directory_symlink(folder / "disk/run", folder / "link");
  write_state(folder / "link/", 'a', Replacement::exchange);
  CHECK(state_of(folder / "disk/run") == 'a');
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(names_in(folder / "disk") == std::vector<std::string>{"run"});
}

TEST_CASE("files that do not belong together are refused, and the line names the file") {
  const TemporaryFolder folder;
  const std::string old = folder / "old", run = folder / "run";
  save_with_moments(old, Model{tiny(false), 1});
  save_with_moments(run, Model{tiny(false), 2});
  CHECK(complaint(run) == "(nothing thrown)");
  const auto copy = [&](const std::string& name) {
    fs::copy_file(old + "/" + name, run + "/" + name, fs::copy_options::overwrite_existing);
  };
  SUBCASE("weights of another run") {
    copy("model.safetensors");
    CHECK(unlike(complaint(run), {"--load " + run, "model.safetensors has the CRC-32"}) == "");
  }
  SUBCASE("a damaged byte") {
    std::string text = slurp(run + "/optimizer.safetensors");
    text[text.size() - 9] ^= 1;
    spill(run + "/optimizer.safetensors", text);
    CHECK(unlike(complaint(run), {"--load " + run, "optimizer.safetensors has the CRC-32"}) == "");
  }
  SUBCASE("a file that is cut off") {
    fs::resize_file(run + "/optimizer.safetensors", 100);
    CHECK(unlike(complaint(run), {"--load " + run, "optimizer.safetensors has 100 bytes"}) == "");
  }
  SUBCASE("a file that is missing") {
    fs::remove(run + "/config.json");
    CHECK(unlike(complaint(run), {"--load " + run, "config.json is missing"}) == "");
  }
  SUBCASE("an optimizer without a manifest, as older versions wrote it") {
    fs::remove(run + "/manifest.json");
    CHECK(unlike(complaint(run), {"--load " + run, "no manifest.json", "model.safetensors"}) == "");
    CHECK(complaint(run + "/model.safetensors") == "(nothing thrown)");
  }
  SUBCASE("a manifest that lists no optimizer") {
    Model{tiny(false), 2}.save(run);
    copy("optimizer.safetensors");
    CHECK(unlike(complaint(run), {"--load " + run, "lists no optimizer.safetensors"}) == "");
  }
  SUBCASE("a manifest that is no manifest") {
    for (const char* text : {"", "{", "[]", "{\"files\": {}}", "{\"format\": 1}"}) {
      spill(run + "/manifest.json", text);
      CHECK(unlike(complaint(run), {"--load " + run, "manifest.json is damaged"}) == "");
    }
    std::string other = slurp(old + "/manifest.json");
    other.replace(other.find("config.json"), 6, "../con");
    spill(run + "/manifest.json", other);
    CHECK(unlike(complaint(run), {"--load " + run, "manifest.json is damaged"}) == "");
  }
}

TEST_CASE("a folder that is replaced while it is being loaded is noticed") {
  const TemporaryFolder folder;
  const std::string run = folder / "run";
  save_with_moments(run, Model{tiny(false), 1});
  const std::string state = check_checkpoint_fits(run, tiny(false));
  CHECK_NOTHROW(check_unchanged(run, state));
  save_with_moments(run, Model{tiny(false), 2});
  CHECK(unlike(complaint_of<RunError>([&] { check_unchanged(run, state); }),
               {"--load " + run, "replaced"}) == "");
}

TEST_CASE("a value that is not a number is refused, and the line names file and tensor") {
  const TemporaryFolder folder;
  const std::string run = folder / "run";
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    Model model{tiny(false)};
    model.gpt.parameters()[3]->value.f32()[2] = bad;
    const std::string& name = model.gpt.parameters()[3]->name;
    model.save(run);
    CHECK(unlike(complaint(run), {"--load " + run + "/model.safetensors", name, "element 2"}) ==
          "");
  }
  const Model model{tiny(false)};
  OptimizerState state = some_moments(model);
  state.moments[1].values[4] = -1;  // of a variance
  save_whole(run, model.gpt.config(), model.gpt.device(), model.gpt.parameters(), state);
  CHECK(unlike(complaint(run), {"--load " + run + "/optimizer.safetensors", state.moments[1].name,
                                "element 4 is -1"}) == "");
}

TEST_CASE("one run at a time holds a place for its checkpoint") {
  const TemporaryFolder folder;
  const std::string run = folder / "run";
  {
    const SaveLock lock{"--save", run};
    CHECK(unlike(complaint_of<UsageError>([&] { SaveLock("--save", run + "/"); }),
                 {"--save " + run, "process " + std::to_string(::getpid()), "another place"}) ==
          "");
    CHECK_NOTHROW(SaveLock("--save", folder / "other"));
  }
  CHECK_NOTHROW(SaveLock("--save", run));
  CHECK(names_in(folder.path()).empty());
  // The kernel releases a killed run's lock.
  const pid_t holder = ::fork();
  REQUIRE(holder >= 0);
  if (holder == 0) {
    const SaveLock lock{"--save", run};
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(holder, nullptr, 0);
  CHECK(names_in(folder.path()) == std::vector<std::string>{".run.lock"});
  CHECK_NOTHROW(SaveLock("--save", run));
  CHECK(names_in(folder.path()).empty());
  {
    const auto lock = lock_report(folder / "report.json");
    CHECK(unlike(complaint_of<UsageError>([&] { lock_report(folder / "report.json"); }),
                 {"--report", "report.json", "process " + std::to_string(::getpid())}) == "");
    CHECK_NOTHROW(lock_report(folder / "other.json"));
  }
  CHECK_NOTHROW(lock_report(folder / "report.json"));
  CHECK(names_in(folder.path()).empty());
  CHECK(lock_report("") == nullptr);
  CHECK(lock_report("/dev/null") == nullptr);
  // SaveLock does not follow a symbolic link.
  fs::create_symlink(folder / "elsewhere", folder / ".run.lock");
  CHECK(unlike(complaint_of<UsageError>([&] { SaveLock("--save", run); }), {"--save " + run}) ==
        "");
  CHECK_FALSE(fs::exists(folder / "elsewhere"));
}
