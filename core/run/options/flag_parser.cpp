#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "core/base/error.h"
#include "core/base/token.h"
#include "core/run/options/command_line.h"
#include "core/run/options/declared_flags.h"
#include "core/run/options/flag_parser.h"
#include "core/run/options/given.h"
#include "core/run/options/training.h"

namespace lockstep {

namespace {

constexpr const char* lesson_group = "This lesson";

std::string a_seed(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size()
             ? std::string{}
             : "must be a whole number of at least 0";
}

std::string a_number(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' ? "" : "must be a number";
}

}  // namespace

struct FlagParser::Impl : CommandLine {
  LessonInfo info;
  Given given;
  std::string defaults;
  bool declares = false;
  std::unique_ptr<Options> options = std::make_unique<Options>();

  bool takes(Axis axis) const { return std::ranges::count(info.axes, axis) > 0; }
  void platform_flags();
  void clock_flags();
  void training_flags();
  void output_flags();
  void flags_of_the_command();
  void apply_defaults();
  std::string short_help();
};

/// Adds the flags that the help groups under "Ranks and devices".
void FlagParser::Impl::platform_flags() {
  Platform& platform = options->platform;
  app.option_defaults()->group("Ranks and devices");
  number("--ranks", given.ranks, fmt::format("number of ranks [{}]", info.ranks));
  choice<Given::Launch>(
      "--launch", given.launch,
      {{"auto", Given::Launch::automatic},
       {"threads", Given::Launch::threads},
       {"mpi", Given::Launch::mpi}},
      "start ranks as threads, or as processes under mpirun; auto: threads, but processes if each "
      "rank has its own GPU and NCCL connects them");
  word("--hostfile", platform.hosts.hostfile,
       "with --launch mpi: a file with one host per line, such as 'node1 slots=4'");
  word("--hosts", platform.hosts.hosts,
       "with --launch mpi: hosts and their slots, such as node1:4,node2:4");
  checked(
      "--timeout", platform.patience_seconds, positive(false),
      "seconds that a rank waits for others before the run fails as stalled. Time during which "
      "one of them computes does not count; a notice names the busy rank instead. Nor does time "
      "that --pace makes a rank sleep. Under mpi, the run also fails if a rank's process has "
      "been stopped for that long, at any time from its start to its end");
  choice("--device", platform.device, {"cpu", "cuda", "meta"},
         "where tensors live and kernels run: on the CPU, or on GPUs, which ranks share if there "
         "are more ranks than GPUs; meta stores and computes nothing, but counts every byte and "
         "models every time");
  app.add_flag(
      "--tf32", platform.tf32,
      "with --device cuda: f32 matrix products on tensor cores, with inputs rounded to TF32");
  choice<Given::Comm>(
      "--comm", given.comm,
      {{"auto", Given::Comm::automatic},
       {"native", Given::Comm::native},
       {"ring", Given::Comm::ring}},
      "collectives: those of MPI or NCCL, or our ring algorithms; auto: NCCL's if each rank has "
      "its own GPU, otherwise our rings");
  // The help omits the axes that the lesson does not take; settle() refuses them.
  for (const auto& [axis, what] : {std::pair{Axis::pp, "pipeline"},
                                   {Axis::dp, "data"},
                                   {Axis::cp, "context"},
                                   {Axis::tp, "tensor"},
                                   {Axis::ep, "expert"}})
    number(fmt::format("--{}", name_of(axis)), given.sizes[static_cast<std::size_t>(axis)],
           fmt::format("ranks along the {}-parallel axis", what))
        ->group(takes(axis) ? "Ranks and devices" : "");
  if (takes(Axis::cp))
    choice<ContextLayout>(
        "--layout", options->plan.batch.context,
        {{"contiguous", ContextLayout::contiguous},
         {"zigzag", ContextLayout::zigzag},
         {"striped", ContextLayout::striped},
         {"balanced", ContextLayout::balanced}},
        "how the ranks of --cp divide each sequence: N chunks in order; 2N chunks, of which "
        "rank i takes the i-th from each end; token by token; or, with --documents, blocks dealt "
        "out by the work of their attention");
  word("--order", given.order, "the mesh's axes, innermost first");
}

void FlagParser::Impl::clock_flags() {
  app.option_defaults()->group("Clock");
  choice<Given::Clock>(
      "--clock", given.clock,
      {{"auto", Given::Clock::automatic},
       {"wall", Given::Clock::wall},
       {"modelled", Given::Clock::modelled}},
      "wall: this machine's clock; modelled: the clock of a simulated cluster; auto: wall if each "
      "rank has its own core or GPU. On the wall clock a send is a rendezvous; on the modelled "
      "clock it is buffered: the sender is free after β·bytes and never waits for its receiver");
  word("--cluster", options->platform.cluster,
       fmt::format("the cluster that the modelled clock simulates: {}, or a file",
                   fmt::join(Cluster::presets(), ", ")));
  word("--time", given.time, "fixed compute times, such as forward=1ms,backward=2ms")
      ->group(info.why_no_time.empty() ? "Clock" : "");
  word("--slow", given.slow,
       "ranks whose compute takes longer on the modelled clock, by a factor: 1=1.5, or 0=2,3=1.2");
  checked("--pace", given.pace, positive(false),
          "slow a modelled run so that its timeline unfolds at this many times modelled speed")
      ->default_str("");
}

void FlagParser::Impl::training_flags() {
  Plan& plan = options->plan;
  RunConfig& run = options->run;
  app.option_defaults()->group(info.model ? "Training" : "Run");
  number("--steps", run.steps, 1, info.model ? "training steps" : "number of repetitions");
  if (info.model) {
    number("--batch", plan.batch.sequences, 1, "sequences per step, over all microbatches");
    word("--microbatches", given.microbatches,
         info.sweeps ? "microbatches per step; several values are used in turn"
                     : "microbatches per step");
    given.shape.add_to(*this);
    number("--documents", given.documents,
           "with --model llama: pack documents of this mean length, with a long tail, into each "
           "sequence; a token attends only to its own document");
  }
  if (takes(Axis::pp))
    word("--split", given.split,
         "transformer blocks of each pipeline stage, such as 3,3,2,2 [as even as possible]");
  if (info.freezes)
    word("--freeze", given.freeze,
         "parts that keep their initial values: blocks such as 0,1,2, embedding, head");
  if (info.narrow)
    choice<DType>("--precision", given.precision,
                  {{"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}},
                  "data type of weights, gradients and activations");
  if (info.model) {
    checked("--lr", given.learning_rate, positive(false), "AdamW's learning rate");
    checked("--clip", given.clip, positive(true), "maximum gradient norm; 0: no clipping")
        ->group(info.clips ? "Training" : "");
  }
  checked("--seed", plan.seed, a_seed,
          info.model ? "seed of the initial values and of the order of the data"
                     : "seed of the random numbers");
  if (!info.model) return;
  word("--data", run.data,
       "the file to train on, here or in the source tree [lessons/corpus.txt, the text of the "
       "lessons]");
  word("--tokens", run.tokens,
       "train on this file of little-endian uint16 tokens instead of a text: plain, as nanoGPT "
       "writes them, or with the header of llm.c's GPT-2 files (1024 bytes, version 1); GPT-2's "
       "tokens need --vocab 50257");
  if (info.training == nullptr) return;
  word("--load", run.load,
       "resume from a folder that --save wrote, on any mesh; or start from a GPT-2 or a Llama of "
       "transformers: its folder, or a safetensors file. A folder's config.json sets the model's "
       "flags that are not given, and what no flag sets: the rotary frequencies of a Llama, and "
       "its RMSNorm's epsilon");
  word("--save", options->output.save,
       "write a checkpoint to this folder: each rank's part of the parameters and of the "
       "optimizer's state. SIGTERM or Ctrl-C then ends the run after the current step and saves. "
       "An interrupted save leaves the old checkpoint. To a .safetensors file: the weights only");
  word("--export", options->output.export_to,
       "write the trained model to this folder for transformers' from_pretrained, or only its "
       "weights to a .safetensors file");
}

void FlagParser::Impl::output_flags() {
  Output& output = options->output;
  app.option_defaults()->group("Output");
  word("--trace", output.trace, "the folder for the run's trace, or none [runs/TIME-LESSON]");
  app.add_flag("--kernels", output.kernels,
               "trace every kernel, not only pipeline actions and messages");
  app.add_option("--view", output.view,
                 "stream the trace to a viewer at HOST:PORT [127.0.0.1:7077]")
      ->expected(0, 1)
      ->default_str("127.0.0.1:7077");
  word("--view-token-file", given.view_token_file,
       fmt::format("a file that only you can read, with the token that the viewer requires; or set "
                   "{}",
                   token_variable));
  word("--view-token", given.view_token,
       "the token itself; other users of this machine may see it in the list of processes");
  word("--report", output.report, "write the report to this file as JSON");
  if (info.model)
    choice<bool>("--parity", output.parity, {{"on", true}, {"off", false}},
                 "compare the result with one device");
  choice("--detail", output.detail, {"brief", "summary", "full"},
         "what to print at the end: the timeline, one sentence and the generated text; at most 25 "
         "lines; or every table");
  app.add_flag("--quiet", output.quiet, "print only errors");
  app.add_flag("--verbose", output.verbose,
               "print every table at the end, where every rank runs (host, GPU, network device, "
               "cores), and which library multiplies matrices on the CPU");
}

/// Adds the flags with which ./lockstep and the viewer start a lesson; the help omits them.
void FlagParser::Impl::flags_of_the_command() {
  app.option_defaults()->group("");
  app.add_flag("--needs", options->output.needs_only, "print what the run needs, and exit");
  app.add_flag("--declare", declares, "print the flags as JSON, and exit");
  word("--defaults", defaults, "flags with one value each, which apply unless they are given");
}

/// Applies the flags of --defaults, such as "--ranks 4 --steps 60", that are not given.
void FlagParser::Impl::apply_defaults() {
  std::istringstream words{defaults};
  for (std::string flag, value; words >> flag >> value;)
    if (CLI::Option* option = app.get_option(flag); option->count() == 0) {
      option->add_result(value);
      option->run_callback();
      assumed.insert(flag);
    }
}

/// The help without the flags that matter less: at most 15 remain, with --help itself. The lesson's
/// own come first.
std::string FlagParser::Impl::short_help() {
  constexpr std::size_t most = 14, most_own = 10;
  std::vector<CLI::Option*> shown;
  for (CLI::Option* option : app.get_options())
    if (option->get_group() == lesson_group && shown.size() < most_own) shown.push_back(option);
  std::vector<std::string> others{"--ranks", "--verbose", "--view", "--steps"};
  if (info.axes.size() > 1)
    for (const Axis axis : info.axes) others.push_back(fmt::format("--{}", name_of(axis)));
  for (const char* flag : {"--microbatches", "--device", "--launch", "--cluster", "--slow",
                           "--layers", "--batch", "--clock", "--save", "--load"})
    others.emplace_back(flag);
  for (const std::string& flag : others)
    if (CLI::Option* option = app.get_option_no_throw(flag);
        option != nullptr && !option->get_group().empty() && shown.size() < most)
      shown.push_back(option);
  std::size_t left_out = 0;
  for (CLI::Option* option : app.get_options())
    if (!option->get_group().empty() && option != app.get_help_ptr() &&
        std::ranges::count(shown, option) == 0) {
      option->group("");
      ++left_out;
    }
  return app.help() + fmt::format("--help all lists {} more flags.\n", left_out);
}

FlagParser::FlagParser(const LessonInfo& info) : impl_(std::make_unique<Impl>()) {
  impl_->info = info;
  impl_->app.description(fmt::format("Lesson {}: {}", info.name, info.question));
  impl_->app.name("./lockstep lesson " + info.name.substr(0, info.name.find(' ')));
  impl_->help_all = "--help all";
  impl_->options->platform.cluster = info.cluster;
  impl_->options->plan.batch.sequences = info.batch;
  impl_->options->run.steps = info.steps;
  impl_->given.microbatches = fmt::format("{}", fmt::join(info.microbatches, ","));
  impl_->given.precision = info.precision;
  impl_->app.get_formatter()->column_width(34);
  impl_->flags_of_the_command();
  impl_->platform_flags();
  impl_->clock_flags();
  impl_->training_flags();
  impl_->output_flags();
  impl_->app.option_defaults()->group(lesson_group);
}
FlagParser::~FlagParser() = default;

void FlagParser::add(const std::string& name, int& value, const std::string& help) {
  impl_->number(name, value, 0, help);
}
void FlagParser::add(const std::string& name, std::int64_t& value, const std::string& help) {
  const auto check = [](const std::string& text) {
    return whole_count(text, 0) ? std::string{} : why_refused(text, 0, largest_count);
  };
  impl_->checked(name, value, check, help);
}
void FlagParser::add(const std::string& name, double& value, const std::string& help) {
  impl_->checked(name, value, a_number, help);
}
void FlagParser::add(const std::string& name, std::string& value, const std::string& help) {
  impl_->word(name, value, help);
}
void FlagParser::add(const std::string& name, bool& value, const std::string& help) {
  impl_->app.add_flag(name, value, help);
}
void FlagParser::add(const std::string& name, std::vector<int>& value, const std::string& help) {
  impl_->app
      .add_option_function<std::string>(
          name, [&value, name](const std::string& text) { value = number_list(name, text, 0); },
          help)
      ->default_str(fmt::format("{}", fmt::join(value, ",")));
}
void FlagParser::add(const std::string& name, std::string& value,
                     const std::vector<std::string>& words, const std::string& help) {
  impl_->choice(name, value, words, help);
}

std::string FlagParser::with_origins(const std::string& refusal) const {
  return impl_->with_origins(refusal);
}

std::unique_ptr<Options> FlagParser::parse(int argc, const char* const* argv) {
  CLI::App& app = impl_->app;
  if (!impl_->parse(argc, argv, {"--view"}, [&] { impl_->apply_defaults(); })) {
    const bool all = std::ranges::count(argv, argv + argc, std::string_view{"all"}) > 0;
    const std::string text = app.count("--needs") > 0 ? "help\n"
                             : all                    ? app.help()
                                                      : impl_->short_help();
    std::fputs(text.c_str(), stdout);
    return nullptr;
  }
  if (impl_->declares) {
    fmt::print("{}\n", declared_flags(*impl_));
    return nullptr;
  }
  if (app.count("--view") > 0 && impl_->options->output.view.empty())
    impl_->options->output.view = "127.0.0.1:7077";
  impl_->options->output.view_token = find_token("--view-token", impl_->given.view_token,
                                                 "--view-token-file", impl_->given.view_token_file);
  for (const CLI::Option* option : app.get_options())
    if (option->get_group() == lesson_group)
      impl_->options->run.lesson_flags.emplace_back(
          option->get_name(), option->count() > 0
                                  ? fmt::format("{}", fmt::join(option->results(), ","))
                              : option->get_expected_max() == 0 ? "false"
                                                                : option->get_default_str());
  const std::string& load = impl_->options->run.load;
  if (impl_->info.model)
    impl_->given.shape.adopt(
        *impl_, load,
        load.empty() ? ModelDescription{} : impl_->info.training->described_model(load));
  if (impl_->given.ranks)  // these axes take the remaining ranks
    for (const Axis axis : {impl_->info.axes.front(), Axis::ep})
      impl_->origins[fmt::format("--{}", name_of(axis))] =
          fmt::format("--ranks {}", *impl_->given.ranks);
  settle(impl_->given, impl_->info, *impl_->options);
  return std::move(impl_->options);
}

}  // namespace lockstep
