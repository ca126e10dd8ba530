#include "tests/model/checkpoint_files.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("a corrupted file gives one line that says what is wrong, and nothing is read") {
  CorruptFile file;
  SUBCASE("absent") {
    std::filesystem::remove(file.path);
    CHECK(contains(file.message_of_file(), "no such file"));
  }
  SUBCASE("a folder") {
    std::filesystem::remove(file.path);
    std::filesystem::create_directory(file.path);
    CHECK(contains(file.message_of_file(), "is not a file"));
  }
  SUBCASE("too short for a length") {
    spill(file.path, "abc");
    CHECK(contains(file.message_of_file(), "3 bytes"));
  }
  SUBCASE("empty") {
    spill(file.path, "");
    CHECK(contains(file.message_of_file(), "0 bytes"));
  }
  SUBCASE("a header length above the limit") {
    spill(file.path, std::string(8, '\xff') + "{}");
    CHECK(contains(file.message_of_file(), "the limit is 100000000"));
  }
  SUBCASE("truncated in the header") {
    const std::string text = slurp(file.path);
    spill(file.path, text.substr(0, 100));
    CHECK(contains(file.message_of_file(), "truncated"));
  }
  SUBCASE("truncated in the data") {
    const std::string text = slurp(file.path);
    spill(file.path, text.substr(0, text.size() - 1));
    CHECK(contains(file.message_of_file(), "outside"));
  }
  SUBCASE("not JSON") {
    spill(file.path, with_length("{\"a\": nonsense", file.data));
    CHECK(contains(file.message_of_file(),
                   "header is damaged: line 1: expected null, found nonsense"));
  }
  SUBCASE("not an object") {
    spill(file.path, with_length("[1, 2]", file.data));
    CHECK(contains(file.message_of_file(), "header is damaged: a list is not an object"));
  }
  SUBCASE("a tensor without offsets") {
    file["ln_f.bias"].erase("data_offsets");
    CHECK(contains(file.message(), "'transformer.ln_f.bias' has no 'data_offsets'"));
  }
  SUBCASE("a tensor that is a number") {
    file["ln_f.bias"] = 3;
    CHECK(contains(file.message(), "'transformer.ln_f.bias': 3 is not an object"));
  }
  SUBCASE("offsets that are negative") {
    file["ln_f.bias"]["data_offsets"] = {-32, 0};
    CHECK(contains(file.message(), "ln_f.bias.data_offsets': -32 is not a whole number"));
  }
  SUBCASE("offsets backwards") {
    file["ln_f.bias"]["data_offsets"] = {64, 32};
    CHECK(contains(file.message(), "ln_f.bias: its data at [64, 32)"));
  }
  SUBCASE("offsets outside") {
    file["ln_f.bias"]["data_offsets"] = {1u << 20, (1u << 20) + 32};
    CHECK(contains(file.message(), "outside"));
  }
  SUBCASE("data that do not fit the shape") {
    const auto begin = file["ln_f.bias"]["data_offsets"][0].get<std::uint64_t>();
    file["ln_f.bias"]["data_offsets"] = {begin, begin + 28};
    CHECK(contains(file.message(), "ln_f.bias: 28 bytes of data do not match F32 of shape [8]"));
  }
  SUBCASE("a shape whose product overflows to what fits") {
    // 2^62 * 4 + 32 bytes wraps around to 32 in 64 bits.
    file["ln_f.bias"]["shape"] = {(std::int64_t{1} << 62) + 8};
    CHECK(contains(file.message(), "do not match"));
  }
  SUBCASE("a negative extent") {
    file["ln_f.bias"]["shape"] = {-8};
    CHECK(contains(file.message(), "ln_f.bias.shape': -8 is not a whole number"));
  }
  SUBCASE("a shape that is no whole number") {
    file["ln_f.bias"]["shape"] = {8.5};
    CHECK(contains(file.message(), "ln_f.bias.shape': 8.5 is not a whole number"));
  }
  SUBCASE("tensors that overlap") {
    file["ln_f.bias"]["data_offsets"] = file["ln_f.weight"]["data_offsets"];
    const std::string text = file.message();
    CHECK(contains(text, "overlap"));
    CHECK(contains(text, "ln_f.bias"));
    CHECK(contains(text, "ln_f.weight"));
  }
  SUBCASE("bytes after the last tensor") {
    file.data += std::string(12, '\0');
    CHECK(contains(file.message(), "12 bytes after its last tensor belong to no tensor"));
  }
  SUBCASE("bytes between tensors") {
    file.header.erase("transformer.h.0.mlp.c_fc.bias");
    CHECK(contains(file.message(), "128 bytes before tensor transformer.h.0."));
    CHECK(contains(file.message(), "belong to no tensor"));
  }
  SUBCASE("an unknown dtype") {
    file["ln_f.bias"]["dtype"] = "F31";
    CHECK(contains(file.message(), "ln_f.bias: unknown dtype F31"));
  }
  SUBCASE("another dtype") {
    file["ln_f.bias"]["dtype"] = "I32";
    CHECK(contains(file.message(), "ln_f.bias is I32, not F32"));
  }
  SUBCASE("another shape") {
    file["ln_f.bias"]["shape"] = {2, 4};
    CHECK(contains(file.message(), "ln_f.bias has shape [2, 4], not [8]"));
  }
  SUBCASE("a missing tensor") {
    const auto gone = file["h.0.mlp.c_fc.bias"]["data_offsets"].get<std::vector<std::uint64_t>>();
    file.header.erase("transformer.h.0.mlp.c_fc.bias");
    for (auto& entry : file.header)
      if (entry.contains("data_offsets") && entry["data_offsets"][0] >= gone[1])
        for (auto& offset : entry["data_offsets"])
          offset = offset.get<std::uint64_t>() - (gone[1] - gone[0]);
    file.data.erase(gone[0], gone[1] - gone[0]);
    CHECK(contains(file.message(), "transformer.h.0.mlp.c_fc.bias is missing"));
  }
  SUBCASE("an unknown tensor") {
    file["h.0.extra"] = {{"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
    CHECK(contains(file.message(), "h.0.extra is not a parameter of this model"));
  }
  SUBCASE("a tensor under both its names") {
    file.header["h.0.ln_1.bias"] = {{"dtype", "F32"},
                                    {"shape", {8}},
                                    {"data_offsets", {file.data.size(), file.data.size() + 32}}};
    file.data += std::string(32, '\0');
    CHECK(contains(file.message(), "appears twice"));
  }
  SUBCASE("a name over several lines") {
    file.header["a\nb"] = {{"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
    CHECK(contains(file.message(), "control characters"));
  }
  SUBCASE("a file of another configuration") {
    GptConfig wider = tiny(false);
    wider.hidden = 16;
    const std::string text = file.message(wider);
    CHECK(contains(text, "has shape"));
    CHECK(contains(text, "--hidden 16"));
    GptConfig deeper = tiny(false);
    deeper.layers = 2;
    CHECK(contains(file.message(deeper), "transformer.h.1.ln_1.weight is missing"));
  }
  SUBCASE("a tied file for an untied model") {
    const std::size_t begin = file.header["lm_head.weight"]["data_offsets"][0];
    const std::size_t end = file.header["lm_head.weight"]["data_offsets"][1];
    file.header.erase("lm_head.weight");
    file.data.erase(begin, end - begin);
    for (auto& [name, entry] : file.header.items())
      if (name != "__metadata__" && entry["data_offsets"][0] >= end)
        for (auto& offset : entry["data_offsets"])
          offset = offset.get<std::size_t>() - (end - begin);
    const std::string text = file.message();
    CHECK(contains(text, "lm_head.weight is missing"));
    CHECK(contains(text, "an untied head"));
  }
}

TEST_CASE("random damage never does worse than a UsageError") {
  CorruptFile file;
  const std::string good = slurp(file.path);
  std::mt19937 random{13};
  Model model{tiny(false)};
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips)
      bad[random() % 2000] = static_cast<char>(random());
    if (random() % 4 == 0) bad.resize(random() % bad.size());
    spill(file.path, bad);
    try {
      model.load(file.path);
    } catch (const UsageError&) {
    }
  }
}
