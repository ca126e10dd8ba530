#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_kernels.h"
#include "tests/gpu/attention_calls.h"
#include "tests/gpu/on_device.h"
#include "tests/support/portion.h"

// Attention's backward pass with five products (kernels/cuda/attention_backward_five.cu), whose
// blocks wait for one another. The emulator starts blocks in random order and interleaves blocks
// that wait or that let others run; each call uses a different order.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

constexpr const char* variable = "LOCKSTEP_ATTENTION_BACKWARD";

/// Returns kernels created with $LOCKSTEP_ATTENTION_BACKWARD set to `value`.
Kernels made_with(const char* value) {
  struct Restore {
    std::optional<std::string> before;
    Restore() {
      if (const char* const now = std::getenv(variable)) before = now;
    }
    ~Restore() { before ? ::setenv(variable, before->c_str(), 1) : ::unsetenv(variable); }
  } restore;
  ::setenv(variable, value, 1);
  return on_device(make_cuda_kernels());
}

const Kernels& five() {
  static const Kernels kernels = made_with("five");
  return kernels;
}
const Kernels& seven() {
  static const Kernels kernels = made_with("seven");
  return kernels;
}

const DType narrow_types[] = {DType::bf16, DType::f16};

/// Returns the results of the backward pass, for bitwise comparison.
struct Gradients {
  Doubles dq, dk, dv;
  bool operator==(const Gradients&) const = default;
};
Gradients gradients(Attention& t, const Kernels& with, bool kept = false) {
  for (Elements* output : {&t.dq, &t.dk, &t.dv}) output->poison();
  t.backward(kept, with);
  return {t.dq.doubles(), t.dk.doubles(), t.dv.doubles()};
}

}  // namespace

TEST_CASE("five products: the oracle's gradients, and the bits of seven products in dq") {
  Random random{50};
  // A block has 64 or 128 keys, so these are one to five blocks.
  const std::vector<std::size_t> sizes{150, 65, 1, 300, 129, 257, 128, 2, 31, 33, 64, 127, 200};
  bool dk_differs = false;
  for (const std::size_t s : portion(sizes, 3))
    for (const DType dtype : narrow_types)
      for (const std::int64_t gap : {0, 3}) {
        Attention t{random_heads(random, s), dtype, random, gap, gap == 3 ? 1 : 0};
        const std::string what = named(t);
        CAPTURE(what);
        t.forward();
        const Gradients want = gradients(t, seven()), got = gradients(t, five());
        CHECK(largest_error(t) < allowed(t));
        // On a GPU, this also requires that mma sums an element in the same way whichever operand
        // is on the left, as the test of kept probabilities does.
        CHECK(got.dq == want.dq);
        dk_differs = dk_differs || got.dk != want.dk;
      }
  CHECK(dk_differs);  // because it is summed in another order; otherwise both would be one kernel
}

TEST_CASE("five products: each head size, with slightly more than two blocks of keys") {
  Random random{51};
  for (const std::size_t d : portion(std::vector<std::size_t>{64, 128, 5, 80, 16, 96, 10, 112}, 2))
    for (const DType dtype : narrow_types) {
      const std::size_t s = d <= 64 ? 260 : 130;
      Attention t{{.b = 1, .s = s, .h = d, .heads = 1}, dtype, random};
      const std::string what = named(t);
      CAPTURE(what);
      t.forward();
      const Gradients want = gradients(t, seven()), got = gradients(t, five());
      CHECK(largest_error(t) < allowed(t));
      CHECK(got.dq == want.dq);
    }
}

TEST_CASE("five products: the same bits whatever the order of blocks") {
  Random random{52};
  for (const std::size_t d : {96U, 32U}) {
    const std::size_t s = d <= 64 ? 330 : 170;  // three blocks of keys
    Attention t{{.b = 1, .s = s, .h = 2 * d, .heads = 2}, DType::bf16, random};
    t.forward();
    const Gradients first = gradients(t, five());
    for (int repeat = 0; repeat < portion_of(20, 3); ++repeat) CHECK(gradients(t, five()) == first);
  }
}

TEST_CASE("five products: a sequence's bits depend neither on its batch nor on its alignment") {
  Random random{53};
  // The batch has more heads than one group of blocks covers.
  const std::int64_t sequences = 18, s = 140, h = 32, each = s * h;
  Attention all{{.b = 18, .s = 140, .h = 32, .heads = 2}, DType::f16, random};
  all.forward();
  const Gradients want = gradients(all, five());
  for (const std::int64_t sequence : {std::int64_t{0}, sequences - 1})
    for (const std::int64_t gap : {0, 1}) {
      Attention one{{.b = 1, .s = 140, .h = 32, .heads = 2}, DType::f16, random, gap, 3 * gap};
      for (std::int64_t i = 0; i < each; ++i) {
        const std::int64_t at = sequence * each + i;
        one.q.set(i, static_cast<float>(all.q.get(at)));
        one.k.set(i, static_cast<float>(all.k.get(at)));
        one.v.set(i, static_cast<float>(all.v.get(at)));
        one.dy.set(i, static_cast<float>(all.dy.get(at)));
      }
      one.forward();
      const Gradients got = gradients(one, five());
      const auto same = [&](const Doubles& a, const Doubles& b) {
        return std::equal(a.begin(), a.end(), b.begin() + sequence * each);
      };
      CHECK(same(got.dq, want.dq));
      CHECK(same(got.dk, want.dk));
      CHECK(same(got.dv, want.dv));
    }
}

TEST_CASE("five products: the same bits with kept probabilities, and no NaN from large scores") {
  Random random{54};
  for (const DType dtype : narrow_types) {
    Attention t{random_heads(random, 150), dtype, random, 0, 0, 2.0F};
    const std::string what = named(t);
    CAPTURE(what);
    t.forward(true);
    CHECK(gradients(t, five(), true) == gradients(t, five()));

    Attention large{{.b = 1, .s = 140, .h = 64, .heads = 2}, dtype, random, 0, 0, 40.0F};
    large.forward();
    gradients(large, five());
    for (const double number : large.results()) CHECK(std::isfinite(number));
  }
}

TEST_CASE("five products: with fewer heads of k than of q, seven take their place") {
  Random random{55};
  for (const DType dtype : narrow_types) {
    Attention t{random_groups(random, 70), dtype, random};
    const std::string what = named(t);
    CAPTURE(what);
    t.forward();
    CHECK(gradients(t, five()) == gradients(t, seven()));
  }
}

TEST_CASE("another number of products is refused") {
  CHECK_THROWS_WITH_AS(made_with("six"),
                       "LOCKSTEP_ATTENTION_BACKWARD is \"six\"; the backward pass of attention has "
                       "\"seven\" matrix products (the default) or \"five\"",
                       std::invalid_argument);
}
