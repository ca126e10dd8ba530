#include "exercises/frame/statics.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>

extern "C" {
extern char lockstep_begin_of_values[1], lockstep_begin_of_zeros[1];  // begin_of_answer.cpp
extern char lockstep_end_of_values[1], lockstep_end_of_zeros[1];      // end_of_answer.cpp
// The address sanitizer knows all blocks of memory. These functions are null if an answer is built
// without it.
__attribute__((weak)) int __sanitizer_get_ownership(const volatile void* block);
__attribute__((weak)) std::size_t __sanitizer_get_allocated_size(const volatile void* block);
}

namespace lockstep::exercises {

namespace {

// Redzones between variables may be read: these functions are compiled without the sanitizer, and
// call none of the functions that it replaces.
#define LOCKSTEP_READS_REDZONES __attribute__((no_sanitize("address")))

/// A symbol of this program's symbol table, which is an object in its data.
struct Symbol {
  std::string name;
  const unsigned char* address;
  std::size_t size;
};

/// This program's file, mapped.
class Image {
 public:
  Image() {
    const int descriptor = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (descriptor < 0) return;
    if (::fstat(descriptor, &status) == 0 && status.st_size > 0) {
      size_ = static_cast<std::size_t>(status.st_size);
      void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
      if (memory != MAP_FAILED) bytes_ = static_cast<const unsigned char*>(memory);
    }
    ::close(descriptor);
  }
  ~Image() {
    if (bytes_ != nullptr) ::munmap(const_cast<unsigned char*>(bytes_), size_);
  }
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  template <class T>
  std::span<const T> table(std::uint64_t offset, std::uint64_t bytes) const {
    if (bytes_ == nullptr || offset > size_ || bytes > size_ - offset) return {};
    return {reinterpret_cast<const T*>(bytes_ + offset), bytes / sizeof(T)};
  }

 private:
  const unsigned char* bytes_ = nullptr;
  std::size_t size_ = 0;
};

/// The difference between the program's addresses in memory and those in its file.
std::uintptr_t load_address() {
  std::uintptr_t address = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* program, std::size_t, void* found) {
        *static_cast<std::uintptr_t*>(found) = program->dlpi_addr;
        return 1;  // the program itself is the first
      },
      &address);
  return address;
}

/// Returns the objects of nonzero size between begin_of_answer.cpp and end_of_answer.cpp.
std::vector<Symbol> symbols_of_answer() {
  const Image image;
  const auto headers = image.table<ElfW(Ehdr)>(0, sizeof(ElfW(Ehdr)));
  if (headers.empty()) return {};
  const auto sections = image.table<ElfW(Shdr)>(
      headers[0].e_shoff, std::uint64_t{headers[0].e_shnum} * sizeof(ElfW(Shdr)));
  const std::uintptr_t loaded = load_address();
  const auto is_between = [&](std::uintptr_t address, const char* begin, const char* end) {
    return loaded + address > reinterpret_cast<std::uintptr_t>(begin) &&
           loaded + address < reinterpret_cast<std::uintptr_t>(end);
  };
  std::vector<Symbol> found;
  for (const ElfW(Shdr) & section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const auto texts =
        image.table<char>(sections[section.sh_link].sh_offset, sections[section.sh_link].sh_size);
    for (const ElfW(Sym) & symbol : image.table<ElfW(Sym)>(section.sh_offset, section.sh_size))
      if (ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT && symbol.st_size > 0 &&
          symbol.st_name < texts.size() &&
          (is_between(symbol.st_value, lockstep_begin_of_values, lockstep_end_of_values) ||
           is_between(symbol.st_value, lockstep_begin_of_zeros, lockstep_end_of_zeros)))
        found.push_back({texts.data() + symbol.st_name,
                         reinterpret_cast<const unsigned char*>(symbol.st_value + loaded),
                         symbol.st_size});
  }
  return found;
}

constexpr std::string_view guard_prefix = "_ZGV", temporary_prefix = "_ZGR", binding = "_ZNDC";

/// Returns the names of a structured binding, "_ZNDC1a1bEE": "[a, b]".
std::string names_of_binding(std::string_view symbol) {
  std::string names;
  symbol.remove_prefix(binding.size());
  while (!symbol.empty() && symbol.front() >= '0' && symbol.front() <= '9') {
    const auto digits = symbol.find_first_not_of("0123456789");
    const auto length = static_cast<std::size_t>(std::atoi(symbol.data()));
    if (digits == std::string_view::npos || length > symbol.size() - digits) break;
    names += (names.empty() ? "" : ", ") + std::string{symbol.substr(digits, length)};
    symbol.remove_prefix(digits + length);
  }
  return "[" + names + "]";
}

/// Returns a variable's name without its scope.
std::string short_name(const std::string& symbol) {
  if (symbol.starts_with(binding)) return names_of_binding(symbol);
  const std::unique_ptr<char, decltype(&std::free)> text{
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, nullptr), &std::free};
  const std::string name = text ? text.get() : symbol;
  const auto last = name.rfind("::");
  return last == std::string::npos ? name : name.substr(last + 2);
}

/// Returns the guards of a variable that is initialized when it is first used; none if it is not.
/// The guard of a reference also guards the temporary object that it refers to. The symbol of a
/// static structured binding lacks its function, so there may be several such guards.
std::vector<const unsigned char*> guards_of(const std::string& symbol,
                                            const std::vector<Symbol>& symbols) {
  const bool is_temporary = symbol.starts_with(temporary_prefix);
  const bool is_binding = symbol.starts_with(binding);
  std::vector<const unsigned char*> guards;
  for (const Symbol& each : symbols) {
    if (!each.name.starts_with(guard_prefix)) continue;
    const std::string guarded = each.name.substr(guard_prefix.size());
    if (symbol == "_Z" + guarded || (is_binding && guarded.ends_with(symbol)) ||
        (is_temporary && symbol.substr(temporary_prefix.size()).starts_with(guarded)))
      guards.push_back(each.address);
  }
  return guards;
}

/// Returns whether a variable belongs to a library and not to the answer: std::cout, or a variable
/// of an inline function in a header.
bool is_of_library(std::string_view symbol) {
  if (symbol.find('@') != std::string_view::npos || symbol.starts_with("__")) return true;
  if (!symbol.starts_with("_Z")) return false;
  symbol.remove_prefix(2);
  // Guards, tables and type names are not variables.
  if (symbol.starts_with("GV") || symbol.starts_with("T")) return true;
  for (const char nesting : {'Z', 'N', 'K'})
    if (symbol.starts_with(nesting)) symbol.remove_prefix(1);
  constexpr std::string_view core = "8lockstep", exercises = "8lockstep9exercises";
  if (symbol.starts_with(core)) return !symbol.starts_with(exercises);
  return std::ranges::any_of(std::array{"St", "Sa", "Ss", "3fmt", "9__gnu_cxx"},
                             [&](const char* scope) { return symbol.starts_with(scope); });
}

LOCKSTEP_READS_REDZONES bool is_equal(std::span<const unsigned char> now,
                                      const std::vector<unsigned char>& before) {
  const volatile unsigned char* bytes = now.data();
  for (std::size_t i = 0; i < now.size(); ++i)
    if (bytes[i] != before[i]) return false;
  return true;
}

LOCKSTEP_READS_REDZONES std::vector<unsigned char> copy_of(std::span<const unsigned char> now) {
  std::vector<unsigned char> copy(now.size());
  const volatile unsigned char* bytes = now.data();
  for (std::size_t i = 0; i < now.size(); ++i) copy[i] = bytes[i];
  return copy;
}

/// Returns a hash of all blocks of memory that the bytes point to, directly or through other
/// blocks.
LOCKSTEP_READS_REDZONES std::uint64_t hash_of_reachable(std::span<const unsigned char> from) {
  std::uint64_t hash = 14695981039346656037U;
  if (__sanitizer_get_ownership == nullptr) return hash;
  constexpr std::size_t most_bytes = std::size_t{32} << 20U;
  std::set<const void*> seen;
  std::vector<std::span<const unsigned char>> left{from};
  std::size_t read = 0;
  while (!left.empty() && read < most_bytes) {
    const std::span<const unsigned char> block = left.back();
    left.pop_back();
    const bool is_first = block.data() == from.data();
    for (std::size_t i = 0; i + sizeof(void*) <= block.size(); i += sizeof(void*)) {
      const auto word = *reinterpret_cast<const volatile std::uintptr_t*>(block.data() + i);
      if (!is_first) hash = (hash ^ word) * 1099511628211U;
      const void* target = reinterpret_cast<const void*>(word);
      if (word % alignof(std::max_align_t) != 0 || __sanitizer_get_ownership(target) == 0) continue;
      if (!seen.insert(target).second) continue;
      left.emplace_back(static_cast<const unsigned char*>(target),
                        __sanitizer_get_allocated_size(target));
    }
    if (!is_first)
      for (std::size_t i = block.size() / sizeof(void*) * sizeof(void*); i < block.size(); ++i)
        hash =
            (hash ^ *static_cast<const volatile unsigned char*>(block.data() + i)) * 1099511628211U;
    read += block.size();
  }
  return hash;
}

}  // namespace

StaticData& StaticData::of_answer() {
  static StaticData all;
  return all;
}

StaticData::StaticData() {
  const std::vector<Symbol> symbols = symbols_of_answer();
  for (const Symbol& each : symbols) {
    if (is_of_library(each.name)) continue;
    const std::vector<const unsigned char*> guards = guards_of(each.name, symbols);
    if (guards.size() > 1) continue;  // bindings with the same names in several functions
    variables_.push_back({.name = short_name(each.name),
                          .bytes = {each.address, each.size},
                          .guard = guards.empty() ? nullptr : guards.front()});
  }
}

void StaticData::remember(Variable& variable) {
  // Do this first: a rank that works out of turn may initialize the variable meanwhile.
  variable.was_initialized =
      variable.guard == nullptr || __atomic_load_n(variable.guard, __ATOMIC_ACQUIRE) != 0;
  variable.before = copy_of(variable.bytes);
  variable.reachable = hash_of_reachable(variable.bytes);
}

void StaticData::remember() {
  const std::lock_guard lock{mutex_};
  for (Variable& each : variables_) remember(each);
}

std::optional<std::string> StaticData::changed() {
  const std::lock_guard lock{mutex_};
  for (Variable& each : variables_) {
    if (!each.was_initialized)
      remember(each);
    else if (!is_equal(each.bytes, each.before) || hash_of_reachable(each.bytes) != each.reachable)
      return each.name;
  }
  return std::nullopt;
}

}  // namespace lockstep::exercises
