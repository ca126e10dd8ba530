#include "viz/data/feed/memory_limit.h"

#include <malloc.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <fstream>

#include "core/base/error.h"

namespace lockstep::viz {

std::size_t resident_bytes() {
  std::ifstream statm{"/proc/self/statm"};
  std::size_t size = 0, resident = 0;
  if (!(statm >> size >> resident)) return 0;
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return resident * page;
}

void return_freed_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

MemoryLimit parse_memory(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const double scale = unit == "GB" ? 1e9 : unit == "MB" ? 1e6 : 0;
  if (error != std::errc{} || !(number * scale >= static_cast<double>(MemoryLimit::least)) ||
      number * scale > 1e15) {
    throw UsageError("--memory " + text + ": give at least 256MB, such as 512MB or 2GB");
  }
  return MemoryLimit{static_cast<std::size_t>(number * scale)};
}

}  // namespace lockstep::viz
