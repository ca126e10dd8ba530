#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "core/base/available_memory.h"
#include "core/base/error.h"
#include "core/model/checkpoint/checkpoint.h"
#include "core/model/data.h"
#include "core/run/lesson.h"
#include "core/run/options/memory_needed.h"
#include "core/run/options/needs.h"
#include "core/run/reference/trained_model.h"
#include "core/run/results/config_json.h"
#include "tests/run/parsed_flags.h"
#include "tests/support/complaints.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/whole_checkpoint.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

const LessonInfo sweeping_lesson{.name = "08 GPipe", .question = "?", .sweeps = true};

}  // namespace

TEST_CASE("without flags a lesson uses its defaults") {
  const auto options = parse({});
  CHECK(options->plan.mesh.ranks() == 4);
  CHECK(options->plan.mesh.size(Axis::pp) == 4);
  CHECK(options->plan.mesh.size(Axis::dp) == 1);
  CHECK(options->run.steps == 30);
  CHECK(options->plan.batch.sequences == 16);
  CHECK(options->microbatches() == std::vector<int>{8});
  CHECK(options->platform.launch == Launch::threads);
  CHECK(options->plan.seed == 1);
  CHECK(options->platform.patience_seconds == 60);
  CHECK_FALSE(options->platform.hosts.any());
  CHECK(options->output.parity);
  CHECK(options->output.view.empty());
}

TEST_CASE("without --ranks, the sizes of the lesson's axes determine the number of ranks") {
  CHECK(parse({"--pp", "3"})->plan.mesh.ranks() == 3);
  const LessonInfo two_axes{.name = "15 3D", .question = "?", .axes = {Axis::dp, Axis::tp}};
  const auto options = parse({"--dp", "2", "--tp", "4"}, two_axes);
  CHECK(options->plan.mesh.ranks() == 8);
  CHECK(options->plan.mesh.size(Axis::tp) == 4);
  CHECK(parse({"--tp", "2"}, two_axes)->plan.mesh.size(Axis::dp) == 2);  // the lesson's 4 ranks
}

TEST_CASE("a lesson's own sizes of its axes apply if no flag gives a size") {
  const LessonInfo three_axes{.name = "15 3D",
                              .question = "?",
                              .ranks = 8,
                              .batch = 64,
                              .axes = {Axis::dp, Axis::pp, Axis::tp},
                              .sizes = {{Axis::pp, 2}, {Axis::tp, 2}}};
  const auto is = [&](const std::vector<std::string>& flags, int dp, int pp, int tp) {
    const auto options = parse(flags, three_axes);
    CHECK(options->plan.mesh.size(Axis::dp) == dp);
    CHECK(options->plan.mesh.size(Axis::pp) == pp);
    CHECK(options->plan.mesh.size(Axis::tp) == tp);
  };
  is({}, 2, 2, 2);
  is({"--ranks", "16", "--batch", "64"}, 4, 2, 2);
  is({"--tp", "4"}, 2, 1, 4);
  is({"--dp", "4"}, 4, 1, 1);
  CHECK(
      refusal({"--ranks", "10"}, three_axes) ==
      "--ranks 10 with --tp 2 --pp 2: 10 ranks have no such layout; the sizes must divide 10; use "
      "--ranks 8 or --ranks 12");
  CHECK(refusal({"--ranks", "8", "--dp", "2", "--pp", "2", "--tp", "3"}, three_axes) ==
        "--ranks 8 with --tp 3 --dp 2 --pp 2: 8 ranks have no such layout; the sizes must multiply "
        "to 8; use --ranks 12");
  CHECK(refusal({"--tp", "4", "--pp", "4"}, three_axes) ==
        "--ranks 8 with --tp 4 --pp 4: 8 ranks have no such layout; the sizes must divide 8; use "
        "--ranks 16");
}

TEST_CASE("the trace lists the order of the mesh's axes if it is not the usual one") {
  const LessonInfo lesson{.name = "15 3D",
                          .question = "?",
                          .ranks = 8,
                          .batch = 64,
                          .axes = {Axis::dp, Axis::pp, Axis::tp}};
  const auto config = [&](const std::string& order) {
    return config_json(*parse({"--dp", "2", "--pp", "2", "--tp", "2", "--order", order}, lesson));
  };
  CHECK(config("tp,cp,dp,pp").find("order") == std::string::npos);
  CHECK(config("cp,tp,dp,pp").find("order") == std::string::npos);  // the same places
  CHECK(config("pp,dp,cp,tp").find(R"("order":"cp,pp,dp,tp")") != std::string::npos);
  CHECK(config("tp,pp,cp,dp").find(R"("order":"cp,tp,pp,dp")") != std::string::npos);
}

TEST_CASE("the trace lists what slows a rank, and fixed times") {
  const auto config = [&](const std::vector<std::string>& flags) {
    return config_json(*parse(flags));
  };
  CHECK(config({"--clock", "modelled"}).find("--slow") == std::string::npos);
  CHECK(config({"--clock", "modelled"}).find("--time") == std::string::npos);
  const std::string both =
      config({"--slow", "1=1.3,0=2", "--time", "forward=1500us,backward=2ms,optimizer=0.25ns"});
  CHECK(both.find(R"("--slow":"0=2,1=1.3")") != std::string::npos);
  CHECK(both.find(R"("--time":"forward=1500us,backward=2ms,optimizer=0.25ns")") !=
        std::string::npos);
}

TEST_CASE("only some lessons have a precision flag") {
  const LessonInfo narrow{
      .name = "14 mixed precision", .question = "?", .narrow = true, .precision = DType::bf16};
  CHECK(parse({}, narrow)->plan.model().dtype == DType::bf16);
  CHECK(parse({"--precision", "f16"}, narrow)->plan.model().dtype == DType::f16);
  CHECK(parse({"--precision", "f32"}, narrow)->plan.model().dtype == DType::f32);
  CHECK(parse({})->plan.model().dtype == DType::f32);
  CHECK(refusal({"--precision", "bf16"}) ==
        "--precision bf16: no such flag; --help all lists all flags");
  CHECK(refusal({"--rank", "3"}) ==
        "--rank 3: no such flag; did you mean --ranks? --help all lists all flags");
  CHECK(refusal({"--microbatch=3"}) ==
        "--microbatch=3: no such flag; did you mean --microbatches? --help all lists all flags");
  CHECK(refusal({"--precision", "fp8"}, narrow) ==
        "--precision fp8: must be one of f32, bf16, f16");
  CHECK(refusal({"--comm", "native"}, narrow) ==
        "--comm native with --precision bf16: MPI has no 16-bit floats; leave one of them out");
}

TEST_CASE("flags set what they name") {
  const auto options = parse({"--ranks",   "2",
                              "--steps=7", "--batch",
                              "12",        "--layers",
                              "6",         "--hidden",
                              "32",        "--heads",
                              "2",         "--sequence",
                              "8",         "--tied",
                              "--lr",      "0.5",
                              "--seed",    "18446744073709551615",
                              "--parity",  "off",
                              "--view",    "--microbatches",
                              "4",         "--trace",
                              "here",      "--quiet",
                              "--timeout", "2.5"});
  CHECK(options->plan.mesh.ranks() == 2);
  CHECK(options->plan.mesh.size(Axis::pp) == 2);
  CHECK(options->run.steps == 7);
  CHECK(options->plan.batch.sequences == 12);
  CHECK(options->plan.model().layers == 6);
  CHECK(options->plan.model().hidden == 32);
  CHECK(options->plan.model().tied);
  CHECK(options->plan.optimizer.learning_rate == 0.5F);
  CHECK(options->plan.seed == 18446744073709551615U);
  CHECK_FALSE(options->output.parity);
  CHECK(options->output.view == "127.0.0.1:7077");
  CHECK(options->microbatches() == std::vector<int>{4});
  CHECK(options->output.quiet);
  CHECK(options->platform.patience_seconds == 2.5);
  CHECK(parse({"--pace", "0.5", "--timeout", "2.5"})->platform.patience_seconds == 2.5);
}

TEST_CASE("several microbatches are a sweep") {
  CHECK(parse({"--microbatches", "1,2,16"}, sweeping_lesson)->microbatches() ==
        std::vector<int>{1, 2, 16});
  CHECK(unlike(refusal({"--steps", "2", "--microbatches", "1,2,4"}, sweeping_lesson),
               {"--steps 2", "3 values"}) == "");
  CHECK(unlike(refusal({"--batch", "13", "--microbatches", "2,3"}, sweeping_lesson),
               {"--batch 13", "use --batch 12"}) == "");
}

TEST_CASE("an impossible request gives one line with the flag, the value and a remedy") {
  const TemporaryFolder folder;
  const std::string here = folder.path().string();
  const std::string file = folder.file("file", "text");
  const std::vector<Wrong> wrongs{
      {{"--nope"}, {"--nope", "--help"}},
      {{"--stepz", "3"}, {"--stepz", "--help"}},
      {{"stray"}, {"stray", "--help"}},
      {{"--steps"}, {"--steps", "value"}},
      {{"--steps", "2", "--steps", "3"}, {"--steps", "once"}},
      {{"--ranks", "0"}, {"--ranks 0", "at least 1"}},
      {{"--ranks", "-1"}, {"--ranks -1", "at least 1"}},
      {{"--ranks", "x"}, {"--ranks x", "whole number"}},
      {{"--ranks", "4.0"}, {"--ranks 4.0", "whole number"}},
      {{"--ranks", "99999999999"}, {"--ranks 99999999999", "at most 268435456"}},
      {{"--steps", "0"}, {"--steps 0", "at least 1"}},
      {{"--steps", "1e3"}, {"--steps 1e3", "whole number"}},
      {{"--batch", "0"}, {"--batch 0", "at least 1"}},
      {{"--layers", "0"}, {"--layers 0", "at least 1"}},
      {{"--hidden", "0"}, {"--hidden 0", "at least 1"}},
      {{"--heads", "-4"}, {"--heads -4", "at least 1"}},
      {{"--sequence", "0"}, {"--sequence 0", "at least 1"}},
      {{"--vocab", "nan"}, {"--vocab nan", "whole number"}},
      {{"--vocab", "255"}, {"--vocab 255", "256"}},
      {{"--heads", "7"}, {"--heads 7", "--hidden 64", "--hidden 70"}},
      {{"--timeout", "0"}, {"--timeout 0", "above 0"}},
      {{"--timeout", "soon"}, {"--timeout soon", "above 0"}},
      {{"--hostfile", "f"}, {"--hostfile f", "--launch mpi"}},
      {{"--hosts", "a:4"}, {"--hosts a:4", "--launch mpi"}},
      {{"--microbatches", "0"}, {"--microbatches 0", "1,2,4,8"}},
      {{"--microbatches", "1,,2"}, {"--microbatches 1,,2", "''", "1,2,4,8"}},
      {{"--microbatches", "8,"}, {"--microbatches 8,", "1,2,4,8"}},
      {{"--microbatches", ""}, {"--microbatches", "empty"}},
      {{"--microbatches", "4;8"}, {"--microbatches 4;8", "1,2,4,8"}},
      {{"--batch", "13"}, {"--batch 13", "--microbatches 8", "--batch 8"}},
      {{"--microbatches", "5"}, {"--batch 16", "--microbatches 5", "--batch 15"}},
      {{"--microbatches", "32"}, {"--batch 16", "--microbatches 32", "--batch 32"}},
      {{"--microbatches", "1,2,4"}, {"--microbatches 1,2,4", "one value"}},
      {{"--trace", "none", "--view"}, {"--trace none", "--view 127.0.0.1:7077", "leave one"}},
      {{"--lr", "0"}, {"--lr 0", "above 0"}},
      {{"--lr", "nan"}, {"--lr nan", "above 0"}},
      {{"--lr", "-1"}, {"--lr -1", "above 0"}},
      {{"--clip", "-1"}, {"--clip -1", "at least 0"}},
      {{"--seed", "-1"}, {"--seed -1", "at least 0"}},
      {{"--seed", "x"}, {"--seed x", "whole number"}},
      {{"--dp", "2"}, {"--dp 2", "pp", "leave it out"}},
      {{"--tp", "4"}, {"--tp 4", "pp", "leave it out"}},
      {{"--pp", "3", "--ranks", "4"}, {"--ranks 4", "--pp 3"}},
      {{"--order", "tp,dp"}, {"--order tp,dp", "tp,cp,dp,pp"}},
      {{"--order", "tp,cp,dp,pp,"}, {"--order tp,cp,dp,pp,: ", "once each"}},
      {{"--order", "tp,cp,dp,tp"}, {"--order tp,cp,dp,tp: ", "once each"}},
      {{"--time", "forward=1ms,forward=2ms"},
       {"--time forward=1ms,forward=2ms", "forward is there twice"}},
      {{"--slow", "1=2,1=3", "--device", "meta"}, {"--slow 1=2,1=3", "rank 1 is there twice"}},
      {{"--slow", "1=2,", "--device", "meta"}, {"--slow 1=2,: ", "RANK=FACTOR"}},
      {{"--split", "2,2,2,2,"}, {"--split 2,2,2,2,: "}},
      {{"--launch", "ssh"}, {"--launch ssh", "threads, mpi"}},
      {{"--device", "tpu"}, {"--device tpu", "cpu"}},
      {{"--tf32"}, {"--tf32", "--device cuda"}},
      {{"--device", "meta", "--clock", "wall"},
       {"--device meta", "--clock wall", "--clock modelled"}},
      {{"--device", "meta", "--comm", "native"}, {"--device meta", "--comm native", "leave"}},
      {{"--device", "meta", "--save", "a"}, {"--device meta", "--save a", "--device cpu"}},
      {{"--device", "meta", "--load", "a"}, {"--device meta", "--load a", "--device cpu"}},
      {{"--device", "meta", "--tf32"}, {"--device meta", "--tf32", "--device cuda"}},
      {{"--device", "meta", "--launch", "mpi"},
       {"--device meta", "--launch mpi", "--launch threads"}},
      {{"--comm", "nccl"}, {"--comm nccl", "auto, native, ring"}},
      {{"--comm", "native"}, {"--comm native", "--launch mpi"}},
      {{"--clock", "sun"}, {"--clock sun", "auto, wall, modelled"}},
      {{"--clock", "wall", "--time", "forward=1ms"},
       {"--time forward=1ms", "--clock wall", "--clock modelled"}},
      {{"--clock", "wall", "--pace", "2"}, {"--pace 2", "--clock wall", "--clock modelled"}},
      {{"--pace", "0"}, {"--pace 0", "above 0"}},
      {{"--time", "forward=soon"}, {"--time forward=soon", "1.5ms"}},
      {{"--time", "foward=1ms"}, {"--time foward=1ms", "'foward'", "forward"}},
      {{"--cluster", "none.json"}, {"--cluster none.json", "classroom"}},
      {{"--cluster", file}, {"--cluster " + file, "not a cluster file"}},
      {{"--clock", "modelled", "--ranks", "129"}, {"--ranks 129", "16 nodes of 8"}},
      {{"--view", "here"}, {"--view here", "127.0.0.1:7077"}},
      {{"--view", "127.0.0.1:99999"}, {"--view 127.0.0.1:99999", "HOST:PORT"}},
      {{"--report", here}, {"--report " + here, "name of a file"}},
      {{"--report", here + "/no/report.json"}, {"--report " + here + "/no", "name another"}},
      {{"--report", "/proc/report.json"}, {"--report /proc/report.json", "name another"}},
      {{"--save", here + "/no/a.safetensors"}, {"--save " + here + "/no", "name another"}},
      {{"--save", "/proc/a.safetensors"}, {"--save /proc/a.safetensors", "name another"}},
      {{"--save", "/proc"}, {"--save /proc", "name another"}},
      {{"--parity", "maybe"}, {"--parity maybe", "on, off"}},
  };
  for (const Wrong& wrong : wrongs) {
    CAPTURE(wrong.flags.front());
    CHECK(unlike(refusal(wrong.flags), wrong.words) == "");
  }
}

TEST_CASE("a large run on the meta device writes a trace only if it is asked to") {
  const auto traced = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"--layers", "128"});
    return parse(flags)->output.traced();
  };
  CHECK(traced({"--device", "meta", "--ranks", "64"}));
  CHECK_FALSE(traced({"--device", "meta", "--ranks", "65"}));
  CHECK(traced({"--device", "meta", "--ranks", "65", "--trace", "here"}));
  CHECK(traced({"--device", "meta", "--ranks", "65", "--view"}));
  CHECK(traced({"--device", "cpu", "--ranks", "65"}));
  CHECK_FALSE(traced({"--device", "cpu", "--ranks", "65", "--trace", "none"}));
}

TEST_CASE("on the meta device the clock is modelled, however many cores there are") {
  for (const char* ranks : {"1", "128"}) {
    const auto options = parse({"--device", "meta", "--ranks", ranks, "--layers", "128"});
    CHECK(options->plan.modelled);
    CHECK(options->platform.why_this_clock == "the meta device computes nothing");
    CHECK(options->plan.collectives == Collectives::built_in);
    CHECK_FALSE(options->platform.on_gpus());
  }
  CHECK(parse({"--device", "meta", "--clock", "modelled"})->platform.why_this_clock ==
        "chosen by --clock");
}

TEST_CASE("a writable path is accepted, and nothing is left behind") {
  const TemporaryFolder folder;
  const std::string here = folder.path().string();
  const std::string old = folder.file("report.json", "old");
  const std::string full = here + "/full";
  std::filesystem::create_directory(full);
  folder.file("full/model.safetensors", "of a checkpoint");
  CHECK(parse({"--report", old, "--save", here + "/a.safetensors"})->output.report == old);
  CHECK(parse({"--report", "/dev/null", "--save", full})->output.save == full);
  CHECK(parse({"--save", here + "/fresh"})->output.save == here + "/fresh");
  CHECK(parse({"--save", here + "/fresh", "--trace", here + "/fresher"})->output.save ==
        here + "/fresh");
  CHECK(read_file(old) == "old");
  CHECK(std::distance(std::filesystem::directory_iterator{folder.path()}, {}) == 2);
}

TEST_CASE("a checkpoint's folder holds nothing else") {
  const TemporaryFolder folder;
  const std::string here = folder.path().string();
  const std::string file = folder.file("notes.txt", "mine");
  CHECK(unlike(refusal({"--save", here}), {"--save " + here, "notes.txt", "name another"}) == "");
  CHECK(unlike(refusal({"--save", file}), {"--save " + file, "this is a file"}) == "");
  CHECK(unlike(refusal({"--save", here + "/run", "--trace", here + "/run/trace"}),
               {"--trace", "--save", "nothing else"}) == "");
  CHECK(unlike(refusal({"--save", here + "/run/", "--report", here + "/run"}),
               {"--report", "--save", "nothing else"}) == "");
  std::filesystem::create_directory(here + "/run.partial");
  folder.file("run.partial/notes.txt", "mine");
  CHECK(unlike(refusal({"--save", here + "/run"}), {"--save", "run.partial", "notes.txt"}) == "");
}

TEST_CASE("a model that this machine cannot hold is refused before it is built") {
  const auto options = parse({"--layers", "8", "--hidden", "64"});
  const double least = least_memory(*options);
  const auto parameters = static_cast<double>(options->plan.model().parameter_count());
  CHECK(least > 16 * parameters);
  CHECK(least < 100 * parameters);
  CHECK_NOTHROW(check_memory(*options, static_cast<std::int64_t>(least) + 1));
  CHECK(unlike(complaint_of<UsageError>(
                   [&] { check_memory(*options, static_cast<std::int64_t>(least) - 1); }),
               {"--hidden 64", "at least", "MB", "--device meta"}) == "");
  CHECK(unlike(refusal({"--hidden", "268435456"}), {"--hidden 268435456", "too large"}) == "");
  CHECK(unlike(refusal({"--layers", "268435456"}), {"--layers 268435456", "too large"}) == "");
  // The memory of this machine does not limit a run on the meta device.
  CHECK_NOTHROW(check_memory(*parse({"--device", "meta", "--hidden", "1048576"}), 1'000'000));
}

TEST_CASE("the available memory is the least that the system and its control groups leave") {
  const TemporaryFolder folder;
  const auto put = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder.path() / name).parent_path());
    folder.file(name, text);
  };
  const std::string proc = (folder.path() / "proc").string();
  const std::string groups = (folder.path() / "groups").string();
  put("proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:    8000 kB\n");
  CHECK(available_memory(proc, groups) == 8000 * 1024);
  put("proc/self/cgroup", "0::/a/b\n");
  put("groups/a/b/memory.max", "max\n");
  put("groups/a/b/memory.current", "5000\n");
  CHECK(available_memory(proc, groups) == 8000 * 1024);
  put("groups/a/memory.max", "100000\n");
  put("groups/a/memory.current", "70000\n");
  put("groups/a/memory.stat", "anon 1\ninactive_file 2000\n");
  CHECK(available_memory(proc, groups) == 32'000);
  put("groups/memory.max", "1000\n");  // the group is the root that this container sees
  put("groups/memory.current", "400\n");
  CHECK(available_memory(proc, groups) == 600);
  put("proc/self/cgroup", "5:cpu:/x\n4:cpu,memory:/y\n");
  put("groups/memory/y/memory.limit_in_bytes", "9223372036854771712\n");
  put("groups/memory/y/memory.usage_in_bytes", "400\n");
  CHECK(available_memory(proc, groups) == 8000 * 1024);
  put("groups/memory/y/memory.limit_in_bytes", "1000\n");
  put("groups/memory/y/memory.stat", "inactive_file 9\ntotal_inactive_file 50\n");
  CHECK(available_memory(proc, groups) == 650);
  CHECK(text_of_bytes(999) == "999 B");
  CHECK(text_of_bytes(1234) == "1.2 kB");
  CHECK(text_of_bytes(1.6e13) == "16 TB");
}

TEST_CASE("a stage needs a layer") {
  CHECK(unlike(complaint_of<UsageError>([] { StageLayers::of({.layers = 3}, 0, 4); }),
               {"--layers 3", "4", "--layers 4"}) == "");
}

TEST_CASE("an unusable text gives one line that names the file") {
  const TemporaryFolder folder;
  const GptConfig config{.sequence = 16};
  const auto answer = [&](const std::string& path) {
    return complaint_of<UsageError>([&] { Corpus::from_file(path, config); });
  };
  const std::string here = folder.path().string();
  CHECK(unlike(answer(here + "/none"), {"--data " + here + "/none", "no such file"}) == "");
  CHECK(unlike(answer(here), {"--data " + here, "directory"}) == "");
  CHECK(unlike(answer(folder.file("empty", "")), {"--data", "empty"}) == "");
  CHECK(unlike(answer(folder.file("short", "sixteen letters.")), {"--data", "short", "17"}) == "");
  // A file that opens but cannot be read: the unmapped start of the process's memory.
  CHECK(unlike(answer("/proc/self/mem"), {"--data /proc/self/mem"}) == "");
}

TEST_CASE("an unusable checkpoint gives one line that names file and tensor") {
  const TemporaryFolder folder;
  GptConfig config{.layers = 1, .hidden = 8, .heads = 2, .sequence = 4, .vocabulary = 256};
  const std::string good = (folder.path() / "good.safetensors").string();
  {
    Options options;
    set_model(options.plan, config);
    options.output.save = good;
    Clock clock = Clock::wall();
    Recorder silent{false};
    Memory memory;
    Stream compute{clock, silent, 0, DeviceKind::cpu};
    Gpt model{config, {memory, compute}, StageLayers::whole(config), 1};
    save_whole(good, config, model.device(), model.parameters());
  }
  CHECK_NOTHROW(check_checkpoint_fits(good, config));
  const std::string bytes = read_file(good);
  const auto answer = [&](const std::string& changed) {
    const std::string path = folder.file("bad.safetensors", changed);
    return complaint_of<UsageError>([&] { check_checkpoint_fits(path, config); });
  };
  const std::vector<std::string> named{"--load", "bad.safetensors"};
  for (const std::size_t length :
       {0UL, 1UL, 7UL, 8UL, 9UL, 200UL, bytes.size() / 2, bytes.size() - 1})
    CHECK(unlike(answer(bytes.substr(0, length)), named) == "");
  CHECK(unlike(answer(std::string(8, '\xff') + bytes.substr(8)), named) == "");
  std::string broken = bytes;
  broken[8] = '[';
  CHECK(unlike(answer(broken), named) == "");
  CHECK(unlike(answer("just a text, and long enough to be something else\n"), named) == "");

  config.hidden = 16;
  CHECK(unlike(complaint_of<UsageError>([&] { check_checkpoint_fits(good, config); }),
               {"--load", "good.safetensors", "shape", "--hidden 16"}) == "");
  CHECK(
      unlike(complaint_of<UsageError>([&] { check_checkpoint_fits("/none.safetensors", config); }),
             {"--load /none.safetensors", "no such file"}) == "");
}

TEST_CASE("an empty value, as from an unset shell variable, is refused") {
  for (const char* flag : {"--save", "--export", "--report", "--load", "--data", "--tokens",
                           "--trace", "--cluster", "--view-token-file", "--split"})
    CHECK(unlike(refusal({flag, ""}), {std::string{flag} + " ''", "empty", "leave"}) == "");
  CHECK(refusal({"--view"}) == "(nothing thrown)");
}

TEST_CASE("the wall clock is the default if each rank has a core") {
  const int cores = available_cores();
  const auto kind = [](const std::vector<std::string>& flags) {
    return parse(flags)->clock().kind();
  };
  const std::string more = std::to_string(cores + 1);
  CHECK(kind({"--ranks", "1"}) == ClockKind::wall);
  const std::string all = std::to_string(cores);
  CHECK(kind({"--ranks", all, "--layers", all}) == ClockKind::wall);
  CHECK(kind({"--ranks", more, "--layers", more}) == ClockKind::modelled);
  CHECK(kind({"--ranks", more, "--layers", more, "--clock", "wall"}) == ClockKind::wall);
  CHECK(kind({"--ranks", "1", "--clock", "modelled"}) == ClockKind::modelled);
  CHECK(kind({"--ranks", "1", "--time", "forward=1ms"}) == ClockKind::modelled);
  CHECK(kind({"--ranks", "1", "--pace", "2"}) == ClockKind::modelled);
  CHECK(parse({"--ranks", more})->platform.why_this_clock ==
        more + " ranks share " + std::to_string(cores) + " cores");
  CHECK(parse({"--clock", "wall"})->platform.why_this_clock == "chosen by --clock");
  const auto timed = parse({"--time", "forward=3ms", "--cluster", "free"});
  CHECK(timed->plan.modelled->times.of(Category::forward) == 3'000'000'000);
  CHECK(timed->plan.modelled->cluster.name == "free");
}

TEST_CASE("--defaults applies where a flag is not given") {
  const std::string demo = "--ranks 2 --microbatches 4 --pace 0.5";
  const auto options = parse({"--defaults", demo, "--microbatches=2"});
  CHECK(options->plan.mesh.ranks() == 2);
  CHECK(options->microbatches() == std::vector<int>{2});
  CHECK(options->platform.pace == 0.5);
  CHECK(refusal({"--defaults", demo, "--batch", "3"}).find("--microbatches 4") !=
        std::string::npos);
  CHECK(refusal({"--defaults", "--ranks x"}).find("--ranks x") != std::string::npos);
}

TEST_CASE("a lesson says what its run needs") {
  const auto needs = [](const std::vector<std::string>& flags) {
    const auto options = parse(flags);
    CHECK_FALSE(options->output.needs_only);
    return needs_of(*options);
  };
  CHECK(needs({}) == "ranks 4\nmicrobatches 8\n");
  CHECK(needs({"--microbatches", "2", "--pp=2"}) == "ranks 2\nmicrobatches 2\n");
  const std::string usual = "ranks 4\nmicrobatches 8\n";
  CHECK(needs({"--view"}) == usual + "viewer 127.0.0.1:7077\n");
  CHECK(needs({"--view=08"}) == usual + "viewer 127.0.0.1:8\n");
  CHECK(needs({"--view", "127.9.0.1:70"}) == usual + "viewer 127.9.0.1:70\n");
  CHECK(needs({"--view", "[::1]:70"}) == usual + "viewer [::1]:70\n");
  CHECK(needs({"--view", "localhost:70"}) == usual + "viewer localhost:70\n");
  CHECK(needs({"--view", "128.0.0.1:70"}) == usual + "viewer elsewhere\n");
  CHECK(needs({"--view", "host:70"}) == usual + "viewer elsewhere\n");
  CHECK(needs({"--device", "cuda"}) == usual + "gpu here\n");
  CHECK(needs({"--device=cuda", "--launch", "mpi", "--hosts", "a:4"}) == usual + "gpu elsewhere\n");
  CHECK(parse({"--needs"})->output.needs_only);
}

TEST_CASE("a lesson's own flags are checked like the shared ones") {
  const auto with = [](const std::vector<std::string>& flags, int& number, std::string& word) {
    FlagParser parser{pipeline_lesson};
    parser.add("--compare", number, "a number");
    parser.add("--overlap", word, {"none", "bucket"}, "one of two");
    std::vector<const char*> words{"lesson"};
    for (const std::string& flag : flags) words.push_back(flag.c_str());
    return parser.parse(static_cast<int>(words.size()), words.data());
  };
  int number = 2;
  std::string word = "none";
  const auto options = with({"--compare", "0", "--overlap", "bucket"}, number, word);
  CHECK(number == 0);
  CHECK(word == "bucket");
  // The trace and the report list these flags, whether given or not.
  using Flags = std::vector<std::pair<std::string, std::string>>;
  CHECK(options->run.lesson_flags == Flags{{"--compare", "0"}, {"--overlap", "bucket"}});
  CHECK(with({}, number, word)->run.lesson_flags ==
        Flags{{"--compare", "0"}, {"--overlap", "bucket"}});
  const std::string config = config_json(*options);
  CHECK(config.find(R"("layers":8)") != std::string::npos);
  CHECK(config.find(R"("learning_rate":0.001)") != std::string::npos);
  CHECK(config.find(R"("--overlap":"bucket")") != std::string::npos);
  const auto answer = [&](const std::vector<std::string>& flags) {
    return complaint_of<UsageError>([&] { with(flags, number, word); });
  };
  CHECK(unlike(answer({"--compare", "-1"}), {"--compare -1", "at least 0"}) == "");
  CHECK(unlike(answer({"--overlap", "all"}), {"--overlap all", "none, bucket"}) == "");
}

TEST_CASE("a refusal names the flags that nobody gave as defaults, or with what sets them") {
  const auto named = [](const std::vector<std::string>& flags, const std::string& refusal) {
    FlagParser parser{tensor_lesson};
    std::vector<const char*> words{"lesson", "--device", "meta"};
    for (const std::string& flag : flags) words.push_back(flag.c_str());
    parser.parse(static_cast<int>(words.size()), words.data());
    return parser.with_origins(refusal);
  };
  const std::string batch = "--batch 16 with --microbatches 8 and --tp 4: no; use --batch 8";
  CHECK(named({}, batch) ==
        "the default --batch 16 with the default --microbatches 8 and the default --tp 4: no; use "
        "--batch 8");
  CHECK(named({"--batch", "16", "--ranks", "4"}, batch) ==
        "--batch 16 with the default --microbatches 8 and --tp 4 of --ranks 4: no; use --batch 8");
  CHECK(named({"--batch", "16", "--microbatches", "8", "--tp", "4"}, batch) == batch);
  CHECK(named({"--defaults", "--batch 16 --microbatches 8", "--tp", "4"}, batch) ==
        "the default --batch 16 with the default --microbatches 8 and --tp 4: no; use --batch 8");
  // Flags in a row are named once.
  const std::string large = "--layers 80 --hidden 8192 --vocab 32000 with --batch 16: no";
  CHECK(named({}, large) ==
        "the default --layers 80 --hidden 8192 --vocab 32000 with the default --batch 16: no");
  CHECK(
      named({"--model", "llama2-70b"}, large) ==
      "--layers 80 --hidden 8192 --vocab 32000 of --model llama2-70b with the default --batch 16: "
      "no");
  CHECK(named({"--model", "llama2-70b", "--hidden", "8192"}, large) ==
        "--layers 80 of --model llama2-70b --hidden 8192 --vocab 32000 of --model llama2-70b with "
        "the default --batch 16: no");
  CHECK(named({"--model", "llama2-70b"}, "--batch 16 with --tied: no") ==
        "the default --batch 16 with --tied of --model llama2-70b: no");
  for (const std::string other : {"--steps: no", "--tf32: no", "--nope 3: no", "no --batch 16", ""})
    CHECK(named({}, other) == other);
}
