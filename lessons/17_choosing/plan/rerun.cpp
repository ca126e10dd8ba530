#include "lessons/17_choosing/plan/rerun.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace lockstep {

namespace {

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string{c};
  return text + "'";
}

}  // namespace

std::string lesson_flags(const PlanRequest& request, const Configuration& configuration) {
  const GptConfig& model = request.task.model;
  std::string flags = fmt::format(
      "--device meta --steps 1 --model {} --layers {} --hidden {} --heads {} --sequence {} "
      "--vocab {} --precision {} {}",
      model.llama ? "llama" : "gpt2", model.layers, model.hidden, model.heads, model.sequence,
      model.vocabulary, name_of(model.dtype), configuration.flags(request.task));
  if (model.llama)
    flags +=
        fmt::format(" --kv-heads {} --mlp-width {}", model.llama->kv_heads, model.llama->mlp_width);
  if (model.tied) flags += " --tied";
  if (request.task.moe.experts > 0) flags += fmt::format(" --top-k {}", request.task.moe.top_k);
  return flags;
}

std::string toy_flags(const TrainingTask& task, const Configuration& c) {
  std::string flags;
  for (const auto& [flag, size] :
       {std::pair{"--dp", c.dp}, {"--tp", c.tp}, {"--pp", c.pp}, {"--cp", c.cp}})
    flags += fmt::format("{} {} ", flag, std::min(size, 2));
  if (c.cp > 1) flags += "--layout zigzag ";
  if (c.pp > 1) flags += fmt::format("--schedule {} ", c.schedule);
  if (c.pp > 1 && c.chunks > 1) flags += "--chunks 2 ";
  if (c.tp > 1 && !c.sequence_parallel) flags += "--sequence-parallel off ";
  if (task.moe.experts > 0)
    flags += fmt::format("--experts {} --top-k {} ", std::min(task.moe.experts, 4),
                         std::min(task.moe.top_k, 2));
  return flags + fmt::format("--zero {} --recompute {}", c.zero, name_of(c.recompute));
}

MetaRun run_on_meta(const PlanRequest& request, const Configuration& configuration) {
  namespace fs = std::filesystem;
  const fs::path lesson = fs::read_symlink("/proc/self/exe").parent_path() / "lesson_17_choosing";
  std::string name = (fs::temp_directory_path() / "lockstep-plan-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    throw RunError("can't create a folder in " + fs::temp_directory_path().string());
  const fs::path folder = name;
  struct Remove {
    fs::path path;
    ~Remove() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } const remove{folder};
  const fs::path cluster = folder / "cluster.json", report = folder / "report.json";
  std::ofstream{cluster} << request.task.cluster.json();
  const std::string command = fmt::format(
      "{} {} --cluster {} --trace none --parity off --quiet --report {}", quoted(lesson.string()),
      lesson_flags(request, configuration), quoted(cluster.string()), quoted(report.string()));
  const int status = std::system(command.c_str());
  const int interrupted = 128 + SIGINT;
  if ((WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) ||
      (WIFEXITED(status) && WEXITSTATUS(status) == interrupted)) {
    fs::remove_all(folder);
    std::exit(interrupted);
  }
  if (status != 0) throw RunError("lesson 17 failed: " + lesson_flags(request, configuration));
  std::ifstream in{report};
  const nlohmann::json result = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (result.is_discarded())
    throw RunError(
        fmt::format("{}: lesson 17's report is not a complete JSON document", report.string()));
  MetaRun run{.step_seconds = result["phases"][0]["last_step_seconds"]};
  for (const auto& rank : result["memory"])
    run.peak = std::max(run.peak, rank["peak_total"].get<std::int64_t>());
  return run;
}

}  // namespace lockstep
