#include "kernels/check.h"

#include <fmt/format.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#include "kernels/every_kernel.h"

namespace lockstep {
namespace {

std::string text(const View& view) {
  std::string extents;
  for (int i = 0; i < view.shape.rank(); ++i)
    extents += fmt::format("{}{}", i == 0 ? "" : ", ", view.shape[i]);
  return "(" + extents + ")";
}

void want_dtype(const char* kernel, const Named& named, DType dtype) {
  const View& view = named.view;
  if (view.dtype != dtype)
    throw std::invalid_argument(fmt::format("{}: {} {} is {}; this kernel takes {}", kernel,
                                            named.name, text(view), name_of(view.dtype),
                                            name_of(dtype)));
  if (view.data == nullptr && view.elements() != 0)
    throw std::invalid_argument(
        fmt::format("{}: {} {} has no memory (its data is null)", kernel, named.name, text(view)));
}

void want_floating(const char* kernel, const Named& named) {
  want_dtype(kernel, named, is_floating(named.view.dtype) ? named.view.dtype : DType::f32);
}

void want_contiguous_rows(const char* kernel, const Named& named) {
  if (!named.view.contiguous())
    throw std::invalid_argument(
        fmt::format("{}: {} {} has rows {} elements apart; this argument must be contiguous",
                    kernel, named.name, text(named.view), named.view.row_stride));
}

void want_rows_apart(const char* kernel, const Named& named) {
  if (named.view.row_stride < named.view.shape.last())
    throw std::invalid_argument(fmt::format("{}: the rows of {} {} overlap: they are {} apart",
                                            kernel, named.name, text(named.view),
                                            named.view.row_stride));
}

}  // namespace

void want_strided(const char* kernel, std::initializer_list<Named> views) {
  for (const Named& named : views) {
    want_floating(kernel, named);
    want_rows_apart(kernel, named);
  }
}

void want_contiguous(const char* kernel, std::initializer_list<Named> views) {
  for (const Named& named : views) {
    want_floating(kernel, named);
    want_contiguous_rows(kernel, named);
  }
}

void want_statistics(const char* kernel, std::initializer_list<Named> views) {
  for (const Named& named : views) {
    want_dtype(kernel, named, DType::f32);
    want_contiguous_rows(kernel, named);
  }
}

void want_indices(const char* kernel, Named indices) {
  want_dtype(kernel, indices, DType::i32);
  want_contiguous_rows(kernel, indices);
}

void want_copyable(const char* kernel, Named from, Named to) {
  want_dtype(kernel, from, from.view.dtype);
  want_dtype(kernel, to, from.view.dtype);
  want_rows_apart(kernel, from);
  want_rows_apart(kernel, to);
  want_same_rows(kernel, to, from);
}

void want_one_type(const char* kernel, std::initializer_list<Named> views) {
  const Named* first = nullptr;
  for (const Named& named : views) {
    if (!named.view) continue;
    if (first == nullptr) first = &named;
    if (named.view.dtype != first->view.dtype)
      throw std::invalid_argument(
          fmt::format("{}: {} {} is {} and {} {} is {}; a GPU's kernel takes one type", kernel,
                      first->name, text(first->view), name_of(first->view.dtype), named.name,
                      text(named.view), name_of(named.view.dtype)));
  }
}

void want(const char* kernel, bool fits, Named a, Named b, const char* rule) {
  if (!fits)
    throw std::invalid_argument(fmt::format("{}: {} {} does not fit {} {}: {}", kernel, a.name,
                                            text(a.view), b.name, text(b.view), rule));
}

void want_same_rows(const char* kernel, Named a, Named b) {
  want(kernel,
       a.view.shape.rows() == b.view.shape.rows() && a.view.shape.last() == b.view.shape.last(), a,
       b, "both must have the same rows and columns");
}

void want_one_per_row(const char* kernel, Named per_row, Named x) {
  want_statistics(kernel, {per_row});
  want(kernel, per_row.view.elements() == x.view.shape.rows(), per_row, x,
       "there must be one element for each row");
}

void want_same_elements(const char* kernel, Named a, Named b) {
  want(kernel, a.view.elements() == b.view.elements(), a, b,
       "both must have the same number of elements");
}

constexpr std::size_t kernels_listed = [] {
  std::size_t count = 0;
  for_each_kernel([&count](auto...) { ++count; });
  for_each_fusion([&count](auto...) { ++count; });
  return count;
}();
static_assert(sizeof(Kernels) == kernels_listed * sizeof(Kernel<void()>),
              "for_each_kernel and for_each_fusion must list every member of Kernels");

void want_every_kernel(const char* device, const Kernels& kernels) {
  for_each_kernel([&](const char* name, auto kernel) {
    if (!(kernels.*kernel))
      throw std::logic_error(fmt::format("the {} has no kernel {}", device, name));
  });
}

}  // namespace lockstep
