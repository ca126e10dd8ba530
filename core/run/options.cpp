#include "core/run/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>

#include "core/base/error.h"
#include "core/comm/environment.h"
#include "core/model/data.h"

namespace lockstep {

namespace {

/// What the flags say before it is known whether that can be done.
struct Given {
  std::string microbatches;
  std::string clock = "auto";
  std::string launch = "threads";
  std::string time;
  std::string parity = "on";
  std::optional<int> ranks, dp, pp, cp, tp;
  double pace = 0;
  double learning_rate = 2e-3;
  double clip = 0;
};

int whole_number(const std::string& flag, const std::string& text, int least) {
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < least || value > 1 << 28)
    throw UsageError(fmt::format("{} {}: wants a whole number of at least {}", flag, text, least));
  return static_cast<int>(value);
}

std::vector<int> number_list(const std::string& flag, const std::string& text) {
  std::vector<int> numbers;
  std::istringstream parts{text};
  for (std::string part; std::getline(parts, part, ',');)
    numbers.push_back(whole_number(flag, part, 1));
  if (numbers.empty())
    throw UsageError(fmt::format("{} {}: wants such as 8, or 1,2,4,8", flag, text));
  return numbers;
}

/// Checks in the form that CLI11 takes: the complaint, or "".
using Check = std::function<std::string(const std::string&)>;

Check at_least(int least) {
  return [least](const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool fits = value >= least && value <= 1 << 28;  // no NaN does
    const bool digits = text.find_first_not_of("-0123456789") == std::string::npos;
    if (!text.empty() && *end == '\0' && fits && digits) return std::string{};
    return fmt::format("{}: wants a whole number of at least {}", text, least);
  };
}

Check positive(bool or_zero) {
  return [or_zero](const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (!text.empty() && *end == '\0' && value < 1e30 && (value > 0 || (or_zero && value == 0)))
      return std::string{};
    return fmt::format("{}: wants a number {}", text, or_zero ? "of at least 0" : "above 0");
  };
}

void choose_clock(const Given& given, Options& options) {
  const int cores = available_cores();
  if (given.clock != "auto") {
    options.why_this_clock = "as asked";
  } else if (!given.time.empty() || given.pace > 0) {
    options.why_this_clock = "--time and --pace are about modelled time";
  } else if (options.ranks <= cores) {
    options.why_this_clock = fmt::format("each of {} ranks has a core to itself", options.ranks);
  } else {
    options.why_this_clock = fmt::format("{} ranks share {} cores", options.ranks, cores);
  }
  const bool modelled =
      given.clock == "modelled" ||
      (given.clock == "auto" && (!given.time.empty() || given.pace > 0 || options.ranks > cores));
  if (!modelled && !given.time.empty())
    throw UsageError("--time with --clock wall: fixed times are for the modelled clock");
  if (!modelled && given.pace > 0)
    throw UsageError(
        "--pace with --clock wall: a wall clock runs at its own pace; use --clock modelled");
  const Cluster cluster = Cluster::load(options.cluster);
  if (modelled && options.ranks > cluster.nodes * cluster.ranks_per_node)
    throw UsageError(fmt::format("--ranks {}: cluster '{}' has {} nodes of {} ranks", options.ranks,
                                 cluster.name, cluster.nodes, cluster.ranks_per_node));
  options.clock =
      modelled ? Clock::modelled(cluster,
                                 given.time.empty() ? FixedTimes{} : FixedTimes::parse(given.time),
                                 given.pace)
               : Clock::wall();
}

void check_batch(const Options& options) {
  int pieces = options.dp;  // what all values of m divide
  for (int m : options.microbatches) pieces = std::lcm(pieces, m * options.dp);
  for (int m : options.microbatches) {
    if (options.batch % (m * options.dp) == 0) continue;
    throw UsageError(fmt::format(
        "--batch {} with --microbatches {}: {} sequences can't be cut into {} equal microbatches; "
        "--batch {} can",
        options.batch, m, options.batch, m * options.dp,
        std::max(options.batch / pieces, 1) * pieces));
  }
  if (options.steps < static_cast<int>(options.microbatches.size()))
    throw UsageError(
        fmt::format("--steps {}: a sweep over {} values of --microbatches wants a step for each",
                    options.steps, options.microbatches.size()));
}

void check_files(const Options& options) {
  for (const auto& [flag, file] :
       {std::pair{"--save", options.save}, {"--report", options.report}}) {
    if (file.empty()) continue;
    const auto folder = std::filesystem::absolute(file).parent_path();
    if (!std::filesystem::is_directory(folder))
      throw UsageError(fmt::format("{} {}: there is no folder {}", flag, file, folder.string()));
  }
}

}  // namespace

int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return CPU_COUNT(&set);
}

struct FlagParser::Impl {
  CLI::App app;
  LessonInfo info;
  Given given;
  std::unique_ptr<Options> options = std::make_unique<Options>();

  void number(const std::string& flag, int& value, int least, const std::string& help) {
    app.add_option(flag, value, help)->check(at_least(least))->capture_default_str();
  }
  void number(const std::string& flag, std::optional<int>& value, const std::string& help) {
    app.add_option_function<int>(
           flag, [&value](int number) { value = number; }, help)
        ->check(at_least(1));
  }
  CLI::Option* word(const std::string& flag, std::string& value, const std::string& help) {
    return app.add_option(flag, value, help)->capture_default_str();
  }
  void choice(const std::string& flag, std::string& value, const std::vector<std::string>& words,
              const std::string& help) {
    word(flag, value, help + " (" + fmt::format("{}", fmt::join(words, "|")) + ")")
        ->check([words](const std::string& text) {
          return std::find(words.begin(), words.end(), text) != words.end()
                     ? std::string{}
                     : fmt::format("{}: wants one of {}", text, fmt::join(words, ", "));
        });
  }
  void shared_flags();
  void settle();
};

void FlagParser::Impl::shared_flags() {
  Options& o = *options;
  given.microbatches = fmt::format("{}", fmt::join(info.microbatches, ","));
  o.steps = info.steps;
  app.get_formatter()->column_width(34);

  app.option_defaults()->group("Where it runs");
  number("--ranks", given.ranks, fmt::format("how many ranks [{}]", info.ranks));
  choice("--launch", given.launch, {"threads", "mpi"},
         "ranks are threads, or processes under mpirun");
  choice("--device", o.device, {"cpu"}, "where tensors live");
  choice("--comm", o.comm, {"auto", "ring"}, "collectives: our ring algorithms");
  for (auto [flag, size, what] : {std::tuple{"--pp", &given.pp, "pipeline"},
                                  {"--dp", &given.dp, "data"},
                                  {"--cp", &given.cp, "context"},
                                  {"--tp", &given.tp, "tensor"}})
    number(flag, *size, fmt::format("ranks along the {}-parallel axis", what));
  word("--order", o.order, "the mesh's axes from the innermost");

  app.option_defaults()->group("Which time the timeline shows");
  choice("--clock", given.clock, {"auto", "wall", "modelled"},
         "this machine's, or a described cluster's; auto: wall where each rank has a core");
  word("--cluster", o.cluster,
       fmt::format("the cluster of modelled time: {}, or a file",
                   fmt::join(Cluster::presets(), ", ")));
  word("--time", given.time, "fixed times, such as forward=1ms,backward=2ms");
  app.add_option("--pace", given.pace, "unfold a modelled run at this many times modelled speed")
      ->check(positive(false));

  app.option_defaults()->group("What is trained");
  number("--steps", o.steps, 1, "training steps");
  number("--batch", o.batch, 1, "sequences a step, over all microbatches");
  word("--microbatches", given.microbatches,
       info.sweeps ? "how many microbatches a step is cut into: each value in turn"
                   : "how many microbatches a step is cut into");
  number("--layers", o.model.layers, 1, "transformer blocks");
  number("--hidden", o.model.hidden, 1, "width of the model");
  number("--heads", o.model.heads, 1, "attention heads; must divide --hidden");
  number("--sequence", o.model.sequence, 1, "tokens a sequence");
  number("--vocab", o.model.vocabulary, 1, "tokens in the vocabulary; text needs 256");
  app.add_flag("--tied", o.model.tied, "the output head is the token embedding");
  app.add_option("--lr", given.learning_rate, "learning rate of AdamW")
      ->check(positive(false))
      ->capture_default_str();
  app.add_option("--clip", given.clip, "largest gradient norm; 0: no clipping")
      ->check(positive(true))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "of initial values and of the order of the data")
      ->capture_default_str();
  word("--data", o.data, "a file to train on [the lessons' own texts]");
  word("--load", o.load, "begin from this safetensors file (GPT-2's names)");
  word("--save", o.save, "write the trained model to this safetensors file");

  app.option_defaults()->group("What one sees");
  word("--trace", o.trace, "the run's folder, or none [runs/TIME-LESSON]");
  app.add_flag("--kernels", o.kernels,
               "trace every kernel, not only pipeline actions and messages");
  app.add_option("--view", o.view, "stream to a viewer at HOST:PORT [127.0.0.1:7077]")
      ->expected(0, 1)
      ->default_str("127.0.0.1:7077");
  word("--view-token", o.view_token, "what a viewer on another host asks for");
  word("--report", o.report, "write the report to this file as JSON");
  choice("--parity", given.parity, {"on", "off"}, "compare with one device at the end");
  app.add_flag("--quiet", o.quiet, "only errors");
  app.option_defaults()->group("This lesson's own");
}

void FlagParser::Impl::settle() {
  Options& o = *options;
  o.launch = given.launch == "mpi" || under_mpi() ? Launch::mpi : Launch::threads;
  o.ranks = given.ranks.value_or(under_mpi() ? mpi_size_from_environment() : info.ranks);
  if (under_mpi() && o.ranks != mpi_size_from_environment())
    throw UsageError(fmt::format("--ranks {}: mpirun has started {} processes", o.ranks,
                                 mpi_size_from_environment()));
#ifndef LOCKSTEP_HAS_MPI
  if (o.launch == Launch::mpi)
    throw UsageError(
        "--launch mpi: built without MPI; install libopenmpi-dev and openmpi-bin and build again");
#endif
  // What is left out is 1, but for the lesson's own axis, which takes the ranks that remain.
  for (auto [name, size, asked] : {std::tuple{"dp", &o.dp, given.dp},
                                   {"pp", &o.pp, given.pp},
                                   {"cp", &o.cp, given.cp},
                                   {"tp", &o.tp, given.tp}}) {
    *size = asked.value_or(info.axis == name ? 0 : 1);
    if (info.axis != name && *size > 1)
      throw UsageError(
          fmt::format("--{} {}: this lesson lays all its ranks on the {} axis; leave it out", name,
                      *size, info.axis));
  }
  const Mesh mesh = o.mesh();
  o.dp = mesh.size(Axis::dp);
  o.pp = mesh.size(Axis::pp);
  o.cp = mesh.size(Axis::cp);
  o.tp = mesh.size(Axis::tp);

  o.microbatches = number_list("--microbatches", given.microbatches);
  o.optimizer.learning_rate = static_cast<float>(given.learning_rate);
  o.optimizer.clip = static_cast<float>(given.clip);
  o.optimizer.weight_decay = 0.1F;
  o.parity = given.parity == "on";
  o.pace = given.pace;
  o.model.validate();
  if (o.model.vocabulary < Tokenizer::vocabulary)
    throw UsageError(fmt::format("--vocab {}: text is read byte by byte; wants at least {}",
                                 o.model.vocabulary, Tokenizer::vocabulary));
  if (o.microbatches.size() > 1 && !info.sweeps)
    throw UsageError(fmt::format("--microbatches {}: this lesson takes one value; lesson 8 sweeps",
                                 given.microbatches));
  if (!o.view.empty() && o.trace == "none")
    throw UsageError(fmt::format(
        "--trace none with --view {}: a viewer is sent what is in the trace; leave one of them out",
        o.view));
  if (info.trains) check_batch(o);
  check_files(o);
  choose_clock(given, o);
}

FlagParser::FlagParser(const LessonInfo& info) : impl_(std::make_unique<Impl>()) {
  impl_->info = info;
  impl_->app.description(fmt::format("Lesson {}: {}", info.name, info.question));
  impl_->app.name("./lockstep lesson " + info.name.substr(0, info.name.find(' ')));
  impl_->shared_flags();
}
FlagParser::~FlagParser() = default;

void FlagParser::add(const std::string& name, int& value, const std::string& help) {
  impl_->number(name, value, 0, help);
}
void FlagParser::add(const std::string& name, double& value, const std::string& help) {
  impl_->app.add_option(name, value, help)->capture_default_str();
}
void FlagParser::add(const std::string& name, std::string& value, const std::string& help) {
  impl_->word(name, value, help);
}
void FlagParser::add(const std::string& name, std::string& value,
                     const std::vector<std::string>& words, const std::string& help) {
  impl_->choice(name, value, words, help);
}

std::unique_ptr<Options> FlagParser::parse(int argc, const char* const* argv) {
  CLI::App& app = impl_->app;
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return nullptr;
  } catch (const CLI::ExtrasError&) {
    throw UsageError(
        fmt::format("{}: no such flag; --help lists them", fmt::join(app.remaining(), " ")));
  } catch (const CLI::ValidationError& error) {
    // "--steps: 0: wants ..." reads better as "--steps 0: wants ..."
    std::string what = error.what();
    if (const auto colon = what.find(": "); colon != std::string::npos && what.rfind("--", 0) == 0)
      what.erase(colon, 1);
    throw UsageError(what);
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  if (app.count("--view") > 0 && impl_->options->view.empty())
    impl_->options->view = "127.0.0.1:7077";
  impl_->settle();
  return std::move(impl_->options);
}

}  // namespace lockstep
