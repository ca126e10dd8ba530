#include "core/operations/operations_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/input_file.h"
#include "core/operations/operations_format.h"

namespace lockstep {

namespace {

using Kind = RecordedOperation::Kind;

std::string quoted(const std::string& text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == ' ';
  };
  if (std::ranges::all_of(text, plain)) return '"' + text + '"';  // almost all of them
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Appends to a text.
class Text {
 public:
  template <class... T>
  Text& add(fmt::format_string<T...> format, T&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<T>(values)...);
    return *this;
  }
  /// Adds a member unless its value is the default, -1.
  Text& member(const char* key, std::int64_t value) {
    return value == -1 ? *this : add(",\"{}\":{}", key, value);
  }
  template <class List>
  Text& list(const List& values) {
    const char* comma = "[";
    for (const auto& value : values) add("{}{}", std::exchange(comma, ","), value);
    return add("{}", values.empty() ? "[]" : "]");
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void add(Text& text, const Collective& collective) {
  text.add(",\"dtype\":\"{}\"", name_of(collective.dtype)).member("root", collective.root);
  if (collective.operation == Operation::all_reduce || collective.algorithm != Algorithm::ring)
    text.add(",\"algorithm\":\"{}\"", name_of(collective.algorithm));
  if (collective.operation == Operation::all_to_all)
    text.add(",\"counts\":").list(collective.counts);
  else
    text.add(",\"elements\":{}", collective.elements);
  if (collective.per_node > 0) text.member("per_node", collective.per_node);
  if (collective.choice != Collective::Choice::given)
    text.add(",\"choice\":\"{}\"", name_of(collective.choice));
}

void add(Text& text, const RecordedOperation& each) {
  const Cost& cost = each.cost;
  switch (each.kind) {
    case Kind::kernel:
      text.add("{{\"kernel\":{},\"in\":\"{}\"", quoted(each.name), name_of(each.category))
          .member("stage", each.stage)
          .member("layer", each.layer)
          .add(",\"flops\":{},\"bytes\":{}", cost.flops, cost.bytes);
      if (cost.kind != KernelKind::memory)
        text.add(",\"{}\":[{},{},{}]", cost.kind == KernelKind::product ? "product" : "attention",
                 cost.m, cost.n, cost.k);
      break;
    case Kind::begin:
      text.add("{{\"begin\":{},\"category\":\"{}\"", quoted(each.name), name_of(each.category))
          .member("stage", each.stage)
          .member("microbatch", each.microbatch);
      break;
    case Kind::end:
      text.add("{{\"end\":\"{}\"", name_of(each.category)).member("stage", each.stage);
      break;
    case Kind::send:
    case Kind::receive:
      text.add("{{\"{}\":{},\"{}\":{},\"stream\":{},\"channel\":{},\"axis\":{}",
               each.kind == Kind::send ? "send" : "receive", each.bytes,
               each.kind == Kind::send ? "to" : "from", each.peer, each.stream, each.channel,
               quoted(each.axis))
          .member("stage", each.stage)
          .member("microbatch", each.microbatch);
      break;
    case Kind::collective:
      text.add("{{\"collective\":\"{}\",\"group\":{}", name_of(each.collective.operation),
               each.group);
      add(text, each.collective);
      break;
    case Kind::wait:
      text.add("{{\"wait\":{}", each.back);
      break;
    case Kind::together:
      text.add("{{\"together\":true");
      break;
  }
  text.add("}}");
}

}  // namespace

std::string text_of(const RunOperations& run) {
  Text text;
  text.add("{{\"{}\":{},\"run\":{},\"lesson\":{},\n\"cluster\":{},\n\"time\":{{", operations_key,
           operations_version, quoted(run.run), quoted(run.lesson), run.modelled.cluster.json());
  const char* comma = "";
  for (int i = 0; i < category_count; ++i)
    if (const auto time = run.modelled.times.of(static_cast<Category>(i)))
      text.add("{}\"{}\":{}", std::exchange(comma, ","), name_of(static_cast<Category>(i)), *time);
  text.add("}},\"slow\":{{");
  comma = "";
  for (const auto& [rank, factor] : run.modelled.slow)
    text.add("{}\"{}\":{}", std::exchange(comma, ","), rank, factor);
  std::vector<std::string> choices;
  for (const std::string& choice : run.choices) choices.push_back(quoted(choice));
  text.add("}},\"choices\":").list(choices);
  text.add(",\n\"operations\":[");
  comma = "\n";
  for (const RecordedOperation& each : run.operations) {
    text.add("{}", std::exchange(comma, ",\n"));
    add(text, each);
  }
  text.add("],\n\"lists\":[");
  comma = "\n";
  for (const auto& list : run.lists) text.add("{}", std::exchange(comma, ",\n")).list(list);
  text.add("],\n\"groups\":[");
  comma = "\n";
  for (const auto& group : run.groups)
    text.add("{}{{\"name\":{},\"channel\":{},\"ranks\":", std::exchange(comma, ",\n"),
             quoted(group.name), group.channel)
        .list(group.ranks)
        .add("}}");
  text.add("],\n\"ranks\":[");
  comma = "\n";
  for (const auto& [groups, sections] : run.ranks) {
    text.add("{}{{\"groups\":", std::exchange(comma, ",\n")).list(groups).add(",\"sections\":[");
    const char* inner = "";
    for (const auto& [step, list] : sections)
      text.add("{}[{},{}]", std::exchange(inner, ","), step, list);
    text.add("]}}");
  }
  text.add("]}}\n");
  return text.take();
}

RunOperations read_operations(const std::string& folder_or_file) {
  std::error_code error;
  std::filesystem::path file = folder_or_file;
  if (std::filesystem::is_directory(file, error)) {
    file /= "operations.json";
    if (!std::filesystem::exists(file, error))
      throw UsageError(fmt::format(
          "{}: has no operations.json; only runs on the modelled clock record their "
          "operations, and none if its ranks may die: repeat the run with --clock modelled, and "
          "not with --trace none",
          folder_or_file));
  }
  try {
    return parse_operations(content_of(file.string()), file.string());
  } catch (const InputError& failure) {
    throw UsageError(fmt::format("{}: {}", file.string(), failure.what()));
  }
}

bool is_operations_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(path, error))) return false;
  if (std::filesystem::file_size(path, error) == 0) return true;
  const std::string wanted = fmt::format("{{\"{}\":", operations_key);
  std::string begin(wanted.size(), '\0');
  std::ifstream{path, std::ios::binary}.read(begin.data(),
                                             static_cast<std::streamsize>(begin.size()));
  return begin == wanted;
}

}  // namespace lockstep
