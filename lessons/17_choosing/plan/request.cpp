#include "lessons/17_choosing/plan/request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/model/checkpoint/model_file.h"
#include "core/plan/divisions.h"
#include "core/plan/model_presets.h"
#include "core/run/options/command_line.h"
#include "core/run/options/given.h"
#include "core/run/options/nearest.h"
#include "lessons/17_choosing/plan/rerun.h"

namespace lockstep {

namespace {

constexpr std::int64_t default_tokens = std::int64_t{1} << 22;

std::vector<std::string> schedule_words() {
  std::vector<std::string> words;
  for (const KnownSchedule& known : known_schedules())
    if (!known.searched) words.emplace_back(known.word);
  return words;
}

/// Parses "80GB", "64GiB" or a number of bytes.
std::int64_t bytes_of(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit{end};
  double scale = 0;
  for (const auto& [name, bytes] :
       {std::pair{"", 1.0}, {"GB", 1e9}, {"GiB", 1073741824.0}, {"TB", 1e12}, {"MB", 1e6}})
    if (unit == name) scale = bytes;
  if (!(number > 0) || scale == 0 || number * scale > 1e15)
    throw UsageError(fmt::format("{} {}: must be a size such as 80GB or 64GiB", flag, text));
  return static_cast<std::int64_t>(number * scale);
}

}  // namespace

void fix(SearchSpace& space, const std::string& list) {
  const std::string flag = "--explain " + list;
  std::istringstream parts{list + ","};
  for (std::string part; std::getline(parts, part, ',');) {
    const auto equals = part.find('=');
    std::string key = part.substr(0, equals);
    std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    std::ranges::transform(key, key.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    key.erase(0, key.find_first_not_of(' '));
    value.erase(value.find_last_not_of(' ') + 1);
    const auto number = [&](std::optional<int>& into, int least) {
      const std::optional<int> given = whole_number(value, least);
      if (!given)
        throw UsageError(fmt::format("{}: '{}' {}", flag, part, why_refused(value, least)));
      if (into.value_or(*given) != *given)
        throw UsageError(
            fmt::format("{}: {} is also given as {}; give it once", flag, part, *into));
      into = given;
    };
    if (key == "tp")
      number(space.tp, 1);
    else if (key == "pp")
      number(space.pp, 1);
    else if (key == "dp")
      number(space.dp, 1);
    else if (key == "cp")
      number(space.cp, 1);
    else if (key == "ep")
      number(space.ep, 1);
    else if (key == "zero")
      number(space.zero, 0);
    else if (key == "microbatch")
      number(space.microbatch, 1);
    else if (key == "chunks")
      number(space.chunks, 1);
    else if (key == "schedule" && std::ranges::count(schedule_words(), value) > 0)
      space.schedule = value;
    else if (key == "recompute" && (value == "none" || value == "selective" || value == "full"))
      space.recompute = recompute_of(value);
    else
      throw UsageError(fmt::format(
          "{}: '{}' fixes nothing; use TP=, PP=, DP=, CP=, EP=, zero=, microbatch=, chunks= with a "
          "number, schedule={}, or recompute=none|selective|full",
          flag, part, fmt::join(schedule_words(), "|")));
  }
}

namespace {

std::optional<PlanRequest> request_from(CommandLine& line, int argc, char** argv) {
  PlanRequest request;
  TrainingTask& task = request.task;
  SearchSpace& space = request.space;
  ModelFlags shape;
  shape.name = "llama3-70b";
  std::string load, precision = "bf16", cluster = "h100", memory, explain, schedule, recompute;
  std::string schedules = "1f1b,interleaved,zb-h1";
  std::optional<int> ranks, batch;
  std::string sequence_parallel = "on";
  int replays = 20, top = 10, zero = -1, bucket = static_cast<int>(task.bucket_bytes);
  task.moe.experts = 0;

  line.app.name("./lockstep plan");
  line.app.description(
      "Which layout should this model, this cluster and this batch have? Walks the decision tree, "
      "searches, and ranks what fits into memory by the time of a step.");
  line.app.get_formatter()->column_width(34);
  line.app.option_defaults()->group("What to train");
  shape.add_to(line);
  line.word("--load", load,
            "the folder of a model of transformers: its config.json sets the model's flags");
  line.number("--experts", task.moe.experts, 0, "experts in each layer; 0: a dense MLP");
  line.number("--top-k", task.moe.top_k, 1, "experts that process each token");
  line.choice("--precision", precision, {"f32", "bf16", "f16"},
              "data type of weights, gradients and activations");
  line.number("--batch", batch,
              "sequences per step, on all GPUs together [4M tokens; for a toy, 16 or one per GPU]");
  line.app.option_defaults()->group("On what");
  line.word("--cluster", cluster,
            fmt::format("the machine: {}, or a file", fmt::join(Cluster::presets(), ", ")));
  line.number("--ranks", ranks, "GPUs [64, or the product of the sizes given]");
  line.word("--memory", memory, "of each GPU, such as 80GB [the cluster's]");
  line.app.option_defaults()->group("What is fixed; the rest is searched");
  for (const auto& [flag, value, what] : {std::tuple{"--tp", &space.tp, "tensor"},
                                          {"--pp", &space.pp, "pipeline"},
                                          {"--dp", &space.dp, "data"},
                                          {"--cp", &space.cp, "context"},
                                          {"--ep", &space.ep, "expert"}})
    line.number(flag, *value, fmt::format("ranks along the {}-parallel axis", what));
  line.number("--zero", zero, 0, "ZeRO's stage, or 0");
  line.number("--microbatch", space.microbatch, "sequences in a microbatch");
  line.choice("--schedule", schedule, schedule_words(), "the pipeline's schedule");
  line.word("--schedules", schedules, "the schedules to search among");
  line.number("--chunks", space.chunks, "stages per rank");
  line.choice("--recompute", recompute, {"none", "selective", "full"},
              "what backward recomputes: nothing, attention's probabilities, or whole blocks");
  line.choice("--sequence-parallel", sequence_parallel, {"on", "off"},
              "tp ranks also divide the tokens between the products");
  line.number("--bucket", bucket, 1, "minimum bytes of gradients in a bucket");
  line.app.option_defaults()->group("Output");
  line.word("--explain", explain,
            "read a configuration aloud, such as TP=8,PP=4,DP=2: what each number buys and costs");
  line.number("--top", top, 1, "plans to print");
  line.number("--replays", replays, 1, "configurations to replay");
  line.app.add_flag(
      "--rerun", request.rerun,
      "run each printed plan as lesson 17 on the meta device, and print both figures");
  line.word("--report", request.report, "write the result to this file as JSON");
  line.app.get_option("--zero")->default_str("");
  if (!line.parse(argc, argv)) {
    fmt::print("{}", line.app.help());
    return {};
  }
  const bool asks_for_model = line.app.count("--model") > 0 || !load.empty();
  if (!load.empty() && line.app.count("--model") == 0) shape.name = "gpt2";
  const ModelDescription described = load.empty() ? ModelDescription{} : described_model(load);
  if (!load.empty() && described == ModelDescription{})
    throw UsageError(fmt::format(
        "--load {}: there is no config.json of a GPT-2 or a Llama; give the folder of a model",
        load));
  shape.adopt(line, load, described);
  task.model = shape.model;
  request.model = load.empty() ? shape.name : load;
  if (task.model.llama) complete_llama(task.model, 1);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    if (precision == name_of(dtype)) task.model.dtype = dtype;
  task.model.validate();
  task.sequence_parallel = sequence_parallel == "on";
  task.bucket_bytes = bucket;
  if (zero >= 0) space.zero = zero;
  if (!schedule.empty()) space.schedule = schedule;
  if (!recompute.empty()) space.recompute = recompute_of(recompute);
  space.schedules.clear();
  std::istringstream words{schedules + ","};
  for (std::string word; std::getline(words, word, ',');) {
    if (std::ranges::count(schedule_words(), word) == 0)
      throw UsageError(fmt::format("--schedules {}: there is no schedule '{}'; {}use some of {}",
                                   schedules, word, did_you_mean(word, schedule_words()),
                                   fmt::join(schedule_words(), ", ")));
    if (std::ranges::count(space.schedules, word) > 0)
      throw UsageError(
          fmt::format("--schedules {}: {} is there twice; give it once", schedules, word));
    space.schedules.push_back(word);
  }
  if (!explain.empty()) {
    request.explain = true;
    fix(space, explain);
    // "TP 2, PP 4 on 256 GPUs" means 32 replicas.
    if (!space.dp && !space.cp) space.cp = 1;
  }
  if (space.zero.value_or(0) > 3)
    throw UsageError(
        fmt::format("--zero {}: ZeRO has stages 1 to 3, and 0 is none; use --zero 3", *space.zero));
  if (task.moe.experts > 0 && space.zero.value_or(0) > 0)
    throw UsageError(fmt::format(
        "--zero {} with --experts {}: lesson 17 does not divide the states of experts further; use "
        "--zero 0, or --experts 0",
        *space.zero, task.moe.experts));
  if (task.moe.experts == 0 && space.ep.value_or(1) > 1)
    throw UsageError(
        fmt::format("--ep {}: there are no experts; give --experts, or leave it out", *space.ep));
  if (request.explain && (request.rerun || !request.report.empty()))
    throw UsageError(
        fmt::format("--explain with {}: it reads one layout aloud, without a ranking; "
                    "leave one of them out",
                    request.rerun ? "--rerun" : "--report"));
  if (task.moe.experts > 0 && task.moe.top_k > task.moe.experts)
    throw UsageError(fmt::format("--top-k {} with --experts {}: use --top-k {}", task.moe.top_k,
                                 task.moe.experts, task.moe.experts));

  const std::int64_t product = std::int64_t{1} * space.tp.value_or(1) * space.pp.value_or(1) *
                               space.cp.value_or(1) * space.dp.value_or(1);
  task.ranks =
      ranks.value_or(space.dp && product <= largest_number ? static_cast<int>(product) : 64);
  task.cluster = cluster_for(cluster, task.ranks);
  if (!task.cluster.groups.empty())
    throw UsageError(
        fmt::format("--cluster {}: its ranks differ, and this search assumes equal ones; use "
                    "./lockstep lesson 19 --search, or a cluster without groups",
                    cluster));
  if (request.rerun && task.ranks > most_rerun_ranks)
    throw UsageError(
        fmt::format("--rerun with {} GPUs: lesson 17 runs each as a thread, at most {}; leave "
                    "--rerun out",
                    task.ranks, most_rerun_ranks));
  if (!request.report.empty() && !std::ofstream{request.report, std::ios::app})
    throw UsageError(fmt::format("--report {}: can't be written", request.report));
  if (space.tp && task.model.heads % *space.tp != 0)
    check_heads(task.model, fmt::format("--tp {} with --heads {}", *space.tp, task.model.heads),
                Axis::tp, *space.tp);
  const std::int64_t most =
      static_cast<std::int64_t>(task.cluster.nodes) * task.cluster.ranks_per_node;
  if (product > most)
    throw UsageError(fmt::format("the sizes given need {} GPUs; cluster '{}' has {}", product,
                                 task.cluster.name, most));
  if (product > task.ranks || task.ranks % product != 0)
    throw UsageError(
        fmt::format("--ranks {}: {} GPUs do not divide into groups of {}, the product of "
                    "the sizes given; use --ranks {}",
                    task.ranks, task.ranks, product,
                    std::clamp<std::int64_t>((task.ranks + product / 2) / product, 1,
                                             std::max<std::int64_t>(1, most / product)) *
                        product));
  request.cluster = cluster;
  if (!memory.empty()) task.cluster.memory = bytes_of("--memory", memory);
  const bool toy = load.empty() && !is_published(shape.name);
  task.batch = batch.value_or(
      toy ? std::max(16, task.ranks)
          : static_cast<int>(std::max<std::int64_t>(1, default_tokens / task.model.sequence)));
  request.replays = static_cast<std::size_t>(replays);
  request.top = static_cast<std::size_t>(top);
  const auto assumed = [&](bool given, const std::string& text) {
    if (!given) request.defaults.push_back(text);
  };
  assumed(asks_for_model, "--model " + shape.name);
  assumed(line.app.count("--cluster") > 0, "--cluster " + cluster);
  assumed(ranks.has_value() || space.dp.has_value(), fmt::format("--ranks {}", task.ranks));
  assumed(batch.has_value(), fmt::format("--batch {}", task.batch));
  assumed(!described.sequence || line.app.count("--sequence") > 0,
          fmt::format("--sequence {} (the maximum of its config.json)", task.model.sequence));
  return request;
}

}  // namespace

std::optional<PlanRequest> parse_request(int argc, char** argv) {
  CommandLine line;
  return line.naming_origins([&] { return request_from(line, argc, argv); });
}

}  // namespace lockstep
