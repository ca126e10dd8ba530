#include "core/model/philox.h"

#include "tests/model/fixture.h"

using namespace lockstep;
using namespace lockstep::test;

using Counter = std::array<std::uint32_t, 4>;

TEST_CASE("Philox4x32-10 gives Random123's published answers") {
  // Known answers from Random123, examples/kat_vectors, philox4x32 10.
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("normal numbers have the moments of the normal distribution") {
  const RandomStream random{3, Purpose::initial_values, 5};
  const int blocks = 50000;
  double sum = 0, squares = 0, fourth = 0, neighbours = 0;
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const auto four = random.normals(block);
    neighbours += static_cast<double>(four[0]) * static_cast<double>(four[1]);
    for (float x : four) {
      const double wide = static_cast<double>(x);
      sum += wide;
      squares += wide * wide;
      fourth += wide * wide * wide * wide;
    }
  }
  const double n = 4.0 * blocks;
  CHECK(std::abs(sum / n) < 4 / std::sqrt(n));
  CHECK(std::abs(squares / n - 1) < 4 * std::sqrt(2 / n));
  CHECK(std::abs(neighbours / blocks) < 4 / std::sqrt(blocks));
  CHECK(std::abs(fourth / n - 3) < 4 * std::sqrt(96 / n));
}

TEST_CASE("any part of a matrix is filled with the values it has in the whole") {
  std::mt19937 random{4};
  const RandomStream stream{9, Purpose::initial_values, 2};
  for (int i = 0; i < 50; ++i) {
    const std::int64_t rows = 1 + random() % 9, columns = 1 + random() % 19;
    Floats whole(static_cast<std::size_t>(rows * columns));
    fill_normal({whole.data(), {rows, columns}}, stream, 0, 1, columns);
    const std::int64_t row = random() % static_cast<unsigned>(rows);
    const std::int64_t column = random() % static_cast<unsigned>(columns);
    const std::int64_t height = rows - row, width = columns - column;
    // Columns of a wider buffer, such as a shard of queries, keys and values.
    Floats part(static_cast<std::size_t>(height * (width + 3)), -7);
    const View wide{part.data(), {height, width + 3}};
    fill_normal(wide.columns(1, width), stream, 0, 1, columns, row, column);
    for (std::int64_t r = 0; r < height; ++r) {
      CHECK(part[static_cast<std::size_t>(r * (width + 3))] == -7);
      for (std::int64_t c = 0; c < width; ++c)
        CHECK(part[static_cast<std::size_t>(r * (width + 3) + 1 + c)] ==
              whole[static_cast<std::size_t>((row + r) * columns + column + c)]);
    }
  }
}

TEST_CASE(
    "initial values: GPT-2's deviations, the same for every split, different for other seeds") {
  GptConfig config{.layers = 4, .hidden = 48, .heads = 3, .sequence = 32, .vocabulary = 200};
  OneDevice one;
  const Gpt whole{config, one.device(), StageLayers::whole(config), 5};
  for (const Parameter* parameter : whole.parameters()) {
    double squares = 0;
    for (float x : floats(parameter->value))
      squares += static_cast<double>(x) * static_cast<double>(x);
    const double n = static_cast<double>(parameter->shape.elements());
    const double deviation = std::sqrt(squares / n);
    if (contains(parameter->name, "ln_") && parameter->name.ends_with("weight")) {
      CHECK(deviation == 1);
    } else if (parameter->name.ends_with("bias")) {
      CHECK(deviation == 0);
    } else {
      const double wanted =
          parameter->name.ends_with("c_proj.weight") ? 0.02 / std::sqrt(8.0) : 0.02;
      CHECK(std::abs(deviation / wanted - 1) < 4 / std::sqrt(2 * n));
    }
    CHECK(parameter->decay == (parameter->shape.rank() == 2));
    for (float x : floats(parameter->gradient)) CHECK(x == 0);
  }
  Stages stages{config, 4, 5};
  std::vector<Named> together;
  for (auto& stage : stages.models)
    for (Named& value : values(*stage)) together.push_back(value);
  CHECK(together == values(whole));

  const Gpt other{config, one.device(), StageLayers::whole(config), 6};
  CHECK_FALSE(values(other) == values(whole));
}
