// Handwritten pickles and pickles in Python's format: values, refused opcodes, and damaged or
// hostile files.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/base/printable.h"
#include "tests/flight_recorder/pickle_writer.h"
#include "viz/read/flight_recorder/dump.h"
#include "viz/read/flight_recorder/pickle.h"

using namespace lockstep;
using namespace lockstep::flight;
using namespace std::string_literals;

namespace {

const std::string start = "\x80\x02"s;

/// Returns the error message for a refused file, or "" if the file is read.
std::string refusal(const std::string& content) {
  try {
    read_dump(content);
  } catch (const DumpError& error) {
    CHECK(excerpt(error.what(), 2000) == error.what());  // one printable line
    return error.what();
  }
  return {};
}

bool refuses(const std::string& content, const std::string& words) {
  const std::string message = refusal(content);
  if (message.find(words) == std::string::npos) MESSAGE(message);
  return message.find(words) != std::string::npos;
}

DumpJson small_dump() {
  return {
      {"version", "2.10"},
      {"pg_config", {{"0", {{"name", "0"}, {"desc", "default_pg"}, {"ranks", "[0, 1]"}}}}},
      {"pg_status", {{"0", {{"last_enqueued_collective", 7}, {"last_completed_collective", 6}}}}},
      {"entries",
       DumpJson::array({{{"record_id", 3},
                         {"pg_id", 0},
                         {"process_group", DumpJson::array({"tuple", "0", "default_pg"})},
                         {"collective_seq_id", 7},
                         {"p2p_seq_id", 0},
                         {"op_id", 7},
                         {"profiling_name", "nccl:all_reduce"},
                         {"time_created_ns", 1'700'000'000'000'000'001},
                         {"duration_ms", 1.5},
                         {"input_sizes", DumpJson::array({DumpJson::array({4, 3})})},
                         {"input_dtypes", DumpJson::array({"Float"})},
                         {"output_sizes", DumpJson::array({DumpJson::array({4, 3})})},
                         {"output_dtypes", DumpJson::array({"Float"})},
                         {"state", "started"},
                         {"time_discovered_started_ns", nullptr},
                         {"time_discovered_completed_ns", nullptr},
                         {"retired", false},
                         {"timeout_ms", 600000},
                         {"is_p2p", false}}})}};
}

}  // namespace

TEST_CASE("a pickle's values of every kind") {
  // [None, True, False, 5, 300, -2, 2**40, -(2**40), 3.0, 'ab', b'cd', (1,), {}, []]
  const std::string text = start + "]q\0("s + "N\x88\x89K\x05M\x2c\x01J\xfe\xff\xff\xff"s +
                           "\x8a\x06\0\0\0\0\0\x01"s + "\x8a\x06\0\0\0\0\0\xff"s +
                           "G\x40\x08\0\0\0\0\0\0"s + "X\x02\0\0\0ab"s + "C\x02"s + "cd"s +
                           "K\x01\x85}]e."s;
  const Document pickle = read_pickle(text);
  const Values& values = pickle.values;
  std::vector<ValueId> all;
  values.elements(pickle.root, [&](ValueId each) { all.push_back(each); });
  REQUIRE(all.size() == 14);
  CHECK(values.kind(all[0]) == Values::Kind::none);
  CHECK(values.as_boolean(all[1]) == true);
  CHECK(values.as_boolean(all[2]) == false);
  CHECK(values.as_integer(all[3]) == 5);
  CHECK(values.as_integer(all[4]) == 300);
  CHECK(values.as_integer(all[5]) == -2);
  CHECK(values.as_integer(all[6]) == std::int64_t{1} << 40);
  CHECK(values.as_integer(all[7]) == -(std::int64_t{1} << 40));
  CHECK(values.kind(all[8]) == Values::Kind::real);
  CHECK(values.as_integer(all[8]) == 3);
  CHECK(values.as_text(all[9]) == "ab");
  CHECK(values.as_text(all[10]) == "cd");
  CHECK(values.kind(all[11]) == Values::Kind::tuple);
  CHECK(values.size(all[11]) == 1);
  CHECK(values.kind(all[12]) == Values::Kind::dict);
  CHECK(values.kind(all[13]) == Values::Kind::list);
}

TEST_CASE("the memo refers only to values stored earlier") {
  // x = 'ab'; [x, x]
  const Document pickle = read_pickle(start + "](X\x02\0\0\0abq\0h\0e."s);
  CHECK(pickle.values.size(pickle.root) == 2);
  CHECK(refuses(start + "]q\0(h\x01"s + "e."s, "refers to value 1, which is not stored at byte 6"));
  CHECK(refuses(start + "]q\x01."s, "stores value 1 of the memo before value 0 at byte 3"));
  CHECK(refuses(start + "]r\xff\xff\xff\xff."s, "stores value 4294967295"));
}

TEST_CASE("no opcode takes a value from below the last mark") {
  CHECK(refuses(start + "]N(a."s, "takes a value from an empty stack at byte 5"));
  CHECK(refuses(start + "](N\x86."s, "takes a value from an empty stack at byte 5"));
  CHECK(refuses(start + "](q\0."s, "needs a value on the stack at byte 4"));
  CHECK(refuses(start + "]Ne."s, "needs a mark at byte 4"));
}

TEST_CASE("the refusal of an opcode gives its name and offset") {
  CHECK(refuses(start + "cos\nsystem\n(X\x02\0\0\0lstR."s, "the opcode GLOBAL at byte 2"));
  CHECK(refuses(start + "NR."s, "the opcode REDUCE at byte 3"));
  CHECK(refuses(start + "Nb."s, "the opcode BUILD at byte 3"));
  CHECK(refuses("\x80\x04\x8c\x02os\x8c\x06system\x93."s, "the opcode STACK_GLOBAL at byte 14"));
  CHECK(refuses(start + "\x81."s, "the opcode NEWOBJ at byte 2"));
  CHECK(refuses(start + "\x82\x01."s, "EXT1"));
  CHECK(refuses(start + "Pid\n."s, "PERSID"));
  CHECK(refuses(start + "(ios\nsystem\n."s, "INST"));
  CHECK(refuses(start + "\xf3."s, "has the byte 0xf3 at 2, which is not a pickle opcode"));
  // Every other byte is refused unless it is an opcode of plain data.
  int accepted = 0;
  for (int code = 0; code < 256; ++code) {
    const std::string message = refusal(start + static_cast<char>(code));
    REQUIRE(!message.empty());
    accepted += message.find("opcode") == std::string::npos ? 1 : 0;
  }
  CHECK(accepted == 37);
}

TEST_CASE("a pickle cut off anywhere is refused, and no changed byte breaks the reader") {
  for (const int protocol : {2, 4, 5}) {
    const std::string whole = pickle_of(small_dump(), protocol);
    REQUIRE(refusal(whole).empty());
    for (std::size_t length = 0; length < whole.size(); ++length)
      CHECK(!refusal(whole.substr(0, length)).empty());
    for (std::size_t at = 0; at < whole.size(); ++at)
      for (const char bits : {'\x01', '\x20', '\xff'}) {
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ bits);
        refusal(changed);  // reads the file, or refuses it in one line
      }
  }
  CHECK(refuses(pickle_of(small_dump()).substr(0, 60), "is cut off"));
  CHECK(refuses("", "is empty"));
}

TEST_CASE("deep nesting, many marks and long texts need bounded memory") {
  constexpr std::size_t million = 1'000'000;
  CHECK(!refusal(start + std::string(million, '(')).empty());
  CHECK(!refusal(start + std::string(million, ']')).empty());
  CHECK(!refusal(start + std::string(million, '}') + std::string(million, 'a')).empty());
  // Reads a million levels of nested lists without recursion.
  std::string deep = start + std::string(million, ']');
  for (std::size_t i = 1; i < million; ++i) deep += 'a';
  CHECK(refuses(deep + '.', "its outermost value is a list"));
  CHECK(refuses(start + "X\xff\xff\xff\xff"s, "is cut off"));
  CHECK(refuses(start + "\x8d\xff\xff\xff\xff\xff\xff\xff\xff"s, "is cut off"));
  CHECK(refuses(start + "\x8b\xff\xff\xff\x7f"s, "is cut off"));
  // The memo repeats an entry, which a real dump contains only once.
  std::string repeated = start + "}X\x07\0\0\0entries](}q\0"s;
  for (std::size_t i = 0; i < million; ++i) repeated += "h\0"s;
  CHECK(refuses(repeated + "es.", "too many for its size"));
  // Fewer repetitions, but each entry refers to a long list.
  std::string shared = start + "}X\x07\0\0\0entries](}q\0X\x0b\0\0\0input_sizes](K\1"s;
  for (int i = 0; i < 200; ++i) shared += "K\1"s;
  shared += "esX\x0e\0\0\0profiling_nameX\1\0\0\0as"s;
  for (int i = 0; i < 40'000; ++i) shared += "h\0"s;
  CHECK(refuses(shared + "es.", "refers to the same lists too often"));
  // Groups repeated through the memo.
  std::string groups = start + "}X\x09\0\0\0pg_config}(K\1}q\0X\x05\0\0\0ranks]("s;
  for (int i = 0; i < 2000; ++i) groups += "K\1"s;
  groups += "es"s;
  for (int i = 0; i < 2000; ++i) groups += "K\1h\0"s;
  CHECK(refuses(groups + "us.", "lists more ranks than its size allows"));
  // Empty lists take more memory than the bytes that describe them.
  CHECK(refuses(start + std::string(2 * million, ']') + '.', "has more values than a dump of"));
  std::string lists = "[[]";
  for (std::size_t i = 0; i < 2 * million; ++i) lists += ",[]";
  CHECK(refuses(lists + "]", "has more values than a dump of"));
  // A list that contains itself.
  CHECK(refuses(start + "}X\x07\0\0\0entries]q\0h\0as."s, "must be a list of dictionaries"));
}

TEST_CASE("a dump has the same entries as a pickle of any protocol, and as JSON") {
  DumpJson json = small_dump();
  json["entries"][0]["process_group"].erase(0);
  for (const std::string& content : {pickle_of(small_dump(), 2), pickle_of(small_dump(), 4),
                                     pickle_of(small_dump(), 5), json.dump(), json.dump(2)}) {
    CHECK(is_dump(std::string_view{content}.substr(0, 100)));
    const Dump dump = read_dump(content);
    CHECK(dump.version == "2.10");
    REQUIRE(dump.entries.size() == 1);
    const Entry& entry = dump.entries.front();
    CHECK(entry.record == 3);
    CHECK(entry.sequence == 7);
    CHECK(entry.created_ns == 1'700'000'000'000'000'001);
    CHECK(entry.completed_ns == -1);
    CHECK(entry.group == "0");
    CHECK(entry.description == "default_pg");
    CHECK(entry.name == "nccl:all_reduce");
    CHECK(entry.input.sizes == "[[4, 3]]");
    CHECK(entry.output.dtypes == "[Float]");
    CHECK(entry.state == CollectiveState::started);
    REQUIRE(dump.groups.size() == 1);
    CHECK(dump.groups.front().ranks == std::vector{0, 1});
    CHECK(dump.status.at(0).completed == 6);
  }
  CHECK(!is_dump(R"({"schemaVersion": 1, "traceEvents": [)"));
  CHECK(!is_dump("[\n{\"ph\":\"M\""));
  CHECK(!is_dump("PK\x03\x04"));
}

TEST_CASE("a field of the wrong type is refused in one line that names the field") {
  const std::vector<DumpJson> wrong = {
      "a text",
      -3,
      1.25,
      true,
      DumpJson::array({1, "a"}),
      DumpJson::object({{"a", 1}}),
      DumpJson::array({DumpJson::array({DumpJson::array({DumpJson::array({1})})})})};
  int refused = 0;
  const auto check = [&](const std::string& path, const DumpJson& value) {
    DumpJson changed = small_dump();
    changed[DumpJson::json_pointer{path}] = value;
    for (const std::string& content : {pickle_of(changed), pickle_of(changed, 4), changed.dump()})
      refused += refusal(content).empty() ? 0 : 1;
  };
  const DumpJson right = small_dump();
  for (const DumpJson& value : wrong) {
    for (const auto& [key, ignored] : right.items()) check("/" + key, value);
    for (const auto& [key, ignored] : right["entries"][0].items())
      check("/entries/0/" + key, value);
    for (const auto& [key, ignored] : right["pg_config"]["0"].items())
      check("/pg_config/0/" + key, value);
    check("/pg_config/0", value);
    check("/pg_status/0", value);
    check("/pg_status/0/last_completed_collective", value);
    check("/entries/0", value);
  }
  CHECK(refused > 200);
  DumpJson dump = small_dump();
  dump["entries"][0]["collective_seq_id"] = "seven";
  CHECK(refusal(pickle_of(dump)) ==
        "entry 0: 'collective_seq_id' is 'seven', but must be a whole number");
  dump = small_dump();
  dump["entries"][0]["state"] = "flying";
  CHECK(refusal(pickle_of(dump)) ==
        "entry 0: 'state' is 'flying', but must be scheduled, started or completed");
  dump = small_dump();
  dump["pg_config"]["0"]["ranks"] = "[0, 99999999999]";
  CHECK(refuses(pickle_of(dump), "process group '0': 'ranks' is"));
  dump["pg_config"]["0"]["ranks"] = DumpJson::array({0, -1});
  CHECK(refuses(pickle_of(dump), "'ranks' is a whole number, but must be a rank"));
  CHECK(refuses(pickle_of(DumpJson{{"weights", 3}}), "is not a flight-recorder dump"));
}

TEST_CASE("all fields but profiling_name are optional") {
  const DumpJson least = {{"entries", DumpJson::array({{{"profiling_name", "nccl:barrier"}}})}};
  CHECK(read_dump(pickle_of(least)).entries.size() == 1);
  CHECK(read_dump(pickle_of(DumpJson{{"version", "2.2"}})).entries.empty());
  const DumpJson nameless = {{"entries", DumpJson::array({{{"record_id", 1}}})}};
  CHECK(refuses(pickle_of(nameless), "entry 0 has no profiling_name"));
}
