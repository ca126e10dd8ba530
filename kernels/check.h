#pragma once

/// The words of a kernel that asks something of its views: what kernels/arguments.h is written in.

#include <initializer_list>

#include "kernels/view.h"

namespace lockstep {

/// A view under the name that the kernel's declaration gives it.
struct Named {
  const char* name;
  const View& view;
};

/// Throws std::invalid_argument unless every view is of a floating type, has memory for its
/// elements, and its rows don't overlap.
void want_strided(const char* kernel, std::initializer_list<Named> views);

/// The same, and contiguous.
void want_contiguous(const char* kernel, std::initializer_list<Named> views);

/// The same as want_contiguous for f32: statistics and moments.
void want_statistics(const char* kernel, std::initializer_list<Named> views);

/// The same for i32.
void want_indices(const char* kernel, Named indices);

/// Throws unless all views that there are have one type.
void want_one_type(const char* kernel, std::initializer_list<Named> views);

/// For copies: one dtype, whichever it is, the same rows and columns, memory, rows that don't
/// overlap.
void want_copyable(const char* kernel, Named from, Named to);

/// Throws std::invalid_argument with both shapes and the rule they break, unless `fits`.
void want(const char* kernel, bool fits, Named a, Named b, const char* rule);

/// The same number of rows of the same length, so that (b, s, h) fits (b * s, h).
void want_same_rows(const char* kernel, Named a, Named b);

/// The same number of elements.
void want_same_elements(const char* kernel, Named a, Named b);

}  // namespace lockstep
