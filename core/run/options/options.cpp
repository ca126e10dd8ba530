#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <numeric>
#include <sstream>
#include <tuple>

#include "core/base/error.h"
#include "core/comm/mpi/environment.h"
#include "core/model/builder.h"
#include "core/model/data.h"
#include "core/run/files/run_folder.h"
#include "core/run/options/given.h"
#include "core/trace/streamer.h"

namespace lockstep {

namespace {

/// Parses the units to freeze, by the users' names for them: block 0 is unit 1.
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
      throw UsageError(
          fmt::format("--freeze {}: '{}' is none of the blocks 0 to {}, embedding or head", text,
                      part, layers - 1));
  }
  return units;
}

/// Throws UsageError for options that the meta device does not support.
void check_meta(const Given& given, const Options& options) {
  if (!options.on_meta()) return;
  const auto refuse = [](const std::string& flag, const std::string& why) {
    throw UsageError(fmt::format("--device meta with {}: {}", flag, why));
  };
  if (options.launch == Launch::mpi)
    refuse("--launch mpi", "the ranks of the meta device are threads; use --launch threads");
  if (given.clock == "wall")
    refuse("--clock wall",
           "a device that computes nothing takes no time of its own; use --clock modelled");
  if (given.comm == "native")
    refuse("--comm native", "no library has collectives for it; leave --comm out");
  for (const auto& [flag, file] : {std::pair{"--save", options.save}, {"--load", options.load}})
    if (!file.empty())
      refuse(fmt::format("{} {}", flag, file),
             fmt::format("it stores no values; leave {} out, or use --device cpu", flag));
  if (options.tf32) refuse("--tf32", "it computes nothing; leave --tf32 out, or use --device cuda");
}

void choose_clock(const Given& given, Options& options) {
  options.clock_is_open =
      options.on_gpus() && given.clock == "auto" && given.time.empty() && given.pace == 0;
  const int cores = available_cores();
  const int here = under_mpi() ? mpi_local_size_from_environment() : options.ranks;
  if (given.clock != "auto") {
    options.why_this_clock = "as asked";
  } else if (options.on_meta()) {
    options.why_this_clock = "the meta device computes nothing";
  } else if (!given.time.empty() || given.pace > 0) {
    options.why_this_clock = "--time and --pace are about modelled time";
  } else if (here <= cores) {
    options.why_this_clock = fmt::format("each of {} ranks has a core to itself", options.ranks);
  } else {
    options.why_this_clock = fmt::format("{} ranks share {} cores", here, cores);
  }
  const bool modelled = given.clock == "modelled" ||
                        (given.clock == "auto" && (!given.time.empty() || given.pace > 0 ||
                                                   here > cores || options.on_meta()));
  if (!modelled && !given.time.empty())
    throw UsageError(
        fmt::format("--time {} with --clock wall: fixed times are for the modelled clock; use "
                    "--clock modelled",
                    given.time));
  if (!modelled && given.pace > 0)
    throw UsageError(
        fmt::format("--pace {} with --clock wall: a wall clock runs at its own pace; use --clock "
                    "modelled",
                    given.pace));
  // Ranks on other hosts report their cores themselves, and the assignment of GPUs is not known
  // yet.
  const bool they_choose =
      given.clock == "auto" && ((options.hosts.any() && !under_mpi()) || options.clock_is_open);
  const Cluster cluster = they_choose || !modelled ? Cluster::load(options.cluster)
                                                   : cluster_for(options.cluster, options.ranks);
  options.clock =
      modelled ? Clock::modelled(cluster,
                                 given.time.empty() ? FixedTimes{} : FixedTimes::parse(given.time),
                                 given.pace)
               : Clock::wall();
}

void choose_collectives(const Given& given, Options& options) {
  options.comm_is_open = options.on_gpus() && given.comm == "auto";
  if (given.comm != "native") return;
  if (options.launch == Launch::threads && !options.on_gpus())
    throw UsageError(
        "--comm native: threads have no library's collectives; leave it out, or use --launch mpi");
  if (options.clock.is_modelled() && !options.clock_is_open)
    throw UsageError(
        "--comm native: modelled time is known of our own algorithms only; leave it out, or use "
        "--clock wall");
  options.comm = Collectives::native;
}

void check_batch(const Options& options) {
  int pieces = options.dp;  // a multiple of m · dp for every m
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
    const auto refuse = [&, flag = flag, file = file](const std::string& why) {
      throw UsageError(fmt::format("{} {}: {}", flag, file, why));
    };
    const auto path = std::filesystem::absolute(file);
    const auto folder = path.parent_path();
    std::error_code error;
    // --save may name a folder; a report is a file.
    const bool may_be_folder = flag == std::string{"--save"} && !file.ends_with(".safetensors");
    if (std::filesystem::is_directory(path, error)) {
      if (!may_be_folder) refuse("is a folder; give the name of a file");
      if (!can_write_in(path)) refuse("that folder can't be written to; name another");
    } else if (!std::filesystem::is_directory(folder, error)) {
      refuse(fmt::format("there is no folder {}; make it, or name another", folder.string()));
    } else if (std::filesystem::exists(path, error) ? ::access(path.c_str(), W_OK) != 0
                                                    : !can_write_in(folder)) {
      refuse("can't be written; name another file");
    }
  }
  if (!options.view.empty()) Streamer::check_address(options.view);
}

}  // namespace

Plan Options::plan() const {
  Plan plan{model, mesh()};
  plan.batch = {.sequences = batch, .microbatches = microbatches.front()};
  plan.optimizer = optimizer;
  plan.seed = seed;
  if (clock.is_modelled()) plan.modelled = {clock.cluster(), clock.times()};
  plan.collectives = comm;
  plan.receives_combine = launch == Launch::threads;
  set_model(plan, model, builder);
  return plan;
}

Plan Options::plan_of_one_device() const {
  Options one = *this;
  one.ranks = one.dp = one.pp = one.cp = one.tp = one.ep = 1;
  return one.plan();
}

Cluster cluster_for(const std::string& name, int ranks) {
  Cluster cluster = Cluster::load(name);
  if (ranks > cluster.nodes * cluster.ranks_per_node)
    throw UsageError(fmt::format("--ranks {}: cluster '{}' has {} nodes of {} ranks", ranks,
                                 cluster.name, cluster.nodes, cluster.ranks_per_node));
  return cluster;
}

int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return CPU_COUNT(&set);
}

std::optional<int> whole_number(const std::string& text, int least) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value >= least && value <= 1 << 28 ? std::optional{value} : std::nullopt;
}

std::vector<int> number_list(const std::string& flag, const std::string& text, int least) {
  std::vector<int> numbers;
  std::istringstream parts{text + ","};  // the final comma ends the last part like the others
  for (std::string part; std::getline(parts, part, ',');) {
    const auto number = whole_number(part, least);
    if (!number)
      throw UsageError(
          fmt::format("{} {}: '{}' is no number of at least {}; wants such as 8, or 1,2,4,8", flag,
                      text, part, least));
    numbers.push_back(*number);
  }
  return numbers;
}

void settle(const Given& given, const LessonInfo& info, Options& o) {
  o.launch = given.launch == "mpi" || under_mpi() ? Launch::mpi : Launch::threads;
  o.ranks = given.ranks.value_or(under_mpi() ? mpi_size_from_environment() : info.ranks);
  if (under_mpi() && o.ranks != mpi_size_from_environment())
    throw UsageError(fmt::format("--ranks {}: the launcher has started {} processes", o.ranks,
                                 mpi_size_from_environment()));
  check_meta(given, o);
  if (o.on_meta() && o.trace.empty() && o.view.empty() && o.ranks > most_traced_meta_ranks) {
    o.trace = "none";
    o.trace_left_out = true;
  }
#ifndef LOCKSTEP_HAS_MPI
  if (o.launch == Launch::mpi)
    throw UsageError(
        "--launch mpi: built without MPI; install libopenmpi-dev and openmpi-bin and build again");
#endif
  if (o.hosts.any() && o.launch == Launch::threads)
    throw UsageError(fmt::format("{} {}: threads are all on this host; use --launch mpi",
                                 o.hosts.hosts.empty() ? "--hostfile" : "--hosts",
                                 o.hosts.hosts.empty() ? o.hosts.hostfile : o.hosts.hosts));
  if (!under_mpi())
    o.hosts.check(o.ranks);  // a rank has its host already, and may not see the
                             // file
  // The lesson's first axis takes the ranks that the other sizes leave.
  for (auto [axis, size, asked] : {std::tuple{Axis::dp, &o.dp, given.dp},
                                   {Axis::pp, &o.pp, given.pp},
                                   {Axis::cp, &o.cp, given.cp},
                                   {Axis::tp, &o.tp, given.tp},
                                   {Axis::ep, &o.ep, given.ep}}) {
    *size = asked.value_or(info.axes.front() == axis ? 0 : 1);
    if (std::ranges::count(info.axes, axis) == 0 && *size > 1)
      throw UsageError(
          fmt::format("--{} {}: this lesson lays all its ranks on the {} axis; leave it out",
                      name_of(axis), *size, name_of(info.axes.front())));
  }
  const Mesh mesh = o.mesh();
  o.dp = mesh.size(Axis::dp);
  o.pp = mesh.size(Axis::pp);
  o.cp = mesh.size(Axis::cp);
  o.tp = mesh.size(Axis::tp);

  o.model.frozen = frozen_units(given.freeze, o.model.layers);
  o.microbatches = number_list("--microbatches", given.microbatches, 1);
  o.optimizer.learning_rate = static_cast<float>(given.learning_rate);
  o.optimizer.clip = static_cast<float>(given.clip);
  o.optimizer.weight_decay = 0.1F;
  o.parity = given.parity == "on";
  o.pace = given.pace;
  if (o.pace > 0) o.patience_seconds = std::numeric_limits<double>::infinity();  // slow on purpose
  o.model.validate();
  if (o.model.vocabulary < Tokenizer::vocabulary)
    throw UsageError(fmt::format("--vocab {}: text is read byte by byte; wants at least {}",
                                 o.model.vocabulary, Tokenizer::vocabulary));
  if (o.microbatches.size() > 1 && !info.sweeps)
    throw UsageError(fmt::format("--microbatches {}: this lesson takes one value; lesson 8 sweeps",
                                 given.microbatches));
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    if (given.precision == name_of(dtype)) o.model.dtype = dtype;
  if (is_narrow(o.model.dtype) && given.comm == "native" && !o.on_gpus())
    throw UsageError(
        fmt::format("--comm native with --precision {}: MPI knows no 16-bit floats; leave one of "
                    "them out",
                    given.precision));
  if (!o.view.empty() && o.trace == "none")
    throw UsageError(fmt::format(
        "--trace none with --view {}: a viewer is sent what is in the trace; leave one of them out",
        o.view));
  if (info.trains) check_batch(o);
  if (o.tf32 && !o.on_gpus())
    throw UsageError("--tf32: is about GPUs; use --device cuda, or leave it out");
  check_files(o);
  choose_clock(given, o);
  choose_collectives(given, o);
}

}  // namespace lockstep
