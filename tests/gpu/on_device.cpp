#include "tests/gpu/on_device.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/cuda/cuda_kernels.h"
#include "tests/kernels/support.h"

namespace lockstep::testing {
namespace {

/// The host memory that a call may touch, [begin, end), and its copy on the GPU between two
/// margins.
struct Region {
  std::byte *begin, *end;
  std::byte* device = nullptr;  // start of the allocation
  std::size_t first = 0;        // offset of `begin` in it
  /// The margin's fill byte: a large number in every type, and different in each region, so results
  /// computed from one margin do not match another by chance. (NaN would stay NaN.)
  std::byte poison{};

  static constexpr std::size_t margin = 512, alignment = 256;
  std::size_t bytes() const { return static_cast<std::size_t>(end - begin); }
  std::size_t allocated() const { return first + bytes() + margin; }
};

/// Makes a kernel's views refer to the GPU until finish().
class Transfer {
 public:
  explicit Transfer(std::initializer_list<View*> views) {
    LOCKSTEP_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (const View* view : views) add(*view);
    merge();
    for (Region& region : regions_) upload(region);
    for (View* view : views)
      for (const Region& region : regions_)
        if (auto* data = static_cast<std::byte*>(view->data);
            data != nullptr && data >= region.begin && data < region.end) {
          view->data = region.device + region.first + (data - region.begin);
          break;
        }
  }
  ~Transfer() {
    for (const Region& region : regions_) static_cast<void>(cudaFreeAsync(region.device, stream_));
    static_cast<void>(cudaStreamSynchronize(stream_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  Queue queue() const { return {stream_}; }

  void finish() {
    for (const Region& region : regions_) {
      std::vector<std::byte> copy(region.allocated());
      LOCKSTEP_CUDA(cudaMemcpyAsync(copy.data(), region.device, copy.size(), cudaMemcpyDeviceToHost,
                                    stream_));
      LOCKSTEP_CUDA(cudaStreamSynchronize(stream_));
      for (std::size_t i = 0; i < copy.size(); ++i)
        if ((i < region.first || i >= region.first + region.bytes()) && copy[i] != region.poison)
          throw std::logic_error(fmt::format(
              "a kernel wrote {} bytes {} its arguments",
              i < region.first ? region.first - i : i - region.first - region.bytes() + 1,
              i < region.first ? "before" : "past"));
      // Read-only arguments may be shared with another thread.
      if (std::memcmp(region.begin, copy.data() + region.first, region.bytes()) != 0)
        std::memcpy(region.begin, copy.data() + region.first, region.bytes());
    }
  }

 private:
  void add(const View& view) {
    if (view.data == nullptr || view.elements() == 0) return;
    const std::int64_t elements =
        (view.shape.rows() - 1) * std::max<std::int64_t>(view.row_stride, 0) + view.shape.last();
    auto* const data = static_cast<std::byte*>(view.data);
    regions_.push_back({data, data + static_cast<std::size_t>(elements) * size_of(view.dtype)});
  }

  void merge() {
    std::sort(regions_.begin(), regions_.end(),
              [](const Region& a, const Region& b) { return a.begin < b.begin; });
    std::vector<Region> merged;
    for (const Region& region : regions_)
      if (!merged.empty() && region.begin < merged.back().end)
        merged.back().end = std::max(merged.back().end, region.end);
      else
        merged.push_back(region);
    regions_ = merged;
  }

  void upload(Region& region) {
    region.first =
        Region::margin + reinterpret_cast<std::uintptr_t>(region.begin) % Region::alignment;
    void* device = nullptr;
    LOCKSTEP_CUDA(cudaMallocAsync(&device, region.allocated(), stream_));
    region.device = static_cast<std::byte*>(device);
    region.poison = static_cast<std::byte>(0xf1 + (&region - regions_.data()) % 10);
    std::vector<std::byte> copy(region.allocated(), region.poison);
    std::memcpy(copy.data() + region.first, region.begin, region.bytes());
    LOCKSTEP_CUDA(
        cudaMemcpyAsync(region.device, copy.data(), copy.size(), cudaMemcpyHostToDevice, stream_));
    LOCKSTEP_CUDA(cudaStreamSynchronize(stream_));
  }

  cudaStream_t stream_ = nullptr;
  std::vector<Region> regions_;
};

/// Copies the arguments to the GPU, runs the call, and copies them back.
template <class Call>
auto run(std::initializer_list<View*> views, Call call) {
  Transfer transfer(views);
  if constexpr (std::is_void_v<decltype(call(Queue{}))>) {
    call(transfer.queue());
    transfer.finish();
  } else {
    const auto result = call(transfer.queue());
    transfer.finish();
    return result;
  }
}

class OnDevice final : public Kernels {
 public:
  explicit OnDevice(std::unique_ptr<Kernels> kernels) : k_(std::move(kernels)) {}

  void linear_forward(Queue, View x, View w, View bias, View y, WeightLayout l) const override {
    run({&x, &w, &bias, &y}, [&](Queue q) { k_->linear_forward(q, x, w, bias, y, l); });
  }
  void linear_backward_input(Queue, View dy, View w, View dx, WeightLayout l) const override {
    run({&dy, &w, &dx}, [&](Queue q) { k_->linear_backward_input(q, dy, w, dx, l); });
  }
  void linear_backward_weight(Queue, View x, View dy, View dw, View db,
                              WeightLayout l) const override {
    run({&x, &dy, &dw, &db}, [&](Queue q) { k_->linear_backward_weight(q, x, dy, dw, db, l); });
  }
  void layernorm_forward(Queue, View x, View gain, View bias, View y, View mean,
                         View rstd) const override {
    run({&x, &gain, &bias, &y, &mean, &rstd},
        [&](Queue q) { k_->layernorm_forward(q, x, gain, bias, y, mean, rstd); });
  }
  void layernorm_backward_input(Queue, View dy, View x, View gain, View mean, View rstd,
                                View dx) const override {
    run({&dy, &x, &gain, &mean, &rstd, &dx},
        [&](Queue q) { k_->layernorm_backward_input(q, dy, x, gain, mean, rstd, dx); });
  }
  void layernorm_backward_weight(Queue, View dy, View x, View mean, View rstd, View dgain,
                                 View dbias) const override {
    run({&dy, &x, &mean, &rstd, &dgain, &dbias},
        [&](Queue q) { k_->layernorm_backward_weight(q, dy, x, mean, rstd, dgain, dbias); });
  }
  void gelu_forward(Queue, View x, View y) const override {
    run({&x, &y}, [&](Queue q) { k_->gelu_forward(q, x, y); });
  }
  void gelu_backward(Queue, View x, View dy, View dx) const override {
    run({&x, &dy, &dx}, [&](Queue q) { k_->gelu_backward(q, x, dy, dx); });
  }
  void attention_forward(Queue, View q, View k, View v, int heads, View y, View lse,
                         View p) const override {
    run({&q, &k, &v, &y, &lse, &p},
        [&](Queue queue) { k_->attention_forward(queue, q, k, v, heads, y, lse, p); });
  }
  void attention_backward(Queue, View dy, View q, View k, View v, View y, View lse, View p,
                          int heads, View dq, View dk, View dv) const override {
    run({&dy, &q, &k, &v, &y, &lse, &p, &dq, &dk, &dv}, [&](Queue queue) {
      k_->attention_backward(queue, dy, q, k, v, y, lse, p, heads, dq, dk, dv);
    });
  }
  void embedding_forward(Queue, View tokens, View table, View positions, View x) const override {
    run({&tokens, &table, &positions, &x},
        [&](Queue q) { k_->embedding_forward(q, tokens, table, positions, x); });
  }
  void embedding_backward(Queue, View tokens, View dx, View table, View positions) const override {
    run({&tokens, &dx, &table, &positions},
        [&](Queue q) { k_->embedding_backward(q, tokens, dx, table, positions); });
  }
  void cross_entropy_forward(Queue, View logits, View targets, View losses,
                             View lse) const override {
    run({&logits, &targets, &losses, &lse},
        [&](Queue q) { k_->cross_entropy_forward(q, logits, targets, losses, lse); });
  }
  void cross_entropy_backward(Queue, View logits, View targets, View lse, float scale,
                              View dlogits) const override {
    run({&logits, &targets, &lse, &dlogits},
        [&](Queue q) { k_->cross_entropy_backward(q, logits, targets, lse, scale, dlogits); });
  }
  void add(Queue, View a, View b, View y) const override {
    run({&a, &b, &y}, [&](Queue q) { k_->add(q, a, b, y); });
  }
  void scale(Queue, View x, float factor) const override {
    run({&x}, [&](Queue q) { k_->scale(q, x, factor); });
  }
  void fill(Queue, View x, float value) const override {
    run({&x}, [&](Queue q) { k_->fill(q, x, value); });
  }
  void copy(Queue, View from, View to) const override {
    run({&from, &to}, [&](Queue q) { k_->copy(q, from, to); });
  }
  void convert(Queue, View from, View to) const override {
    run({&from, &to}, [&](Queue q) { k_->convert(q, from, to); });
  }
  void adamw(Queue, View parameter, View gradient, View momentum, View variance,
             const AdamWStep& step) const override {
    run({&parameter, &gradient, &momentum, &variance},
        [&](Queue q) { k_->adamw(q, parameter, gradient, momentum, variance, step); });
  }
  double sum_of_squares(Queue, View x) const override {
    return run({&x}, [&](Queue q) { return k_->sum_of_squares(q, x); });
  }
  bool finite(Queue, View x) const override {
    return run({&x}, [&](Queue q) { return k_->finite(q, x); });
  }
  double sum(Queue, View x) const override {
    return run({&x}, [&](Queue q) { return k_->sum(q, x); });
  }

 private:
  std::unique_ptr<Kernels> k_;
};

}  // namespace

std::unique_ptr<Kernels> on_device(std::unique_ptr<Kernels> kernels) {
  return std::make_unique<OnDevice>(std::move(kernels));
}

const Kernels& kernels() {
  static const auto kernels = [] {
    int devices = 0;
    if (const cudaError_t error = cudaGetDeviceCount(&devices);
        error != cudaSuccess || devices == 0) {
      std::fprintf(stderr, "There is no GPU here (%s), and this program tests its kernels.\n",
                   cudaGetErrorString(error));
      std::exit(2);
    }
    return on_device(make_cuda_kernels());
  }();
  return *kernels;
}

bool on_cpu() {
  return false;
}

}  // namespace lockstep::testing
