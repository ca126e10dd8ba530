#include "core/run/options/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "core/run/options/given.h"
#include "core/run/options/nearest.h"

namespace lockstep {

namespace {

/// Returns "did you mean --flag? " if `word` is probably a misspelling of this flag.
std::string near_flag(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) names.push_back(option->get_name());
  return word.starts_with("--") ? did_you_mean(word.substr(0, word.find('=')), names) : "";
}

/// Returns the first flag that needs a value and has none.
std::string without_value(const CLI::App& app, int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word{argv[i]};
    const CLI::Option* option = app.get_option_no_throw(word.substr(0, word.find('=')));
    if (option != nullptr && option->get_expected_min() > 0 &&
        (word.ends_with('=') || i + 1 == argc || std::string_view{argv[i + 1]}.starts_with("--")))
      return option->get_name();
  }
  return argv[argc - 1];
}

}  // namespace

FlagCheck at_least(int least) {
  return [least](const std::string& text) {
    return whole_number(text, least) ? std::string{} : why_refused(text, least);
  };
}

FlagCheck positive(bool or_zero) {
  return [or_zero](const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (!text.empty() && *end == '\0' && value < 1e30 && (value > 0 || (or_zero && value == 0)))
      return std::string{};
    return fmt::format("must be a number {}", or_zero ? "of at least 0" : "above 0");
  };
}

FlagCheck among(std::vector<std::string> words) {
  return [words = std::move(words)](const std::string& text) {
    return std::ranges::count(words, text) > 0
               ? std::string{}
               : fmt::format("must be one of {}", fmt::join(words, ", "));
  };
}

CLI::Option* CommandLine::only(CLI::Option* option, FlagCheck check) {
  return option->check([option, check = std::move(check)](const std::string& text) {
    if (const std::string why = check(text); !why.empty())
      throw UsageError(fmt::format("{} {}: {}", option->get_name(), text, why));
    return std::string{};
  });
}

CLI::Option* CommandLine::number(const std::string& flag, int& value, int least,
                                 const std::string& help) {
  least_of[flag] = least;
  return checked(flag, value, at_least(least), help);
}

CLI::Option* CommandLine::number(const std::string& flag, std::optional<int>& value,
                                 const std::string& help) {
  least_of[flag] = 1;
  return only(app.add_option_function<int>(
                  flag, [&value](int number) { value = number; }, help),
              at_least(1));
}

CLI::Option* CommandLine::word(const std::string& flag, std::string& value,
                               const std::string& help) {
  return app.add_option(flag, value, help)->capture_default_str();
}

void CommandLine::choice(const std::string& flag, std::string& value,
                         const std::vector<std::string>& words, const std::string& help) {
  one_of(words, word(flag, value, help));
}

void CommandLine::one_of(const std::vector<std::string>& words, CLI::Option* option) {
  words_of[option->get_name()] = words;
  option->description(fmt::format("{} ({})", option->get_description(), fmt::join(words, "|")));
  only(option, among(words));
}

std::string CommandLine::with_origins(const std::string& refusal) const {
  const std::size_t colon = refusal.find(": ");
  if (colon == std::string::npos) return refusal;
  const std::string blamed = refusal.substr(0, colon);
  std::string text;
  std::size_t copied = 0;
  std::optional<std::string> origin;  // of the flag that ends at `copied`
  for (std::size_t at = 0; at < blamed.size();) {
    const std::size_t end = std::min(blamed.find(' ', at), blamed.size());
    const CLI::Option* option = app.get_option_no_throw(blamed.substr(at, end - at));
    const bool takes_value = option != nullptr && option->get_expected_max() > 0;
    const bool has_value = takes_value && end < blamed.size();
    const std::size_t flag_end =
        has_value ? std::min(blamed.find(' ', end + 1), blamed.size()) : end;
    const auto found = option != nullptr ? origins.find(option->get_name()) : origins.end();
    if (option != nullptr && (option->count() == 0 || assumed.contains(option->get_name())) &&
        (has_value || (!takes_value && found != origins.end()))) {
      const std::string ours = found != origins.end() ? found->second : "";
      const bool continues = origin == ours && at == copied + 1;
      if (!continues && origin && !origin->empty()) text += " of " + *origin;
      text += blamed.substr(copied, at - copied);
      if (!continues && ours.empty()) text += "the default ";
      text += blamed.substr(at, flag_end - at);
      copied = flag_end;
      origin = ours;
    }
    at = flag_end + 1;
  }
  if (origin && !origin->empty()) text += " of " + *origin;
  return text + blamed.substr(copied) + refusal.substr(colon);
}

bool CommandLine::parse(int argc, const char* const* argv,
                        const std::vector<std::string>& may_be_empty,
                        const std::function<void()>& then) {
  try {
    app.parse(argc, argv);
    if (then) then();
  } catch (const CLI::CallForHelp&) {
    return false;
  } catch (const CLI::ExtrasError&) {
    throw UsageError(fmt::format("{}: no such flag; {}{} lists all flags",
                                 fmt::join(app.remaining(), " "),
                                 near_flag(app, app.remaining().front()), help_all));
  } catch (const CLI::ArgumentMismatch&) {
    for (const CLI::Option* option : app.get_options())
      if (static_cast<int>(option->count()) > option->get_expected_max())
        throw UsageError(option->get_name() + ": was given more than once; give it once");
    throw UsageError(without_value(app, argc, argv) + ": needs a value; see --help");
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  for (const CLI::Option* option : app.get_options())
    if (std::ranges::count(may_be_empty, option->get_name()) == 0 &&
        std::ranges::count(option->results(), "") > 0)
      throw UsageError(
          fmt::format("{0} '': the value is empty, perhaps an unset shell variable; give a value, "
                      "or leave {0} out",
                      option->get_name()));
  return true;
}

}  // namespace lockstep
