#include "viz/read/kineto/labels.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <utility>

#include "core/base/number.h"
#include "viz/read/kineto/numbers.h"

namespace lockstep::kineto {
namespace {

/// Removes a number from the front of `text` and returns it.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// Returns the label of one action, without "PP:".
std::optional<PipelineLabel> label_of(std::string_view text) {
  using Kind = PipelineLabel::Kind;
  PipelineLabel label;
  const auto stage = take_number(text);
  if (!stage) return {};
  label.stage = *stage;
  std::size_t letters = 0;
  while (letters < text.size() &&
         (std::isupper(static_cast<unsigned char>(text[letters])) != 0 || text[letters] == '_'))
    ++letters;
  const std::string_view operation = text.substr(0, letters);
  text.remove_prefix(letters);
  if (const auto microbatch = take_number(text)) label.microbatch = *microbatch;
  if (!text.empty()) return {};
  struct Known {
    std::string_view name;
    Kind kind;
    Category category;
  };
  constexpr Known known[] = {
      {"F", Kind::action, Category::forward},
      {"B", Kind::action, Category::backward},
      {"BW", Kind::action, Category::backward},  // in PyTorch 2.4
      {"I", Kind::action, Category::backward_input},
      {"W", Kind::action, Category::backward_weight},
      {"SEND_F", Kind::send, Category::forward},
      {"SEND_B", Kind::send, Category::backward},
      {"RECV_F", Kind::receive, Category::forward},
      {"RECV_B", Kind::receive, Category::backward},
      {"WAIT_SEND_F", Kind::wait_for_send, Category::forward},
      {"WAIT_SEND_B", Kind::wait_for_send, Category::backward},
      {"UNSHARD", Kind::stage, Category::communication},
      {"RESHARD", Kind::stage, Category::communication},
      {"REDUCE_GRAD", Kind::stage, Category::communication},
      {"WAIT_REDUCE_GRAD", Kind::stage, Category::communication},
  };
  for (const Known& each : known) {
    if (each.name != operation) continue;
    label.kind = each.kind;
    label.category = each.category;
    if ((label.microbatch < 0) != (label.kind == Kind::stage)) return {};
    return label;
  }
  return {};
}

/// Returns the beginning of a name in lower case, without underscores.
std::string simplified(std::string_view name) {
  std::string simple;
  for (const char each : name.substr(0, 64))
    if (each != '_') simple += static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  return simple;
}

}  // namespace

std::vector<PipelineLabel> pipeline_labels(std::string_view annotation) {
  if (!annotation.starts_with("PP:")) return {};
  annotation.remove_prefix(3);
  if (!annotation.starts_with('(')) {
    const auto label = label_of(annotation);
    return label ? std::vector{*label} : std::vector<PipelineLabel>{};
  }
  const std::size_t middle = annotation.find(';'), end = annotation.find(')');
  if (middle == std::string_view::npos || end == std::string_view::npos || end < middle ||
      !annotation.substr(end + 1).starts_with("OVERLAP_F_B"))
    return {};
  const auto first = label_of(annotation.substr(1, middle - 1));
  const auto second = label_of(annotation.substr(middle + 1, end - middle - 1));
  if (!first || !second) return {};
  return {*first, *second};
}

int stage_after(int stage, bool forward) {
  if (!forward) return std::max(stage - 1, -1);
  return stage < std::numeric_limits<int>::max() ? stage + 1 : -1;
}

std::optional<int> numbered(std::string_view annotation, std::string_view prefix) {
  if (!annotation.starts_with(prefix)) return {};
  const auto number = number_from<int>(annotation.substr(prefix.size()));
  return number && *number >= 0 ? number : std::nullopt;
}

std::optional<int> profiler_step(std::string_view annotation) {
  return numbered(annotation, "ProfilerStep#");
}

bool is_c10d(std::string_view name) {
  return name.starts_with("c10d::");
}

const char* name_of(CallKind operation) {
  constexpr std::array names = {"all_reduce",   "reduce_scatter", "all_gather", "all_to_all",
                                "broadcast",    "reduce",         "gather",     "scatter",
                                "barrier",      "send",           "recv",       "send_recv",
                                "communication"};
  return names[static_cast<std::size_t>(operation)];
}

CallKind call_kind_of(std::string_view name) {
  const std::string text = simplified(name);
  // The first match counts, so a name comes before its parts: "allgather" before "gather".
  constexpr std::pair<std::string_view, CallKind> known[] = {
      {"allreduce", CallKind::all_reduce},  {"reducescatter", CallKind::reduce_scatter},
      {"allgather", CallKind::all_gather},  {"alltoall", CallKind::all_to_all},
      {"sendrecv", CallKind::send_receive}, {"coalesced", CallKind::send_receive},
      {"broadcast", CallKind::broadcast},   {"barrier", CallKind::barrier},
      {"gather", CallKind::gather},         {"scatter", CallKind::scatter},
      {"reduce", CallKind::reduce},         {"dispatch", CallKind::all_to_all},  // DeepEP
      {"combine", CallKind::all_to_all},    {"send", CallKind::send},
      {"recv", CallKind::receive},
  };
  for (const auto& [part, operation] : known)
    if (text.find(part) != std::string::npos) return operation;
  return CallKind::other;
}

bool is_message(CallKind operation) {
  return operation == CallKind::send || operation == CallKind::receive;
}

bool synchronizes(CallKind operation) {
  switch (operation) {
    case CallKind::all_reduce:
    case CallKind::reduce_scatter:
    case CallKind::all_gather:
    case CallKind::all_to_all:
    case CallKind::barrier:
      return true;
    default:
      return false;
  }
}

std::int64_t element_size(std::string_view type) {
  if (type.starts_with("c10::")) type.remove_prefix(5);
  constexpr std::pair<std::string_view, int> sizes[] = {
      {"Double", 8},     {"double", 8},      {"Long", 8},  {"long", 8}, {"long int", 8},
      {"Float", 4},      {"float", 4},       {"Int", 4},   {"int", 4},  {"BFloat16", 2},
      {"Half", 2},       {"Short", 2},       {"short", 2}, {"Byte", 1}, {"unsigned char", 1},
      {"Char", 1},       {"signed char", 1}, {"Bool", 1},  {"bool", 1}, {"Float8_e4m3fn", 1},
      {"Float8_e5m2", 1}};
  for (const auto& [name, size] : sizes)
    if (type == name) return size;
  return 0;
}

bool is_communication_kernel(std::string_view name) {
  for (const std::string_view part :
       {"nccl", "rccl", "nvshmem", "deep_ep", "::ep::intern", "::ep::intran"})
    if (name.find(part) != std::string_view::npos) return true;
  return false;
}

}  // namespace lockstep::kineto
