#include "core/run/launch/aftermath.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/base/printable.h"

namespace lockstep {

Aftermath::Aftermath(int ranks, double notice_seconds, const std::string& host)
    : ranks_(ranks), notice_seconds_(notice_seconds) {
  for (int rank = 0; rank < ranks && !host.empty(); ++rank) hosts_[rank] = host;
}

std::optional<std::string> Aftermath::line(const std::string& text) {
  if (const auto message = RankMessage::from_line(text)) {
    hosts_[message->rank] = message->host;
    switch (message->kind) {
      case RankMessage::Kind::location:
        ++started_;
        if (!started() || failed_ || diagnoses_.empty()) break;
        return fmt::format("{}", fmt::join(std::exchange(diagnoses_, {}), "\n"));
      case RankMessage::Kind::usage_error:
        // All ranks may have reported the same error.
        if (std::find(refusals_.begin(), refusals_.end(), message->text) != refusals_.end()) break;
        refusals_.push_back(message->text);
        return one_line(message->text);
      case RankMessage::Kind::failure:
        failed_ = true;
        causes_.push_back(*message);
        break;
      case RankMessage::Kind::last_operations:
        failed_ = true;
        operations_[message->rank] = message->text;
        break;
      case RankMessage::Kind::already_reported:
        already_reported_ = true;
        break;
      case RankMessage::Kind::busy:
        // Several ranks may be busy at once.
        if (const auto now = std::chrono::steady_clock::now();
            !last_busy_notice_ ||
            now - *last_busy_notice_ >= std::chrono::duration<double>{notice_seconds_}) {
          last_busy_notice_ = now;
          return message->text;
        }
        break;
      case RankMessage::Kind::trace_warning:
        if (!std::exchange(warned_of_trace_, true)) return message->text;
        break;
      case RankMessage::Kind::trace_ended:
        ++traces_ended_;
        break;
      case RankMessage::Kind::ready:
        ++ready_;
        break;
      case RankMessage::Kind::interrupted:
        saved_and_ended_ = true;
        return message->text;
    }
    return {};
  }
  const bool rule = text.size() > 60 && text.find_first_not_of('-') == std::string::npos;
  if (rule) {
    if (inside_) end_block();
    inside_ = !inside_;
    return {};
  }
  if (inside_) {
    block_ += text + "\n";
    return {};
  }
  // On a busy machine, ssh may have started before mpirun put it into a process group.
  if (text.find("plm:rsh: Warning: setpgid") != std::string::npos) return {};
  if (const auto log = MpirunLog::from_line(text)) return logged(text, *log);
  if (failed_ && text.empty()) return {};
  for (const char* launcher : {"mpirun", "prterun"})  // OpenMPI 4 and 5
    for (const char* what : {": abort is already in progress", ": Forwarding signal "})
      if (text.starts_with(std::string{launcher} + what)) return {};
  return text;
}

void Aftermath::set_cause(std::optional<int> rank, const std::string& text) {
  failed_ = true;
  if (rank) hosts_.try_emplace(*rank, host_name());
  own_cause_ = (rank ? rank_on_host(*rank) + ": " : "") + text;
}

std::optional<std::string> Aftermath::logged(const std::string& line, const MpirunLog& log) {
  using Kind = MpirunLog::Kind;
  if (log.kind == Kind::diagnosis) {
    // Once a rank has ended, other ranks' libraries report lost connections.
    if (failed_) return {};
    if (started()) return line;
    diagnoses_.push_back(line);
    for (const char* word : {"ERROR", "Error: "})  // as in "PMIX ERROR: OUT-OF-RESOURCE"
      if (error_.empty() && log.text.find(word) != std::string::npos) error_ = log.text;
    return {};
  }
  if (log.kind != Kind::state) {
    failed_ = true;
    if (!first_bad_) first_bad_ = log;
  }
  return log.before.empty() ? std::nullopt : std::optional{log.before};
}

std::string Aftermath::end(int status, const std::string& limits) {
  if (inside_) end_block();
  inside_ = false;
  conclude(status, limits);
  if (failed_ || explains_failure() || diagnoses_.empty()) return unexplained_;
  return fmt::format("{}\n{}", fmt::join(diagnoses_, "\n"), unexplained_);
}

void Aftermath::conclude(int status, const std::string& limits) {
  using Kind = MpirunLog::Kind;
  const bool ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  // mpirun also logs that a killed rank is unreachable, sometimes before it logs its death.
  const bool killed = killed_ || (first_bad_ && first_bad_->kind == Kind::killed);
  const bool unstarted = could_not_start() || (start_is_in_doubt() &&
                                               !(killed && error_.ends_with("ERROR: UNREACHABLE")));
  if (unstarted && !ended_well && causes_.empty() && refusals_.empty()) {
    failed_ = true;
    const std::string who = could_not_start() ? " " + rank_on_host(first_bad_->rank) : "";
    const std::string why = error_.empty() ? "" : ": " + error_;
    no_start_ = fmt::format("MPI could not start{}{}{}", who, why, limits);
    return;
  }
  if (!first_bad_) return;
  // mpirun ends with the exit code of the first rank that failed: 128 plus the signal, if one
  // killed the rank.
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0, rank = first_bad_->rank;
  if (first_bad_->kind == Kind::killed && !killed_)
    killed_ = {RankMessage::Kind::failure, rank, "",
               code > 128
                   ? fmt::format("exited on signal {} ({})", code - 128, ::strsignal(code - 128))
                   : "was killed by a signal"};
  if (first_bad_->kind == Kind::ended && !ended_ && !ended_well)
    ended_ = {RankMessage::Kind::failure, rank, "",
              code > 0 ? fmt::format("ended with exit code {}", code) : "ended with an error"};
}

void Aftermath::end_block() {
  constexpr const char* died = "noticed that process rank ";
  const auto contains = [&](const char* words) { return block_.find(words) != std::string::npos; };
  if (const auto at = block_.find(died); at != std::string::npos) {
    // "process rank 3 with PID 0 on node vm exited on signal 9 (Killed)."
    const int rank = std::atoi(block_.c_str() + at + std::strlen(died));
    const auto word_after = [&](const char* before) {
      const auto begin = block_.find(before, at);
      if (begin == std::string::npos) return std::string{};
      const auto from = begin + std::strlen(before);
      return block_.substr(from, block_.find_first_of(" \n", from) - from);
    };
    const auto how = block_.find("exited", at);
    std::string rest = how != std::string::npos ? block_.substr(how) : "has died";
    rest = rest.substr(0, rest.find_last_not_of(".\n") + 1);
    killed_ = RankMessage{RankMessage::Kind::failure, rank, word_after("on node "), rest};
    hosts_.try_emplace(rank, killed_->host);
    failed_ = true;
  } else if (contains("Primary job")) {
    failed_ = true;
  } else if (const auto first = block_.find("Process name: ["); first != std::string::npos) {
    // "Process name: [[31942,1],2]" or, from OpenMPI 5, "Process name: [prterun-vm-8518@1,2]", and
    // "Exit code:    1" name a rank that may have reported nothing itself.
    const auto rank = block_.rfind(',', block_.find('\n', first));
    const auto code = block_.find("Exit code:", first);
    if (rank != std::string::npos && rank > first && code != std::string::npos)
      ended_ =
          RankMessage{RankMessage::Kind::failure, std::atoi(block_.c_str() + rank + 1), "",
                      fmt::format("ended with exit code {}",
                                  std::atoi(block_.c_str() + code + std::strlen("Exit code:")))};
  } else if (contains("unable to reliably start one or more daemons")) {
    // Replaces mpirun's thirty lines of possible causes; ssh has already printed its own error.
    unexplained_ =
        "the run failed: mpirun could not start on every host; each must be reachable by ssh "
        "without "
        "a password and have OpenMPI's orted on its PATH\n";
  } else if (!contains("MPI_ABORT was invoked") &&
             !contains("does not know how to route a message")) {
    unexplained_ += block_;
  }
  block_.clear();
}

std::string Aftermath::rank_on_host(int rank) const {
  const auto host = hosts_.find(rank);
  return host != hosts_.end() ? fmt::format("rank {} on {}", rank, host->second)
                              : fmt::format("rank {}", rank);
}

bool Aftermath::has_reported(int rank) const {
  return std::any_of(causes_.begin(), causes_.end(),
                     [&](const RankMessage& cause) { return cause.rank == rank; });
}

std::string Aftermath::text(const std::string& epilogue) const {
  if (!own_cause_ && !no_start_.empty()) return fmt::format("the run failed: {}\n", no_start_);
  std::string text;
  int victim = -1;
  if (own_cause_) {
    text = fmt::format("the run failed: {}{}\n", *own_cause_, epilogue);
  } else if (killed_ && !has_reported(killed_->rank)) {
    // A killed rank has no time to report, so a rank that reported a cause died of that cause.
    victim = killed_->rank;
    text = fmt::format("the run failed: {} {}{}\n", rank_on_host(victim), killed_->text, epilogue);
  } else if (!causes_.empty()) {
    text = fmt::format("the run failed: {}: {}\n", rank_on_host(causes_.front().rank),
                       with_epilogue(causes_.front().text, epilogue));
  } else if (ended_ && refusals_.empty() && !already_reported_) {
    text = fmt::format("the run failed: {} {}{}\n", rank_on_host(ended_->rank), ended_->text,
                       epilogue);
  } else {
    return "";
  }
  text += "the last operations of each rank, newest last:\n";
  for (int rank = 0; rank < ranks_; ++rank) {
    if (const auto operations = operations_.find(rank); operations != operations_.end())
      text += shown_operations(rank_on_host(rank), operations->second);
    else
      text +=
          fmt::format("  {}: {}\n", rank_on_host(rank),
                      rank == victim ? "was killed before it could report" : "has not reported");
  }
  return text;
}

}  // namespace lockstep
