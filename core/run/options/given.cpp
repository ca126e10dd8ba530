#include "core/run/options/given.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <sstream>
#include <tuple>

#include "core/base/error.h"
#include "core/comm/mpi/environment.h"
#include "core/model/data.h"
#include "core/run/options/check_paths.h"

namespace lockstep {

namespace {

/// Parses the value of --freeze into unit numbers: the embedding is 0, block i is i + 1.
std::vector<int> frozen_units(const std::string& text, int layers) {
  std::vector<int> units;
  std::istringstream parts{text};
  for (std::string part; std::getline(parts, part, ',');) {
    const auto block = whole_number(part, 0);
    if (part == "embedding")
      units.push_back(0);
    else if (part == "head")
      units.push_back(layers + 1);
    else if (block && *block < layers)
      units.push_back(*block + 1);
    else
      throw UsageError(fmt::format(
          "--freeze {}: '{}' is no part of the model; give blocks 0 to {}, embedding or head", text,
          part, layers - 1));
  }
  return units;
}

/// Throws UsageError for options that the meta device does not support.
void check_meta(const Given& given, const Options& options) {
  if (!options.platform.on_meta()) return;
  const auto refuse = [](const std::string& flag, const std::string& why) {
    throw UsageError(fmt::format("--device meta with {}: {}", flag, why));
  };
  if (options.platform.launch == Launch::mpi)
    refuse("--launch mpi", "the ranks of the meta device are threads; use --launch threads");
  if (given.clock == "wall")
    refuse("--clock wall",
           "the meta device computes nothing, so it has no wall time; use --clock modelled");
  if (given.comm == "native")
    refuse("--comm native", "no library has collectives for the meta device; leave --comm out");
  for (const auto& [flag, file] : {std::pair{"--save", options.output.save},
                                   {"--export", options.output.export_to},
                                   {"--load", options.run.load}})
    if (!file.empty())
      refuse(
          fmt::format("{} {}", flag, file),
          fmt::format("the meta device stores no values; leave {} out, or use --device cpu", flag));
  if (options.platform.tf32)
    refuse("--tf32", "the meta device computes nothing; leave --tf32 out, or use --device cuda");
}

void choose_clock(const Given& given, Options& options) {
  options.platform.clock_is_open =
      options.platform.on_gpus() && given.clock == "auto" && given.time.empty() && given.pace == 0;
  const int cores = available_cores();
  const int ranks_here = under_mpi() ? mpi_local_size_from_environment() : options.run.ranks;
  if (given.clock != "auto") {
    options.platform.why_this_clock = "chosen by --clock";
  } else if (options.platform.on_meta()) {
    options.platform.why_this_clock = "the meta device computes nothing";
  } else if (!given.time.empty() || given.pace > 0) {
    options.platform.why_this_clock = "--time and --pace require modelled time";
  } else if (ranks_here <= cores) {
    options.platform.why_this_clock =
        fmt::format("each of {} ranks has its own core", options.run.ranks);
  } else {
    options.platform.why_this_clock = fmt::format("{} ranks share {} cores", ranks_here, cores);
  }
  const bool modelled =
      given.clock == "modelled" ||
      (given.clock == "auto" &&
       (!given.time.empty() || given.pace > 0 || ranks_here > cores || options.platform.on_meta()));
  if (!modelled && !given.time.empty())
    throw UsageError(
        fmt::format("--time {} with --clock wall: fixed times are for the modelled clock; use "
                    "--clock modelled",
                    given.time));
  if (!modelled && given.pace > 0)
    throw UsageError(fmt::format(
        "--pace {} with --clock wall: only the modelled clock can be slowed; use --clock "
        "modelled",
        given.pace));
  // If the ranks run on other hosts, whose cores are unknown here, or on GPUs, which have not been
  // assigned yet, they choose the clock later.
  const bool ranks_choose =
      given.clock == "auto" &&
      ((options.platform.hosts.any() && !under_mpi()) || options.platform.clock_is_open);
  const Cluster cluster = ranks_choose || !modelled
                              ? Cluster::load(options.platform.cluster)
                              : cluster_for(options.platform.cluster, options.run.ranks);
  options.platform.clock =
      modelled ? Clock::modelled(cluster,
                                 given.time.empty() ? FixedTimes{} : FixedTimes::parse(given.time),
                                 given.pace)
               : Clock::wall();
}

void choose_collectives(const Given& given, Options& options) {
  options.platform.comm_is_open = options.platform.on_gpus() && given.comm == "auto";
  if (given.comm != "native") return;
  if (options.platform.launch == Launch::threads && !options.platform.on_gpus())
    throw UsageError(
        "--comm native: no library has collectives for threads; leave it out, or use --launch mpi");
  if (options.platform.clock.is_modelled() && !options.platform.clock_is_open)
    throw UsageError(
        "--comm native: the modelled clock can time only our own algorithms; leave it out, or use "
        "--clock wall");
  options.platform.comm = Collectives::native;
}

void check_batch(const Options& options) {
  int pieces = options.run.dp;  // a multiple of m · dp for every m
  for (int m : options.run.microbatches) pieces = std::lcm(pieces, m * options.run.dp);
  for (int m : options.run.microbatches) {
    if (options.run.batch % (m * options.run.dp) == 0) continue;
    throw UsageError(
        fmt::format("--batch {} with --microbatches {}: {} sequences can't be divided into {} "
                    "equal microbatches; "
                    "--batch {} can",
                    options.run.batch, m, options.run.batch, m * options.run.dp,
                    std::max(options.run.batch / pieces, 1) * pieces));
  }
  if (options.run.steps < static_cast<int>(options.run.microbatches.size()))
    throw UsageError(
        fmt::format("--steps {}: a sweep over {} values of --microbatches needs a step for each",
                    options.run.steps, options.run.microbatches.size()));
}

}  // namespace

std::optional<int> whole_number(const std::string& text, int least) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value >= least && value <= 1 << 28 ? std::optional{value} : std::nullopt;
}

std::vector<int> number_list(const std::string& flag, const std::string& text, int least) {
  std::vector<int> numbers;
  std::istringstream parts{text + ","};  // with a final comma, every part ends in a comma
  for (std::string part; std::getline(parts, part, ',');) {
    const auto number = whole_number(part, least);
    if (!number)
      throw UsageError(fmt::format(
          "{} {}: '{}' is not a whole number of at least {}; give numbers such as 8 or 1,2,4,8",
          flag, text, part, least));
    numbers.push_back(*number);
  }
  return numbers;
}

namespace {

/// Returns the number of ranks if --ranks is not given: the product of the sizes of the lesson's
/// axes, or, if the first axis has no size, the lesson's own number.
int ranks_of_sizes(const Given& given, const LessonInfo& info) {
  const auto asked = [&](Axis axis) {
    return axis == Axis::dp   ? given.dp
           : axis == Axis::pp ? given.pp
           : axis == Axis::cp ? given.cp
                              : given.tp;
  };
  if (!asked(info.axes.front())) return info.ranks;
  std::int64_t product = 1;
  for (const Axis axis : info.axes)
    if (axis != Axis::ep)
      product = std::min<std::int64_t>(product * asked(axis).value_or(1), 1 << 28);
  return static_cast<int>(product);
}

}  // namespace

void settle(const Given& given, const LessonInfo& info, Options& options) {
  auto& [run, platform, output] = options;
  platform.launch = given.launch == "mpi" || under_mpi() ? Launch::mpi : Launch::threads;
  run.ranks =
      given.ranks.value_or(under_mpi() ? mpi_size_from_environment() : ranks_of_sizes(given, info));
  if (under_mpi() && run.ranks != mpi_size_from_environment())
    throw UsageError(fmt::format("--ranks {}: the launcher started {} processes", run.ranks,
                                 mpi_size_from_environment()));
  check_meta(given, options);
  if (platform.on_meta() && output.trace.empty() && output.view.empty() &&
      run.ranks > most_traced_meta_ranks) {
    output.trace = "none";
    output.trace_left_out = true;
  }
#ifndef LOCKSTEP_HAS_MPI
  if (platform.launch == Launch::mpi)
    throw UsageError(
        "--launch mpi: this build has no MPI; install libopenmpi-dev and openmpi-bin and build "
        "again");
#endif
  if (platform.hosts.any() && platform.launch == Launch::threads)
    throw UsageError(
        fmt::format("{} {}: threads all run on this host; use --launch mpi",
                    platform.hosts.hosts.empty() ? "--hostfile" : "--hosts",
                    platform.hosts.hosts.empty() ? platform.hosts.hostfile : platform.hosts.hosts));
  if (!under_mpi())
    platform.hosts.check(run.ranks);  // not on ranks, which may be unable to read the file
  const bool any_size = given.dp || given.pp || given.cp || given.tp || given.ep;
  const auto default_size = [&](Axis axis) {
    const auto size = info.sizes.find(axis);
    return size == info.sizes.end() ? 1 : size->second;
  };
  // If the size is 0, Mesh gives the remaining ranks to this axis, the lesson's first.
  for (auto [axis, size, asked] : {std::tuple{Axis::dp, &run.dp, given.dp},
                                   {Axis::pp, &run.pp, given.pp},
                                   {Axis::cp, &run.cp, given.cp},
                                   {Axis::tp, &run.tp, given.tp},
                                   {Axis::ep, &run.ep, given.ep}}) {
    *size = asked.value_or(info.axes.front() == axis ? 0 : any_size ? 1 : default_size(axis));
    if (std::ranges::count(info.axes, axis) == 0 && *size > 1)
      throw UsageError(
          fmt::format("--{} {}: this lesson puts all ranks on the {} axis; leave it out",
                      name_of(axis), *size, name_of(info.axes.front())));
  }
  const Mesh mesh{run.ranks, {run.tp, run.cp, run.dp, run.pp}, run.order};
  run.dp = mesh.size(Axis::dp);
  run.pp = mesh.size(Axis::pp);
  run.cp = mesh.size(Axis::cp);
  run.tp = mesh.size(Axis::tp);
  // Without --ep and tensor parallelism, as many ranks as possible divide the experts.
  if (!given.ep && (run.tp == 1 || info.experts_over_all) &&
      std::ranges::count(info.axes, Axis::ep) > 0)
    run.ep = run.dp * run.cp;
  run.mesh();  // throws unless --ep fits

  run.context = given.layout == "zigzag" ? ContextLayout::zigzag : ContextLayout::contiguous;
  run.model.frozen = frozen_units(given.freeze, run.model.layers);
  if (!given.split.empty()) run.split = number_list("--split", given.split, 0);
  run.microbatches = number_list("--microbatches", given.microbatches, 1);
  run.optimizer.learning_rate = static_cast<float>(given.learning_rate);
  run.optimizer.clip = static_cast<float>(given.clip);
  run.optimizer.weight_decay = 0.1F;
  output.parity = given.parity == "on";
  platform.pace = given.pace;
  run.model.validate();
  if (!run.tokens.empty() && !run.data.empty())
    throw UsageError(
        fmt::format("--tokens {} with --data {}: a run trains on one of them; leave one out",
                    run.tokens, run.data));
  if (run.tokens.empty() && run.model.vocabulary < Tokenizer::vocabulary)
    throw UsageError(
        fmt::format("--vocab {}: must be at least {}, because text is read byte by byte",
                    run.model.vocabulary, Tokenizer::vocabulary));
  if (run.microbatches.size() > 1 && !info.sweeps)
    throw UsageError(
        fmt::format("--microbatches {}: this lesson takes one value; lesson 8 takes several",
                    given.microbatches));
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    if (given.precision == name_of(dtype)) run.model.dtype = dtype;
  if (is_narrow(run.model.dtype) && given.comm == "native" && !platform.on_gpus())
    throw UsageError(
        fmt::format("--comm native with --precision {}: MPI has no 16-bit floats; leave one of "
                    "them out",
                    given.precision));
  if (!output.view.empty() && output.trace == "none")
    throw UsageError(fmt::format(
        "--trace none with --view {}: a viewer receives the trace; leave one of them out",
        output.view));
  if (info.trains) check_batch(options);
  if (platform.tf32 && !platform.on_gpus())
    throw UsageError("--tf32: applies only to GPUs; use --device cuda, or leave it out");
  check_paths(options);
  choose_clock(given, options);
  choose_collectives(given, options);
}

}  // namespace lockstep
