#include "core/run/options/given.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "core/base/error.h"
#include "core/comm/mpi/environment.h"
#include "core/model/builder.h"
#include "core/model/data.h"
#include "core/plan/divisions.h"
#include "core/plan/model_presets.h"
#include "core/run/options/check_paths.h"
#include "core/run/options/training.h"

namespace lockstep {

namespace {

/// Parses the value of --freeze into unit numbers: the embedding is 0, block i is i + 1.
std::vector<int> frozen_units(const std::string& text, int layers) {
  std::vector<int> units;
  if (text.empty()) return units;
  std::istringstream parts{text + ","};  // so that an empty last part is refused, too
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
    if (std::ranges::count(units, units.back()) > 1)
      throw UsageError(fmt::format("--freeze {}: {} is there twice; give it once", text, part));
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
  if (given.clock == Given::Clock::wall)
    refuse("--clock wall",
           "the meta device computes nothing, so it has no wall time; use --clock modelled");
  if (given.comm == Given::Comm::native)
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

/// Throws UsageError for shared flags that the lesson does not take; mesh_of() does so for axes.
void check_lesson_takes(const Given& given, const LessonInfo& info) {
  if (!info.clips && given.clip > 0)
    throw UsageError(
        fmt::format("--clip {}: this lesson does not clip gradients; leave it out", given.clip));
  if (!info.why_no_time.empty() && !given.time.empty())
    throw UsageError(fmt::format("--time {}: {}; leave it out, and set the costs with --cluster",
                                 given.time, info.why_no_time));
}

void choose_clock(const Given& given, Options& options) {
  const Cluster cluster = Cluster::load(options.platform.cluster);
  const bool unlike = !cluster.groups.empty();
  const bool wants_modelled = given.wants_modelled() || unlike;
  options.platform.clock_is_open =
      options.platform.on_gpus() && given.clock == Given::Clock::automatic && !wants_modelled;
  const int cores = available_cores();
  const int ranks_here =
      under_mpi() ? mpi_local_size_from_environment() : options.plan.mesh.ranks();
  if (given.clock != Given::Clock::automatic) {
    options.platform.why_this_clock = "chosen by --clock";
  } else if (options.platform.on_meta()) {
    options.platform.why_this_clock = "the meta device computes nothing";
  } else if (given.wants_modelled()) {
    options.platform.why_this_clock = "--time, --slow and --pace require modelled time";
  } else if (unlike) {
    options.platform.why_this_clock = "the ranks of this cluster differ";
  } else if (ranks_here <= cores) {
    options.platform.why_this_clock =
        fmt::format("each of {} ranks has its own core", options.plan.mesh.ranks());
  } else {
    options.platform.why_this_clock = fmt::format("{} ranks share {} cores", ranks_here, cores);
  }
  const bool modelled = given.clock == Given::Clock::modelled ||
                        (given.clock == Given::Clock::automatic &&
                         (wants_modelled || ranks_here > cores || options.platform.on_meta()));
  if (!modelled && !given.time.empty())
    throw UsageError(
        fmt::format("--time {} with --clock wall: fixed times are for the modelled clock; use "
                    "--clock modelled",
                    given.time));
  if (!modelled && !given.slow.empty())
    throw UsageError(fmt::format(
        "--slow {} with --clock wall: only the modelled clock can slow a rank's compute; "
        "use --clock modelled",
        given.slow));
  if (!modelled && given.pace > 0)
    throw UsageError(fmt::format(
        "--pace {} with --clock wall: only the modelled clock can be slowed; use --clock "
        "modelled",
        given.pace));
  // If the ranks run on other hosts, whose cores are unknown here, or on GPUs, which have not been
  // assigned yet, they choose the clock later.
  const bool ranks_choose =
      given.clock == Given::Clock::automatic &&
      ((options.platform.hosts.any() && !under_mpi()) || options.platform.clock_is_open);
  if (modelled && !ranks_choose) check_size(cluster, options.plan.mesh.ranks());
  options.plan.ranks_per_node = cluster.ranks_per_node;
  if (modelled)
    options.plan.modelled = {
        cluster, given.time.empty() ? FixedTimes{} : FixedTimes::parse(given.time),
        given.slow.empty() ? std::map<int, double>{}
                           : parse_slow(given.slow, options.plan.mesh.ranks())};
  if (!options.platform.clock_is_open) check_shared_links(options);
}

void choose_collectives(const Given& given, Options& options) {
  options.platform.comm_is_open =
      options.platform.on_gpus() && given.comm == Given::Comm::automatic;
  if (given.comm != Given::Comm::native) return;
  if (options.platform.launch == Launch::threads && !options.platform.on_gpus())
    throw UsageError(
        "--comm native: no library has collectives for threads; leave it out, or use --launch mpi");
  if (options.plan.modelled && !options.platform.clock_is_open)
    throw UsageError(
        "--comm native: the modelled clock can time only our own algorithms; leave it out, or use "
        "--clock wall");
  options.plan.collectives = Collectives::native;
}

}  // namespace

std::optional<std::int64_t> whole_count(const std::string& text, std::int64_t least) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value >= least && value <= largest_count ? std::optional{value} : std::nullopt;
}

std::optional<int> whole_number(const std::string& text, int least) {
  const auto value = whole_count(text, least);
  return value && *value <= largest_number ? std::optional{static_cast<int>(*value)} : std::nullopt;
}

std::string why_refused(const std::string& text, int least, std::int64_t most) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  const std::size_t zeros = std::min(text.find_first_not_of('0'), text.size());
  const std::string largest = std::to_string(most), number = text.substr(zeros);
  const bool larger =
      number.size() > largest.size() || (number.size() == largest.size() && number > largest);
  return digits && larger ? "must be at most " + largest
                          : fmt::format("must be a whole number of at least {}", least);
}

std::vector<int> number_list(const std::string& flag, const std::string& text, int least) {
  std::vector<int> numbers;
  std::istringstream parts{text + ","};  // so that an empty last part is refused, too
  for (std::string part; std::getline(parts, part, ',');) {
    const auto number = whole_number(part, least);
    if (!number)
      throw UsageError(fmt::format("{} {}: '{}' {}; give numbers such as 8 or 1,2,4,8", flag, text,
                                   part, why_refused(part, least)));
    numbers.push_back(*number);
  }
  return numbers;
}

namespace {

void check_documents(const Given& given, const BatchGeometry& batch) {
  if (given.documents && !given.shape.model.llama)
    throw UsageError(
        fmt::format("--documents {}: GPT-2's position table is added row by row along the "
                    "sequence, so positions "
                    "can't restart with each document; use --model llama",
                    *given.documents));
  if (batch.context == ContextLayout::balanced && !given.documents)
    throw UsageError(
        "--layout balanced: it balances the attention of documents of different lengths; give "
        "--documents, or use --layout zigzag");
}

/// Returns the number of ranks to use if --ranks is not given: the product of the sizes of the
/// lesson's axes, or the lesson's default if no size is given for the first axis.
int ranks_of_sizes(const Given& given, const LessonInfo& info) {
  const auto asked = [&](Axis axis) { return given.sizes[static_cast<std::size_t>(axis)]; };
  if (!asked(info.axes.front())) return info.ranks;
  std::int64_t product = 1;
  for (const Axis axis : info.axes)
    if (axis != Axis::ep)
      product = std::min<std::int64_t>(product * asked(axis).value_or(1), largest_number);
  return static_cast<int>(product);
}

/// Returns the ranks' mesh. Sizes that are not given are the lesson's if the flags give none, and
/// otherwise 1; the lesson's first axis takes the remaining ranks. Without --ep, the lesson may
/// divide the experts among as many ranks as possible.
Mesh mesh_of(const Given& given, const LessonInfo& info, int ranks) {
  const bool any_size = std::ranges::any_of(given.sizes, &std::optional<int>::has_value);
  const auto takes = [&](Axis axis) { return std::ranges::count(info.axes, axis) > 0; };
  const auto size_along = [&](Axis axis) {
    const auto found = info.sizes.find(axis);
    const int otherwise = any_size || found == info.sizes.end() ? 1 : found->second;
    // If the size is 0, Mesh gives the remaining ranks to this axis.
    const int size = given.sizes[static_cast<std::size_t>(axis)].value_or(
        info.axes.front() == axis ? 0 : otherwise);
    if (!takes(axis) && size > 1)
      throw UsageError(
          fmt::format("--{} {}: this lesson puts all ranks on the {} axis; leave it out",
                      name_of(axis), size, name_of(info.axes.front())));
    return size;
  };
  std::array<int, axis_count> sizes{};
  for (const Axis axis : {Axis::dp, Axis::pp, Axis::cp, Axis::tp})
    sizes[static_cast<std::size_t>(axis)] = size_along(axis);
  int ep = size_along(Axis::ep);
  const bool asked_ep = given.sizes[static_cast<std::size_t>(Axis::ep)].has_value();
  const Mesh mesh{ranks, sizes, given.order};
  if (!asked_ep && takes(Axis::ep) && (mesh.size(Axis::tp) == 1 || info.experts_over_all))
    ep = mesh.size(Axis::dp_cp);
  return mesh.with_experts(ep);
}

}  // namespace

void check_shared_links(const Options& options) {
  if (!options.plan.modelled || !options.plan.modelled->cluster.shared) return;
  constexpr const char* why =
      "{} with --cluster {}: its ranks share links, which the modelled clock times only for "
      "threads "
      "on the CPU or the meta device; {}, or record the run with --cluster classroom and time it "
      "with ./lockstep retime --cluster {}";
  const std::string& cluster = options.platform.cluster;
  if (options.platform.launch == Launch::mpi)
    throw UsageError(fmt::format(why, "--launch mpi", cluster, "use --launch threads", cluster));
  if (options.platform.on_gpus())
    throw UsageError(fmt::format(why, "--device cuda", cluster, "use --device meta", cluster));
}

void settle(const Given& given, const LessonInfo& info, Options& options) {
  auto& [plan, run, platform, output] = options;
  const int ranks =
      given.ranks.value_or(under_mpi() ? mpi_size_from_environment() : ranks_of_sizes(given, info));
  platform.launch =
      given.launch == Given::Launch::mpi || under_mpi() ? Launch::mpi : Launch::threads;
  platform.launch_is_open =
      platform.on_gpus() && given.launch == Given::Launch::automatic && !under_mpi();
  plan.receives_combine = platform.launch == Launch::threads;
  if (under_mpi() && ranks != mpi_size_from_environment())
    throw UsageError(fmt::format("--ranks {}: the launcher started {} processes", ranks,
                                 mpi_size_from_environment()));
  check_meta(given, options);
  check_lesson_takes(given, info);
  if (platform.on_meta() && output.trace.empty() && output.view.empty() &&
      ranks > most_traced_meta_ranks)
    output.trace_left_out = true;
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
    platform.hosts.check(ranks);  // not on ranks, which may be unable to read the file
  plan.set_mesh(mesh_of(given, info, ranks));

  plan.batch.documents = given.documents.value_or(0);
  if (!given.split.empty()) plan.split = number_list("--split", given.split, 0);
  const std::vector<int> microbatches = number_list("--microbatches", given.microbatches, 1);
  plan.batch.microbatches = microbatches.front();
  if (microbatches.size() > 1) run.sweep = microbatches;
  plan.optimizer.learning_rate = static_cast<float>(given.learning_rate);
  plan.optimizer.clip = static_cast<float>(given.clip);
  plan.optimizer.weight_decay = 0.1F;
  if (output.verbose) output.detail = "full";
  platform.pace = given.pace;
  GptConfig model = given.shape.model;
  if (model.llama) complete_llama(model, plan.mesh.size(Axis::tp));
  check_documents(given, plan.batch);
  model.frozen = frozen_units(given.freeze, model.layers);
  model.dtype = given.precision;
  model.validate();
  set_model(plan, model);
  if (!run.tokens.empty() && !run.data.empty())
    throw UsageError(
        fmt::format("--tokens {} with --data {}: a run trains on one of them; leave one out",
                    run.tokens, run.data));
  if (run.tokens.empty() && model.vocabulary < Tokenizer::vocabulary)
    throw UsageError(
        fmt::format("--vocab {}: must be at least {}, because text is read byte by byte",
                    model.vocabulary, Tokenizer::vocabulary));
  if (microbatches.size() > 1 && !info.sweeps)
    throw UsageError(
        fmt::format("--microbatches {}: this lesson takes one value; lesson 8 takes several",
                    given.microbatches));
  if (is_narrow(model.dtype) && given.comm == Given::Comm::native && !platform.on_gpus())
    throw UsageError(
        fmt::format("--comm native with --precision {}: MPI has no 16-bit floats; leave one of "
                    "them out",
                    name_of(model.dtype)));
  if (!output.view.empty() && output.trace == "none")
    throw UsageError(fmt::format(
        "--trace none with --view {}: a viewer receives the trace; leave one of them out",
        output.view));
  if (info.training) {
    check_batch(plan, microbatches);
    if (run.steps < static_cast<int>(microbatches.size()))
      throw UsageError(
          fmt::format("--steps {}: a sweep over {} values of --microbatches needs a step for each",
                      run.steps, microbatches.size()));
  }
  if (platform.tf32 && !platform.on_gpus())
    throw UsageError("--tf32: applies only to GPUs; use --device cuda, or leave it out");
  if (info.training) info.training->check_paths(output);
  check_paths(output);
  choose_clock(given, options);
  choose_collectives(given, options);
}

}  // namespace lockstep
