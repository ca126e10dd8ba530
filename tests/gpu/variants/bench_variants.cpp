// Measures the variants against the kernels in use, in turn, on random data. Prints lines "variant
// NAME: VALUE UNIT"; README.md says what they mean.
//
//   bench_variants [--tiny] [--rounds N] PART...
//
// The parts are attention, epilogues, layernorm, head and errors; without one, all of them.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_kernels.h"
#include "tests/gpu/variants/attention_hopper.h"
#include "tests/gpu/variants/epilogues.h"
#include "tests/gpu/variants/layernorm_rows.h"
#include "tests/gpu/variants/measure.h"

using namespace lockstep;
using variants::Arrays, variants::Epilogue, variants::FusedProduct, variants::values_of,
    variants::Way;
using Doubles = std::vector<double>;

namespace {

struct Settings {
  bool tiny = false;
  int rounds = 7;
  double sample_milliseconds = 60;
};

bool compare(const Settings& settings, const std::string& title, const std::vector<Way>& ways) {
  return variants::compare(title, ways, settings.rounds, settings.sample_milliseconds);
}

double product(std::initializer_list<std::int64_t> factors) {
  double result = 1.0;
  for (const std::int64_t factor : factors) result *= static_cast<double>(factor);
  return result;
}

// -- attention ------------------------------------------------------------------------------------

/// FLOPs as everywhere in Lockstep: 4 s² d per head forward and 10 backward, half if causal.
bool attention(const Settings& settings, const Kernels& in_use, std::int64_t b, std::int64_t s,
               int heads, std::int64_t d, bool causal) {
  Arrays gpu;
  const std::int64_t h = heads * d;
  const View qkv = gpu.random({b, s, 3 * h}, DType::bf16), none;
  const View q = qkv.columns(0, h), k = qkv.columns(h, h), v = qkv.columns(2 * h, h);
  const View dqkv = gpu.random({b, s, 3 * h}, DType::bf16);
  const View y = gpu.random({b, s, h}, DType::bf16), dy = gpu.random({b, s, h}, DType::bf16);
  const View lse = gpu.random({b, heads, s}, DType::f32);
  const double flops = product({4, b, s, s, h}) / (causal ? 2 : 1);
  std::vector<std::pair<std::string, Kernels>> all;
  if (causal) all.emplace_back("in use", in_use);
  for (const int groups : {2, 3}) {
    all.emplace_back("Hopper, " + std::to_string(groups) + " warpgroups", in_use);
    cuda::hopper::use_attention(all.back().second, causal, groups);
  }
  std::vector<Way> forward, backward;
  for (const auto& [name, kernels] : all) {
    forward.push_back({name,
                       [=, &kernels = kernels](Queue queue) {
                         kernels.attention_forward(queue, q, k, v, heads, y, lse, none);
                       },
                       flops});
    backward.push_back({name,
                        [=, &kernels = kernels](Queue queue) {
                          kernels.attention_backward(queue, dy, q, k, v, y, lse, none, heads,
                                                     dqkv.columns(0, h), dqkv.columns(h, h),
                                                     dqkv.columns(2 * h, h));
                        },
                        2.5 * flops});
  }
  const std::string shape = ", b " + std::to_string(b) + ", s " + std::to_string(s) + ", d " +
                            std::to_string(d) + (causal ? "" : ", not causal");
  const bool first = compare(settings, "attention forward" + shape, forward);
  return compare(settings, "attention backward" + shape, backward) && first;
}

bool attention(const Settings& settings, const Kernels& in_use) {
  if (settings.tiny) return attention(settings, in_use, 1, 70, 2, 64, true);
  bool ok = attention(settings, in_use, 32, 1024, 12, 64, true);
  ok = attention(settings, in_use, 4, 4096, 12, 64, true) && ok;
  ok = attention(settings, in_use, 32, 1024, 6, 128, true) && ok;
  ok = attention(settings, in_use, 4, 4096, 6, 128, true) && ok;
  return attention(settings, in_use, 4, 4096, 12, 64, false) && ok;
}

// -- cuBLASLt's epilogues -------------------------------------------------------------------------

/// The arrays around GPT-2's GELU: u = x w + bias, g = gelu(u), du = gelu'(u) * (dz w2ᵀ), dw += xᵀ
/// du, db += the column sums of du. x is (rows, h), u (rows, f), dz (rows, h), w2 (f, h).
struct Mlp {
  std::int64_t rows, h, f;
  Arrays gpu;
  View x, w, bias, u, g, dz, w2, dg, du, dw, db, db_scratch;

  Mlp(std::int64_t rows_, std::int64_t h_, std::int64_t f_) : rows(rows_), h(h_), f(f_) {
    const auto deviation = static_cast<float>(1.0 / std::sqrt(static_cast<double>(h)));
    x = gpu.random({rows, h}, DType::bf16), w = gpu.random({h, f}, DType::bf16, deviation);
    bias = gpu.random({f}, DType::bf16), u = gpu.random({rows, f}, DType::bf16);
    g = gpu.random({rows, f}, DType::bf16), dz = gpu.random({rows, h}, DType::bf16);
    w2 = gpu.random({f, h}, DType::bf16, deviation), dg = gpu.random({rows, f}, DType::bf16);
    du = gpu.random({rows, f}, DType::bf16), dw = gpu.zeros({h, f}, DType::bf16);
    db = gpu.zeros({f}, DType::bf16), db_scratch = gpu.zeros({f}, DType::bf16);
  }
};

/// A product with an epilogue, created at its first use, so that a refusal of cuBLASLt costs only
/// this way.
std::function<void(Queue)> fused(cuda::Factor a, cuda::Factor b, View d, bool accumulates,
                                 const Epilogue& epilogue) {
  const auto made = std::make_shared<std::unique_ptr<FusedProduct>>();
  return [=](Queue queue) {
    if (!*made) *made = std::make_unique<FusedProduct>(a, b, d, accumulates, epilogue);
    (*made)->run(queue);
  };
}

/// The ways of each of three steps, the ones in use first.
std::map<std::string, std::vector<Way>> steps(const Mlp& t, const Kernels& k) {
  const double flops = product({2, t.rows, t.h, t.f});
  const auto gelu = fused({t.x}, {t.w}, t.g, false, {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, t.bias, t.u});
  const auto dgelu = fused({t.dz}, {t.w2, true}, t.du, false, {CUBLASLT_EPILOGUE_DGELU, {}, t.u});
  const auto dgelu_sums =
      fused({t.dz}, {t.w2, true}, t.du, false, {CUBLASLT_EPILOGUE_DGELU_BGRAD, t.db_scratch, t.u});
  const auto sums =
      fused({t.x, true}, {t.du}, t.dw, true, {variants::sums_of_right, t.db_scratch, {}});
  const auto add_sums = [&k, &t](Queue queue) { k.add(queue, t.db, t.db_scratch, t.db); };
  const View none;
  return {{"gelu",
           {{"in use",
             [&, none](Queue queue) {
               k.linear_forward(queue, t.x, t.w, t.bias, t.u, WeightLayout::in_out);
               k.gelu_forward(queue, t.u, t.g);
             },
             flops},
            {"GELU_AUX_BIAS", gelu, flops}}},
          {"dgelu",
           {{"in use",
             [&](Queue queue) {
               k.linear_backward_input(queue, t.dz, t.w2, t.dg, WeightLayout::in_out);
               k.gelu_backward(queue, t.u, t.dg, t.du);
             },
             flops},
            {"DGELU", dgelu, flops}}},
          {"bias gradient",
           {{"in use",
             [&](Queue queue) {
               k.linear_backward_weight(queue, t.x, t.du, t.dw, t.db, WeightLayout::in_out);
             },
             flops},
            {"BGRADA and an addition", [=](Queue queue) { sums(queue), add_sums(queue); }, flops}}},
          {"dgelu and bias gradient",
           {{"in use",
             [&](Queue queue) {
               k.linear_backward_input(queue, t.dz, t.w2, t.dg, WeightLayout::in_out);
               k.gelu_backward(queue, t.u, t.dg, t.du);
               k.linear_backward_weight(queue, t.x, t.du, t.dw, t.db, WeightLayout::in_out);
             },
             2 * flops},
            {"DGELU_BGRAD and an addition",
             [=, &k, &t](Queue queue) {
               dgelu_sums(queue), add_sums(queue);
               k.linear_backward_weight(queue, t.x, t.du, t.dw, none, WeightLayout::in_out);
             },
             2 * flops}}}};
}

bool epilogues(const Settings& settings, const Kernels& in_use) {
  bool ok = true;
  const Mlp t(settings.tiny ? 64 : 32768, settings.tiny ? 16 : 768, settings.tiny ? 32 : 3072);
  for (const auto& [step, ways] : steps(t, in_use))
    ok = compare(settings, "epilogues, " + step, ways) && ok;
  return ok;
}

/// ‖a − b‖₂ / ‖b‖₂
double error(const Doubles& a, const Doubles& b) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

/// Prints and checks the error of each way, against double precision, on a small shape. u, of which
/// both ways compute the derivative, is that of the way.
bool errors(const Kernels& in_use) {
  const Mlp t(256, 64, 128);
  const auto index = [](std::int64_t row, std::int64_t columns, std::int64_t column) {
    return static_cast<std::size_t>(row * columns + column);
  };
  const Doubles x = values_of(t.x), w = values_of(t.w), bias = values_of(t.bias);
  const Doubles dz = values_of(t.dz), w2 = values_of(t.w2);
  const double slope = std::sqrt(2.0 / M_PI);
  bool ok = true;
  constexpr double allowed = 1e-2;  // each result is rounded to 8 bits once or twice
  const auto report = [&](const std::string& name, const Doubles& got, const Doubles& want) {
    const double value = error(got, want);
    variants::print(name, value, "of the norm");
    ok = ok && value < allowed;
  };
  for (const auto& [step, ways] : steps(t, in_use))
    for (const Way& way : ways) {
      const std::string name = "epilogues, " + step + ", " + way.name + ", error of ";
      try {
        in_use.fill({}, {t.dw, t.db}, 0.0F);
        way.run({});
        if (step == "gelu") {
          Doubles want_u(static_cast<std::size_t>(t.rows * t.f)), want_g = want_u;
          for (std::int64_t i = 0; i < t.rows; ++i)
            for (std::int64_t j = 0; j < t.f; ++j) {
              double u = bias[static_cast<std::size_t>(j)];
              for (std::int64_t c = 0; c < t.h; ++c) u += x[index(i, t.h, c)] * w[index(c, t.f, j)];
              want_u[index(i, t.f, j)] = u;
              want_g[index(i, t.f, j)] =
                  0.5 * u * (1.0 + std::tanh(slope * (u + 0.044715 * u * u * u)));
            }
          report(name + "u", values_of(t.u), want_u);
          report(name + "gelu(u)", values_of(t.g), want_g);
          continue;
        }
        const Doubles u_now = values_of(t.u), du_now = values_of(t.du);
        Doubles want_du(static_cast<std::size_t>(t.rows * t.f));
        Doubles want_db(static_cast<std::size_t>(t.f));
        for (std::int64_t i = 0; i < t.rows; ++i)
          for (std::int64_t j = 0; j < t.f; ++j) {
            double dg = 0.0;
            for (std::int64_t c = 0; c < t.h; ++c)
              dg += dz[index(i, t.h, c)] * w2[index(j, t.h, c)];
            const double u = u_now[index(i, t.f, j)];
            const double tanh = std::tanh(slope * (u + 0.044715 * u * u * u));
            want_du[index(i, t.f, j)] =
                dg * (0.5 * (1.0 + tanh) +
                      0.5 * u * (1.0 - tanh * tanh) * slope * (1.0 + 3.0 * 0.044715 * u * u));
            want_db[static_cast<std::size_t>(j)] += du_now[index(i, t.f, j)];
          }
        if (step != "bias gradient") report(name + "du", du_now, want_du);
        if (step != "dgelu")
          report(name + "db, against the sums of its du", values_of(t.db), want_db);
      } catch (const std::exception& refused) {
        std::printf("variant %s failed: %s\n", name.c_str(), refused.what());
        ok = false;
      }
    }
  return ok;
}

// -- LayerNorm ------------------------------------------------------------------------------------

/// Four times the rows of a training step, so that arrays do not stay in the L2 cache.
bool layernorm(const Settings& settings, const Kernels& in_use) {
  const std::int64_t rows = settings.tiny ? 70 : 4 * 32768, h = settings.tiny ? 64 : 768;
  Arrays gpu;
  const View x = gpu.random({rows, h}, DType::bf16), dy = gpu.random({rows, h}, DType::bf16);
  const View other = gpu.random({rows, h}, DType::bf16), y = gpu.random({rows, h}, DType::bf16);
  const View gain = gpu.random({h}, DType::bf16), bias = gpu.random({h}, DType::bf16);
  const View dgain = gpu.zeros({h}, DType::bf16), dbias = gpu.zeros({h}, DType::bf16);
  const View mean = gpu.zeros({rows}, DType::f32), rstd = gpu.zeros({rows}, DType::f32);
  const auto bytes = [&](std::int64_t arrays) { return 1e3 * product({arrays, rows, h, 2}); };
  const auto way = [](const std::string& name, std::function<void(Queue)> run, double work) {
    return Way{name, std::move(run), work, "GB/s, of the bytes that are needed"};
  };
  const bool first = compare(
      settings, "layernorm forward",
      {way(
           "in use", [&](Queue q) { in_use.layernorm_forward(q, x, gain, bias, y, mean, rstd); },
           bytes(2)),
       way(
           "four rows a block",
           [&](Queue q) { cuda::layernorm_forward_four_rows(q, x, gain, bias, y, mean, rstd); },
           bytes(2)),
       way(
           "a copy", [&](Queue q) { in_use.copy(q, x, y); }, bytes(2))});
  return compare(settings, "layernorm backward with an addition",
                 {way(
                      "in use",
                      [&](Queue q) {
                        in_use.layernorm_backward_input_add(q, dy, x, gain, mean, rstd, other, y);
                        in_use.layernorm_backward_weight(q, dy, x, mean, rstd, dgain, dbias);
                      },
                      bytes(4)),
                  way(
                      "one pass",
                      [&](Queue q) {
                        cuda::layernorm_backward_one_pass(q, dy, x, gain, mean, rstd, other, y,
                                                          dgain, dbias);
                      },
                      bytes(4))}) &&
         first;
}

// -- the head -------------------------------------------------------------------------------------

/// The head's three products with GPT-2's vocabulary, in two parts each, and with a table that is
/// padded to a multiple of 8 or 128 rows, in one. Rows of logits begin at multiples of 16 bytes.
bool head(const Settings& settings, const Kernels& in_use) {
  const std::int64_t rows = settings.tiny ? 8 : 32768, h = settings.tiny ? 16 : 768;
  const std::int64_t vocabulary = settings.tiny ? 1025 : 50257;
  std::vector<Way> forward, input, weight;
  std::vector<std::unique_ptr<Arrays>> gpu;
  const View x = gpu.emplace_back(std::make_unique<Arrays>())->random({rows, h}, DType::bf16);
  const View dx = gpu.back()->random({rows, h}, DType::bf16), none;
  const View logits = gpu.back()->random({rows, (vocabulary + 127) / 128 * 128}, DType::bf16);
  const double flops = product({2, rows, h, vocabulary});
  for (const std::int64_t multiple : {1, 8, 128}) {
    const std::int64_t padded = (vocabulary + multiple - 1) / multiple * multiple;
    const std::string name =
        multiple == 1 ? "in use, two parts" : "padded to " + std::to_string(padded);
    const View table = gpu.back()->random({padded, h}, DType::bf16, 0.02F);
    const View gradient = gpu.back()->zeros({padded, h}, DType::bf16);
    const View y = logits.columns(0, padded);
    constexpr WeightLayout layout = WeightLayout::out_in;
    forward.push_back(
        {name, [=, &in_use](Queue q) { in_use.linear_forward(q, x, table, none, y, layout); },
         flops});
    input.push_back(
        {name, [=, &in_use](Queue q) { in_use.linear_backward_input(q, y, table, dx, layout); },
         flops});
    weight.push_back(
        {name,
         [=, &in_use](Queue q) { in_use.linear_backward_weight(q, x, y, gradient, none, layout); },
         flops});
  }
  bool ok = compare(settings, "head, logits", forward);
  ok = compare(settings, "head, dx", input) && ok;
  return compare(settings, "head, dtable", weight) && ok;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  std::vector<std::string> parts;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--tiny")
      settings.tiny = true, settings.rounds = 1, settings.sample_milliseconds = 0;
    else if (word == "--rounds" && i + 1 < argc)
      settings.rounds = std::max(1, std::atoi(argv[++i]));
    else
      parts.push_back(word);
  }
  if (parts.empty()) parts = {"errors", "attention", "epilogues", "layernorm", "head"};
  try {
    const Kernels in_use = make_cuda_kernels();
    const std::map<std::string, std::function<bool()>> all{
        {"errors", [&] { return errors(in_use); }},
        {"attention", [&] { return attention(settings, in_use); }},
        {"epilogues", [&] { return epilogues(settings, in_use); }},
        {"layernorm", [&] { return layernorm(settings, in_use); }},
        {"head", [&] { return head(settings, in_use); }}};
    bool ok = true;
    for (const std::string& part : parts) {
      if (!all.contains(part)) {
        std::fprintf(stderr, "bench_variants: there is no part '%s'\n", part.c_str());
        return 2;
      }
      ok = all.at(part)() && ok;
    }
    return ok ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_variants: %s\n", error.what());
    return 1;
  }
}
