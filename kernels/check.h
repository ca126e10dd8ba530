#pragma once

/// Functions that check the views passed to a kernel and throw descriptive errors.
/// kernels/arguments.cpp uses most of these functions.

#include <initializer_list>

#include "kernels/kernels.h"

namespace lockstep {

/// A view and its name in the kernel's declaration.
struct Named {
  const char* name;
  const View& view;
};

/// Throws std::invalid_argument unless every view has a floating-point type, memory for its
/// elements, and rows that do not overlap.
void want_strided(const char* kernel, std::initializer_list<Named> views);

/// Like want_strided, but also requires contiguous views.
void want_contiguous(const char* kernel, std::initializer_list<Named> views);

/// Like want_contiguous, but requires f32 (statistics and moments).
void want_statistics(const char* kernel, std::initializer_list<Named> views);

/// Like want_contiguous, but requires i32.
void want_indices(const char* kernel, Named indices);

/// Throws std::invalid_argument unless all non-empty views have the same type.
void want_one_type(const char* kernel, std::initializer_list<Named> views);

/// Checks a copy's arguments: same dtype (any), same rows and columns, memory for all elements, and
/// no overlapping rows.
void want_copyable(const char* kernel, Named from, Named to);

/// Throws std::invalid_argument with both shapes and the violated `rule`, unless `fits`.
void want(const char* kernel, bool fits, Named a, Named b, const char* rule);

/// Requires the same number of rows and the same row length, so (b, s, h) matches (b * s, h).
void want_same_rows(const char* kernel, Named a, Named b);

/// Requires f32 with one element for each row of x.
void want_one_per_row(const char* kernel, Named per_row, Named x);

/// Requires the same number of elements.
void want_same_elements(const char* kernel, Named a, Named b);

/// Throws std::logic_error, naming the missing kernel and `device`, unless every kernel is set.
void want_every_kernel(const char* device, const Kernels& kernels);

}  // namespace lockstep
