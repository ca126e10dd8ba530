#include <doctest/doctest.h>

#include <string>
#include <type_traits>

#include "kernels/cuda/attention_problem.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/ladder/layernorm.h"
#include "kernels/every_kernel.h"
#include "tests/gpu/ptx_kernels.h"

// Tests a build that omits every kernel file (cmake/LeftOut.cmake).

using namespace lockstep;

namespace {

template <class... Arguments>
void call(const Kernel<void(Arguments...)>& kernel) {
  kernel(std::remove_cvref_t<Arguments>{}...);
}

std::string left_out(const std::string& name, const std::string& file) {
  return "this build left out " + name + ": it was made without " + file +
         " (LOCKSTEP_LEAVE_OUT_KERNELS)";
}

}  // namespace

TEST_CASE("a kernel that was left out throws and names its file") {
  const Kernels kernels = make_cuda_kernels();
  CHECK_THROWS_WITH(call(kernels.gelu_backward),
                    left_out("gelu_backward", "kernels/cuda/gelu.cu").c_str());
  CHECK_THROWS_WITH(call(kernels.linear_forward),
                    left_out("linear_forward", "kernels/cuda/linear.cu").c_str());
  CHECK_THROWS_WITH(cuda::attention_merge({}, {}, {}, {}, 0, {}, {}),
                    left_out("attention_merge", "kernels/cuda/attention_block_forward.cu").c_str());
  CHECK_THROWS_WITH(cuda::layernorm_ladder(),
                    left_out("layernorm_ladder", "kernels/cuda/ladder/layernorm.cu").c_str());
  CHECK_THROWS_WITH(testing::ldmatrix({}, false),
                    left_out("ldmatrix", "tests/gpu/ptx_kernels.cu").c_str());
}

TEST_CASE("every kernel and every fusion is there, and throws") {
  const Kernels kernels = make_cuda_kernels();
  const auto throws = [&](const std::string& name, auto member) {
    CAPTURE(name);
    REQUIRE(kernels.*member);
    // The replacements of attention are called after its checks of the arguments.
    if (!name.starts_with("attention"))
      CHECK_THROWS_WITH_AS(call(kernels.*member),
                           doctest::Contains(("this build left out " + name).c_str()),
                           std::runtime_error);
  };
  for_each_kernel(throws);
  for_each_fusion(throws);
}
