#pragma once

#include <exception>
#include <string>

namespace lockstep {

/// Returns the error's message, in clear words if the system has no more memory or threads.
std::string words_of(const std::exception& error);

/// Makes an exception that nothing catches, such as std::bad_alloc on a library's thread, end
/// this process with exit code 1 and one line on stderr. If the process's address space is limited,
/// the same applies to SIGSEGV, because a library may not check whether an allocation has failed.
void install_last_resort();

}  // namespace lockstep
