// Checkpoints that no run writes: values out of range, duplicate keys, and files that are costly to
// read.
#include <fmt/format.h>
#include <sys/stat.h>

#include "core/model/checkpoint/model_file.h"
#include "tests/model/checkpoint_files.h"
#include "tests/model/sharded.h"

using namespace lockstep;
using namespace lockstep::test;
using lockstep::testing::complaint_of;
using lockstep::testing::unlike;

namespace {

/// A sharded checkpoint of a small model on one rank.
struct SmallCheckpoint {
  SmallCheckpoint() { REQUIRE(save_sharded(layout, path, {layout.plan, 5}) == ""); }
  /// Returns the error message from loading it with these words of its manifest replaced.
  std::string message_with(const std::string& from, const std::string& to) const {
    const std::string good = slurp(manifest);
    const std::size_t at = good.find(from);
    REQUIRE(at != std::string::npos);
    std::string changed = good;
    spill(manifest, changed.replace(at, from.size(), to));
    const std::string message = this->message();
    spill(manifest, good);
    return message;
  }
  std::string message() const {
    return complaint_of<UsageError>([&] {
      check_checkpoint_fits(path, layout.plan);
      trained_steps(path, layout.plan);
    });
  }

  TemporaryFolder folder;
  std::string path = folder / "run", manifest = path + "/manifest.json";
  Layout layout{tiny(true)};
};

/// Returns the text of a manifest with this object of files and this one of tensors.
std::string manifest_with(const std::string& files, const std::string& tensors) {
  return R"({"format":"lockstep checkpoint","version":2,"step":1,"files":{)" + files +
         R"(},"tensors":{)" + tensors + R"(},"moments":{}})";
}

const std::string one_file = R"("rank-00000-of-00001.safetensors":{"bytes":8})";
const std::string one_box =
    R"({"shape":[1],"boxes":[{"begin":[0],"extent":[1],"file":"rank-00000-of-00001.safetensors","crc32":"00000000"}]})";

/// Returns `count` members of an object, separated by commas; `%` in `member` stands for a number.
std::string members(int count, const std::string& member) {
  const std::size_t at = member.find('%');
  std::string text;
  for (int i = 0; i < count; ++i)
    text +=
        (i > 0 ? "," : "") + member.substr(0, at) + fmt::format("{:05}", i) + member.substr(at + 1);
  return text;
}

}  // namespace

TEST_CASE("a value of the manifest that can't be is named with its key") {
  const SmallCheckpoint saved;
  REQUIRE(saved.message() == "(nothing thrown)");
  const auto refused = [&](const std::string& from, const std::string& to,
                           const std::vector<std::string>& words) {
    std::vector<std::string> all{"--load " + saved.path, "manifest.json", "load another"};
    all.insert(all.end(), words.begin(), words.end());
    CAPTURE(to);
    CHECK(unlike(saved.message_with(from, to), all) == "");
  };
  const std::string text = slurp(saved.manifest);
  const auto value_of = [&](const std::string& key) {
    const std::size_t begin = text.find("\"" + key + "\": ");
    return text.substr(begin, text.find(',', begin) - begin);
  };
  const std::string step = value_of("step"), optimizer = value_of("optimizer_steps");
  for (const std::string wrong : {"-5", "9223372036854775807", "1.5", "null", "\"1\""})
    refused(step, "\"step\": " + wrong, {"'step': " + wrong + " is not a whole number from 0 to"});
  for (const std::string wrong : {"-1", "9223372036854775807"})
    refused(optimizer, "\"optimizer_steps\": " + wrong,
            {"'optimizer_steps': " + wrong + " is not"});
  refused(optimizer, "\"optimizer_steps\": 900000", {"900000 'optimizer_steps', but only"});
  refused(step, step + "," + step, {"has 'step' twice"});
  refused(step, "\"stop\": 3", {"has no 'step'"});
  refused("\"version\": 2", "\"version\": 3", {"'version': 3 is not"});
  const std::size_t crc = text.find("\"crc32\":\"", text.find("\"tensors\""));
  const std::string of_tensor = text.substr(crc, 18);
  for (const std::string wrong : {"", "0", "+1234567", "0x345678", "123456789", "zzzzzzzz"})
    refused(of_tensor, "\"crc32\":\"" + wrong + "\"",
            {"crc32': \"" + wrong + "\" is not a CRC-32 of eight hexadecimal digits"});
  const std::string of_config = text.substr(text.find("\"crc32\":\""), 18);
  refused(of_config, "\"crc32\":\"\"", {"'files.config.json.crc32': \"\" is not"});
  refused("\"files\": {", "\"files\": {\"config.json\":{\"bytes\":1,\"crc32\":\"00000000\"},",
          {"'files.config.json' is there twice"});
  refused("\"tensors\": {", "\"tensors\": {\"transformer.wte.weight\":" + one_box + ",",
          {"'tensors"});
  refused("\"begin\":[0", "\"begin\":[9223372036854775807", {"boxes that do not contain"});
  refused("\"format\"", "\"\\u001b[2J\": 1, \"format\": 1, \"f\"", {"'format': 1 is not a string"});
}

TEST_CASE("a tensor that is there twice is named") {
  CHECK(unlike(complaint_of<UsageError>([] {
                 parse_manifest(manifest_with(one_file, "\"a\":" + one_box + ",\"a\":" + one_box),
                                "run");
               }),
               {"'tensors' has 'a' twice"}) == "");
  CorruptFile file;
  spill(file.path, with_length(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)"
                               R"("a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
                               ""));
  CHECK(contains(file.message_of_file(), "has tensor a twice"));
}

TEST_CASE("moments that are missing do not start the optimizer afresh") {
  const SmallCheckpoint saved;
  const std::string text = slurp(saved.manifest);
  const std::string moments = text.substr(text.find("\"moments\": {"));
  CHECK(unlike(saved.message_with(moments, "\"moments\": {}}"),
               {"--load " + saved.path, "no tensors in 'moments'", "--freeze", "--export"}) == "");
}

TEST_CASE("a value of config.json that can't be is named, and the others are not dropped") {
  const TemporaryFolder folder;
  export_alone(Model{tiny(true)}, "--export", folder / "run");
  const std::string path = folder / "run/config.json";
  const nlohmann::json good = nlohmann::json::parse(slurp(path));
  const auto refused = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all{"--load " + folder / "run", "config.json"};
    all.insert(all.end(), words.begin(), words.end());
    CHECK(unlike(complaint_of<UsageError>([&] { described_model(folder / "run"); }), all) == "");
  };
  for (const char* key : {"n_layer", "n_embd", "n_head", "n_positions", "vocab_size"}) {
    for (const nlohmann::json& wrong :
         {nlohmann::json(0), nlohmann::json(-3), nlohmann::json("4"), nlohmann::json(2.5),
          nlohmann::json(nullptr), nlohmann::json(4294967296)}) {
      nlohmann::json other = good;
      other[key] = wrong;
      spill(path, other.dump());
      refused({"'" + std::string{key} + "': " + wrong.dump() + " is not a whole number from 1"});
    }
    nlohmann::json other = good;
    other.erase(key);
    spill(path, other.dump());
    CHECK_NOTHROW(described_model(folder / "run"));
  }
  spill(path, R"({"n_layer": 3})");
  CHECK(described_model(folder / "run") == ModelDescription{.layers = 3, .tied = true});
  spill(path, R"({"n_layer": 3, "n_layer": 4})");
  refused({"'n_layer' twice"});
  spill(path, R"({"n_layer": 3, "n_embd": 8, "n_head": 3, "n_positions": 4, "vocab_size": 9})");
  refused({"--heads 3", "3 equal heads"});
  spill(path, "[]");
  refused({"a list is not an object"});
  std::filesystem::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  refused({"is not a regular file"});
}

TEST_CASE("100,000 tensors, boxes or files in a manifest take no longer than their text") {
  constexpr int many = 100'000;
  const std::string tensors = members(many, "\"t%\":" + one_box);
  CHECK(parse_manifest(manifest_with(one_file, tensors), "run").tensors.size() == many);
  const std::string files =
      members(many, R"("rank-%-of-99999.safetensors":{"bytes":8})") + "," + one_file;
  CHECK(parse_manifest(manifest_with(files, "\"t\":" + one_box), "run").files.size() == many + 1);
  // Uses columns, so that all boxes have the same rows.
  std::string boxes;
  for (int i = 0; i < many; ++i)
    boxes += fmt::format(
        R"({}{{"begin":[0,{}],"extent":[9,1],"file":"rank-00000-of-00001.safetensors","crc32":"00000000"}})",
        i > 0 ? "," : "", i);
  const std::string table = fmt::format(R"("t":{{"shape":[9,{}],"boxes":[{}]}})", many, boxes);
  CHECK(parse_manifest(manifest_with(one_file, table), "run").tensors.front().boxes.size() == many);
}

TEST_CASE("a header of 100,000 tensors is read, and one of 200,000 is refused") {
  const auto header = [](int count) {
    return "{" +
           members(count, R"("h.%.attn.bias":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})") +
           "}";
  };
  const TemporaryFolder folder;
  const std::string path = folder / "many.safetensors";
  spill(path, with_length(header(100'000), ""));
  SafetensorsFile file{path};
  CHECK(file.entries().size() == 100'000);
  for (const SafetensorsFile::Entry& entry : file.entries()) CHECK(file.find(entry.name) == &entry);
  spill(path, with_length(header(200'000), ""));
  CHECK(contains(usage_error([&] { SafetensorsFile{path}; }), "more than 131072 tensors"));
}

TEST_CASE("10 MB of brackets are refused at the thirty-third") {
  const TemporaryFolder folder;
  const std::string path = folder / "deep.safetensors", deep(10'000'000, '[');
  spill(path, with_length("{\"a\":" + deep, ""));
  CHECK(contains(usage_error([&] { SafetensorsFile{path}; }), "at most 32 lists and objects"));
  CHECK(contains(usage_error([&] { parse_manifest(deep, "run"); }), "at most 32"));
}
