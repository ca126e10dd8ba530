#include "core/base/program.h"

#include <cstdio>
#include <exception>
#include <system_error>

#include "core/base/error.h"
#include "core/base/print.h"
#include "core/base/printable.h"

namespace lockstep {

int run_program(const std::function<int()>& body, const std::string& prefix) {
  open_standard_streams();
  const auto fail = [&](int code, const std::string& what) {
    print_error("{}{}\n", prefix, what);
    return code;
  };
  try {
    const int code = body();
    const std::string lost = lost_output();
    return lost.empty() || code != 0 ? code : fail(1, cannot_print(lost));
  } catch (const UsageError& error) {
    return fail(2, one_line(error.what()));
  } catch (const std::system_error& error) {  // from fmt::print, if stdout can't be written
    const bool lost = std::ferror(stdout) != 0;
    return fail(1, lost ? cannot_print(error.code().message()) : printable(error.what()));
  } catch (const std::exception& error) {
    return fail(1, printable(error.what()));
  }
}

}  // namespace lockstep
