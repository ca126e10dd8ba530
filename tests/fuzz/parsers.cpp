#include "tests/fuzz/parsers.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <utility>

#include "core/base/error.h"
#include "core/model/checkpoint/manifest.h"
#include "core/model/checkpoint/model_file.h"
#include "core/model/checkpoint/safetensors.h"
#include "core/model/data.h"
#include "core/operations/operation_log.h"
#include "core/operations/operations_file.h"
#include "core/pipeline/csv.h"
#include "core/pipeline/validate.h"
#include "core/plan/slice.h"
#include "core/replay/critical_path.h"
#include "core/run/results/run_results.h"
#include "core/time/cluster_file.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "tests/flight_recorder/pickle_writer.h"
#include "viz/data/feed/hello.h"
#include "viz/data/feed/perfetto_manifest.h"
#include "viz/data/step/advice.h"
#include "viz/data/window/run_notes.h"
#include "viz/read/flight_recorder/words.h"
#include "viz/read/kineto/import.h"
#include "viz/read/kineto/reader.h"
#include "viz/read/timeline/reader.h"
#include "viz/read/timeline/step_account.h"

namespace lockstep::fuzz {

namespace {

const std::string shard = "rank-00000-of-00001.safetensors";

const std::vector<std::string> json_words = {
    "{", "}", "[", "]", ",", ":", "\"", "\"\"", "{}", "[]", "null", "true", "\\u0000", "\\ud800"};

/// JSON that is costly to parse, whatever its keys mean.
std::vector<Costly> costly_json(std::vector<Costly> more) {
  std::vector<Costly> all = {{"", "[", ""},         {"[", "[],", "0]"},
                             {"", "{\"a\":", ""},   {"{", "\"%\":0,", "\"a\":0}"},
                             {"{\"", "a", "\":0}"}, {"{\"a\":\"", "\\u00e9", "\"}"},
                             {"{\"a\":", "9", "}"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Writes each input to a file and calls a function that reads the file.
std::function<void(const std::string&)> by_file(const std::string& path,
                                                const std::function<void()>& read) {
  return [path, read](const std::string& input) {
    std::ofstream{path, std::ios::binary} << input;
    read();
  };
}

Parser cluster() {
  const Cluster preset = Cluster::load("classroom");
  Cluster segments = preset;
  segments.within.segments = {{1000, 1e-6, 1e9}, {4000, 2e-6, 1e10}};
  Cluster protocols = preset;
  protocols.within = {.protocols = {{"low latency", 1e-6, 1e9, 4000}, {"simple", 2e-6, 1e10}}};
  Cluster shared = preset;
  shared.shared = SharedLinks{.port = 1e9,
                              .cards = SharedLinks::Cards{2, 1e8, {0, 0, 0, 1, 1, 1, 0, 1}},
                              .uplink = 1e8,
                              .leaves = SharedLinks::Leaves{2, true, 2},
                              .kernels_beside_collectives = 1.5};
  shared.memory = 80'000'000'000;
  shared.in_switch = Link{1e-6, 1e9};
  shared.library_collectives = true;
  Cluster groups = preset;
  groups.groups = {{.name = "old", .ranks = {0, 5, 6}, .flops = 1e9, .memory = 1000},
                   {.name = "slow", .ranks = {1}, .memory_bandwidth = 1e9}};
  return {
      .name = "cluster",
      .seeds = {preset.json(), segments.json(), protocols.json(), shared.json(), groups.json()},
      .words = json_words,
      .costly = costly_json({{R"({"name":"a","within":{"segments":[)",
                              R"({"from_bytes":%,"latency_seconds":0,"bandwidth":1},)", "0]}}"}}),
      .longest = 1 << 19,
      .parse = [](const std::string& input) {
        const Cluster read = parse_cluster(input, "--cluster c.json");
        read.as_seen_by(5).compute({.flops = 1e9, .bytes = 1e9});
        read.transfer(0, read.nodes * read.ranks_per_node - 1, std::int64_t{1} << 40);
        if (read.shared)
          read.shared->route(0, read.nodes * read.ranks_per_node - 1, read.ranks_per_node);
      }};
}

Parser schedule() {
  return {.name = "schedule",
          .seeds = {to_csv(one_f_one_b(3, 4)),
                    "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n"
                    "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1,1RESHARD\n",
                    "0F0,3F0,(0F1;3B0)OVERLAP_F_B,3F1,3B1,0B0,0I1,0W1\n"
                    "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n"},
          .words = {"F", "B", "I", "W", ",", "\n", "(", ";", ")OVERLAP_F_B", "SEND_F", "RECV_B",
                    "UNSHARD", "RESHARD", "WAIT_SEND_F", "2147483647RECV_B0", "0F2147483647"},
          .costly = {{"", "0F%,0B%,", ""},
                     {"", "%F0,%B0,", ""},
                     {"", "%F0\n", ""},
                     {"", "0F0,", ""},
                     {"", "\n", ""},
                     {"", ",", ""},
                     {"", "x", ""},
                     {"0F", "0", ""},
                     {"", "(0F%;0B%)OVERLAP_F_B,", ""},
                     {"0F0,1F0,", "0SEND_F%,", ""}},
          .longest = 4 << 20,
          .parse = [](const std::string& input) {
            const Schedule read = schedule_from_csv(input, "--schedule s.csv");
            validate(read);
            check_messages(input, read);
          }};
}

Parser manifest() {
  Manifest sharded{.step = 7, .optimizer_steps = 5};
  sharded.files = {{"config.json", {40, 1}}, {shard, {400}}};
  for (auto* tensors : {&sharded.tensors, &sharded.moments}) {
    const Box upper{{0, 0}, {2, 6}}, lower{{2, 0}, {2, 6}};
    tensors->push_back({"h.0.w", "F32", {4, 6}, {{upper, shard, 7}, {lower, shard, 8}}});
    tensors->push_back({"h.0.b", "F32", {6}, {{{{0}, {6}}, shard, 9}}});
  }
  Manifest whole{.step = 3};
  whole.files = {{"model.safetensors", {400, 3}}, {"config.json", {40, 1}}};
  const std::string before = R"({"format":"lockstep checkpoint","version":2,"step":1,"files":{")" +
                             shard + R"(":{"bytes":8}},"moments":{},"tensors":{)",
                    box = R"({"begin":[0],"extent":[1],"file":")" + shard +
                          R"(","crc32":"00000000"})";
  return {
      .name = "manifest",
      .seeds = {sharded.to_json(), whole.to_json()},
      .words = json_words,
      .costly = costly_json({{before, R"("t%":{"shape":[1],"boxes":[)" + box + "]},", R"("a":0}})"},
                             {before + R"("t":{"shape":[1],"boxes":[)", box + ",", "0]}}}"},
                             {before + R"("t":{"shape":[)", "1,", "1]}}}"},
                             {R"({"format":"lockstep checkpoint","version":2,"step":1,"files":{)",
                              R"("rank-00000%-of-00001.safetensors":{"bytes":8},)", "}}"}}),
      .parse = [](const std::string& input) { parse_manifest(input, "run"); }};
}

Parser safetensors(const std::string& folder) {
  const std::string path = folder + "/a.safetensors";
  const auto file_of = [](const std::string& header) {
    const std::uint64_t length = header.size();
    std::string file(sizeof length, '\0');
    std::memcpy(file.data(), &length, sizeof length);
    return file + header;
  };
  const SafetensorsHeader header{{{"h.0.w", {4, 6}}, {"h.0.b", {6}}, {"steps", {1}, DType::i32}}};
  const std::string data(header.file_bytes() - header.bytes().size(), '\x3f');
  Parser parser{.name = "safetensors",
                .seeds = {header.bytes().substr(8) + data},
                .words = json_words,
                .costly = costly_json(
                    {{"{", R"("%":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)", R"("a":0})"},
                     {R"({"a":{"dtype":"F32","shape":[)", "0,", R"(0],"data_offsets":[0,0]}})"}}),
                .parse = {}};
  // The length of the header is that of the input, or that of the seed's header if data follow.
  parser.parse = [path, file_of, length = header.bytes().size() - 8,
                  data](const std::string& input) {
    const bool has_data = input.size() > length && input.ends_with(data);
    std::ofstream{path, std::ios::binary}
        << (has_data ? file_of(input.substr(0, input.size() - data.size())) + data
                     : file_of(input));
    SafetensorsFile file{path};
    for (const SafetensorsFile::Entry& entry : file.entries())
      if (entry.dtype == "F32") file.check_values(entry.name);
  };
  return parser;
}

Parser config(const std::string& folder) {
  const GptConfig gpt2{.layers = 2, .hidden = 8, .heads = 2, .sequence = 6, .vocabulary = 16};
  GptConfig llama = gpt2;
  llama.llama = LlamaConfig{.kv_heads = 1, .mlp_width = 6, .scaling = RotaryScaling{}};
  return {
      .name = "config",
      .seeds = {config_json(gpt2), R"({"n_layer": 3, "n_embd": 12, "scale_attn_weights": true})",
                config_json(llama),
                R"({"model_type": "llama", "num_key_value_heads": null, "head_dim": 4,)"
                R"("rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0,)"
                R"("low_freq_factor": 1.0, "high_freq_factor": 4.0,)"
                R"("original_max_position_embeddings": 8192}})"},
      .words = json_words,
      .costly = costly_json(
          {{"{", "\"n_layer\":1,", "\"a\":0}"},
           {R"({"model_type":"llama","rope_scaling":{)", R"("factor%":1,)", R"("a":0}})"}}),
      .parse = by_file(folder + "/config.json", [folder] { described_model(folder); })};
}

Parser tokens(const std::string& folder) {
  std::vector<std::int32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = 40;
  const std::string plain(80, '\x01'),
      with_header = std::string{reinterpret_cast<const char*>(header.data()), 1024} + plain,
      path = folder + "/tokens.bin";
  return {.name = "tokens",
          .seeds = {plain, with_header},
          .words = {std::string(2, '\0'), "\xff\xff", with_header.substr(0, 12)},
          .costly = {{"", std::string("\1\0", 2), ""}, {with_header, "ab", ""}},
          .parse = by_file(path, [path] {
            const GptConfig model{
                .layers = 1, .hidden = 8, .heads = 2, .sequence = 6, .vocabulary = 1 << 16};
            Corpus::from_tokens(path, model).batch(1, 0, {.microbatches = 2, .size = 2});
          })};
}

const std::string report_text =
    R"({"run":"r1","losses":[1.5,null],"counterfactuals":{"step":7,"seconds":0.5,"all":[)"
    R"({"claim":"free_axis","change":"tp=free","text":"With tp free, 0.4 ms.","values":{"step":0.5}}]}})";
const std::string hello_line =
    R"({"ph":"M","name":"lockstep","pid":0,"tid":0,"args":{"format":1,"run":"r1","lesson":"09",)"
    R"("rank":0,"ranks":2,"mesh":{"pp":2},"device":"cpu","launch":"threads","clock":"modelled",)"
    R"("cluster":"classroom","cluster_description":{"name":"c"},"config":{"layers":"4"},)"
    R"("clock_offset_ns":5,"predicted":{"bubble":0.2,"phase":"p"},"token":"t"}},)";

Parser trace(const std::string& name, TraceReader::Form form) {
  const std::string spans =
      R"({"ph":"X","name":"PP:1F2","cat":"forward","pid":1,"tid":0,"ts":5.000001,"dur":7,"args":{"step":1,"stage":0,"microbatch":2,"layer":1,"bytes":64,"peer":1,"group":"dp","group_size":2,"algorithm":"ring","seq":4}},
{"ph":"s","name":"message","cat":"communication","id":77,"pid":0,"tid":1,"ts":3},
{"ph":"f","name":"message","cat":"communication","id":"77","pid":1,"tid":2,"ts":9},
{"ph":"X","name":"send","cat":"communication","pid":0,"tid":1,"ts":3,"dur":2,"bind_id":78,"flow_out":true,"args":{"step":1,"stage":0,"microbatch":2,"peer":1,"carries":"activations"}},
{"ph":"X","name":"recv","cat":"wait","pid":1,"tid":0,"ts":3,"dur":4,"args":{"receives":78,"step":1,"stage":1,"microbatch":2,"peer":0}},
{"ph":"M","name":"group","pid":0,"tid":0,"args":{"name":"dp","ranks":[0,1]}},
{"ph":"C","name":"memory","pid":0,"ts":3,"args":{"parameters":1,"gradients":1}},
{"ph":"M","name":"memory state","pid":0,"args":{"state":0,"parts":[["parameters","qkv",0],["gradients","head",-1]],"bytes":[0,1,1,1]}},
{"ph":"C","name":"memory","pid":0,"ts":4,"state":0,"args":{"parameters":1,"gradients":1}},
{"ph":"M","name":"memory at peak","pid":0,"args":{"step":1,"state":0}},
{"ph":"C","name":"tokens per expert","id":"layer 1","pid":0,"ts":3,"args":{"step":0,"layer":1,"expert 0":5}},
{"ph":"i","s":"t","name":"open","cat":"wait","pid":0,"tid":0,"ts":900,"args":{"name":"x","start":7}},
{"ph":"i","name":"end","s":"p","pid":0,"ts":3,"args":{"spans":10}},
{"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"lane"}},
{"ph":"M","name":"slices","pid":0,"args":{"tensors":[{"name":"h.*.w","blocks":[[0,2]],"shape":[2,4],"boxes":[[0,0,2,4]],"bytes":{"parameters":4}}]}},
)";
  std::vector<std::string> seeds = {hello_line + "\n" + spans};
  if (form == TraceReader::Form::guess)
    seeds.push_back("{\"traceEvents\": [\n" + spans.substr(0, spans.size() - 2) + "\n]}");
  const std::string span = R"({"ph":"X","name":"n%","pid":0,"tid":0,"ts":%,"dur":1})",
                    open = R"({"ph":"i","name":"open","pid":0,"tid":1,"ts":%})",
                    flow = R"({"ph":"s","name":"m","id":%,"pid":0,"tid":1,"ts":%})",
                    group =
                        R"({"ph":"M","name":"group","pid":0,"args":{"name":"g%","ranks":[0,%]}})",
                    wait = R"({"ph":"X","name":"recv","cat":"wait","pid":0,"tid":0,"ts":%,"dur":1,)"
                           R"("args":{"receives":%,"step":0}})",
                    state = R"({"ph":"M","name":"memory state","pid":0,"args":{"state":%,)"
                            R"("parts":[["parameters","k%",%]],"bytes":[0,%]}})";
  std::vector<Costly> costly;
  for (const std::string& line : {std::string{"{}"}, span, open, flow, group, wait, state})
    costly.push_back({hello_line + "\n", line + "\n", ""});
  // The lines of a connection are limited. A file may be one document of any length, whose index
  // takes six times as much memory as the document.
  if (form == TraceReader::Form::lines)
    for (
        const char* before :
        {"", R"({"ph":"C","name":"c","pid":0,"args":{"step":0)",
         R"({"ph":"M","name":"memory state","pid":0,"args":{"state":0,"parts":[["parameters","",0)"})
      for (const char* unit :
           {"[", ",\"k%\":1", "x", R"(],["parameters","",0)", R"(]],"bytes":[0)"})
        costly.push_back({before, unit, "}}\n"});
  return {.name = name,
          .seeds = std::move(seeds),
          .words = json_words,
          .costly = std::move(costly),
          .parse = [form](const std::string& input) {
            Timeline timeline;
            TraceReader reader{timeline, form};
            constexpr std::size_t piece = 64 << 10;  // as the viewer receives it
            for (std::size_t at = 0; at < input.size(); at += piece)
              reader.feed(std::string_view{input}.substr(at, piece));
            reader.finish();
            timeline.settle();
            if (const std::string& line = reader.first_malformed(); !line.empty())
              throw UsageError{line};  // the viewer prints it
          }};
}

/// Two ranks' traces of PyTorch's profiler, separated by a form feed, which JSON does not contain.
Parser kineto_traces() {
  const auto trace_of = [](int rank) {
    return fmt::format(
        R"j({{"schemaVersion":1,"baseTimeNanoseconds":1790857026000000000,"host_name":"h{0}",
"distributedInfo":{{"backend":"nccl","rank":{0},"world_size":2,"pg_config":[{{"pg_name":"0","pg_desc":"mesh_dp","pg_size":2,"ranks":[0,1]}}]}},
"traceEvents":[
{{"ph":"M","name":"thread_name","pid":7,"tid":7,"args":{{"name":"thread 7 (python)"}}}},
{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#3","pid":7,"tid":7,"ts":1000.5,"dur":900}},
{{"ph":"X","cat":"user_annotation","name":"PP:{0}F0","pid":7,"tid":7,"ts":1010,"dur":50}},
{{"ph":"X","cat":"user_annotation","name":"PP:0SEND_F0","pid":7,"tid":7,"ts":1070,"dur":9}},
{{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":7,"ts":1012,"dur":9,"args":{{"Input Dims":[[[4,8]],[]],"Input type":["float"],"Concrete Inputs":["","","1","0"]}}}},
{{"ph":"s","cat":"fwdbwd","name":"fwdbwd","id":4,"pid":7,"tid":7,"ts":1013}},
{{"ph":"f","cat":"fwdbwd","name":"fwdbwd","id":4,"pid":7,"tid":8,"ts":1200,"bp":"e"}},
{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":7,"ts":1014,"dur":2,"args":{{"correlation":11}}}},
{{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1030,"dur":40,"args":{{"correlation":11,"stream":7}}}},
{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","pid":0,"tid":7,"ts":1080,"dur":4,"args":{{"bytes":64}}}},
{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32()","pid":0,"tid":20,"ts":{1},"dur":{2},"args":{{"correlation":12,"Collective name":"allreduce","In msg nelems":100,"dtype":"Float","Group size":2,"Process Group Name":"0","Process Group Ranks":"[0, 1]","Seq":"5","Comms Id":"77"}}}},
{{"ph":"X","cat":"kernel","name":"ncclDevKernel_SendRecv()","pid":0,"tid":21,"ts":1300,"dur":20,"args":{{"correlation":13,"Collective name":"send","Src Rank":0,"Dst Rank":1}}}},
{{"ph":"X","cat":"user_annotation","name":"gloo:recv","pid":7,"tid":7,"ts":1400,"dur":20}},
{{"ph":"X","cat":"python_function","name":"train.py(3): main","pid":7,"tid":7,"ts":1001,"dur":800}}]}})j",
        rank, 1090 + 20 * rank, 60 - 20 * rank);
  };
  const std::string span =
                        R"({"ph":"X","cat":"kernel","name":"n%","pid":0,"tid":%,"ts":%,"dur":1},)",
                    reduce = R"({"ph":"X","cat":"kernel","name":"ncclAllReduce","pid":0,"tid":1,)"
                             R"("ts":1,"dur":9,"args":{"Group size":1,"Seq":%}},)",
                    flow = R"({"ph":"s","cat":"fwdbwd","id":%,"pid":0,"tid":1,"ts":%},)";
  const std::string before = R"({"schemaVersion":1,"traceEvents":[)", after = "0]}";
  return {
      .name = "kineto",
      .seeds = {trace_of(0) + "\f" + trace_of(1), trace_of(1)},
      .words = json_words,
      .costly = {{before, "{},", after},
                 {before, span, after},
                 {before, reduce, after},
                 {before, flow, after},
                 {before, R"({"ph":"X","cat":"user_annotation","name":"PP:0F%","ts":1,"dur":9},)",
                  after}},
      .parse = [](const std::string& input) {
        std::vector<kineto::Trace> traces;
        for (std::size_t begin = 0; begin <= input.size();) {
          const std::size_t end = std::min(input.find('\f', begin), input.size());
          traces.push_back(kineto::read_trace(input.substr(begin, end - begin), "trace"));
          begin = end + 1;
        }
        Timeline timeline;
        kineto::fill(kineto::analyse(std::move(traces)), timeline);
        for (const StepWindow& step : timeline.steps()) step_account(timeline, step.step);
      }};
}

Parser perfetto_manifest() {
  const std::string entry =
      R"({"path":"b","machine":{"name":"m"},"clocks":{"sync_to":{"file":"a"},"offset_ns":-5}})";
  const std::string before = R"({"perfetto_manifest":{"version":1,"files":[)";
  return {
      .name = "perfetto_manifest",
      .seeds = {before + R"({"path":"a"},)" + entry + "]}}"},
      .words = json_words,
      .costly = costly_json({{before, R"({"path":"%"},)", R"({"path":"a"}]}})"},
                             {before + R"({"path":"0"},)",
                              R"({"path":"p%","clocks":{"sync_to":{"file":"0"},"offset_ns":1}},)",
                              R"({"path":"a"}]}})"}}),
      .parse = [](const std::string& input) {
        viz::clock_offsets(viz::parse_manifest(input, "x.zip"), "x.zip");
      }};
}

Parser report() {
  return {.name = "report",
          .seeds = {report_text},
          .words = json_words,
          .costly = costly_json({{R"({"counterfactuals":{"step":1,"all":[)", R"({"text":"a"},)",
                                  R"({"text":"a"}]}})"},
                                 {"{", R"("a%":1,)", R"("b":0})"}}),
          .longest = 1 << 20,
          .parse = [](const std::string& input) {
            if (viz::parse_advice(input).step < 0) throw UsageError{"no advice"};
          }};
}

Parser notes() {
  return {
      .name = "notes",
      .seeds = {R"({"run":"r","notes":[{"rank":1,"at":5,"text":"late"}],)"
                R"("bookmarks":[{"number":2,"begin":0,"end":9}]})"},
      .words = json_words,
      .costly = costly_json({{R"({"run":"r","notes":[)", R"({"rank":1,"at":1,"text":"a"},)",
                              R"({"rank":2,"at":1,"text":"a"}]})"},
                             {R"({"run":"r","bookmarks":[)", R"({"number":1,"begin":0,"end":1},)",
                              R"({"number":2,"begin":0,"end":1}]})"}}),
      .parse = [](const std::string& input) {
        if (viz::parse_notes(input, "r").empty()) throw UsageError{"no notes"};
      }};
}

Parser hello() {
  return {.name = "hello",
          .seeds = {hello_line},
          .words = json_words,
          .costly = costly_json({{"{\"args\":{", "\"rank\":1,", "\"a\":0}}"}}),
          .longest = 64 << 10,
          .parse = [](const std::string& input) {
            if (viz::parse_hello(input).rank < 0) throw UsageError{"not a hello"};
          }};
}

}  // namespace

std::string Costly::of(std::size_t bytes) const {
  std::string text = before;
  for (std::size_t number = 0; text.size() < bytes; ++number)
    for (const char c : unit) c == '%' ? text += std::to_string(number) : text += c;
  return text + after;
}

Parser operations() {
  OperationBook book{2};
  for (int rank = 0; rank < 2; ++rank) {
    OperationLog log{book, rank};
    const int group = log.open_group({"tp", 3, {0, 1}});
    log.begin({.name = "action", .category = Category::forward, .stage = 0, .microbatch = 1});
    log.kernel({.name = "linear", .layer = 1},
               {.flops = 64, .bytes = 8, .kind = KernelKind::product, .m = 1, .n = 2, .k = 3});
    log.end(Category::forward);
    log.wait(log.collective(group, {.operation = Operation::all_reduce, .elements = 5}));
    log.wait(log.collective(group, {.operation = Operation::all_reduce,
                                    .elements = 6,
                                    .choice = Collective::Choice::by_cost_or_switch}));
    log.wait(log.collective(
        group,
        {.operation = Operation::all_reduce, .algorithm = Algorithm::double_tree, .elements = 7}));
    log.end_section(0);
    const std::int64_t mine = rank == 0 ? 1 : 2;  // each rank sends itself one element and the
                                                  // other rank two
    log.wait(log.collective(
        group, {.operation = Operation::all_to_all, .counts = {mine, 3 - mine, mine, 3 - mine}}));
    const OperationLog::Route route{.stream = 0, .channel = 1, .axis = "pp"};
    using Kind = RecordedOperation::Kind;
    log.wait(log.message(rank == 0 ? Kind::send : Kind::receive, route, 1 - rank, 16, {}));
    log.together();
    log.end_section(1);
  }
  RunOperations run = book.take();
  run.modelled.times = FixedTimes::parse("forward=1us");
  run.modelled.slow[1] = 1.5;
  run.choices = {"--schedule automatic"};
  const std::string unshared = text_of(run);
  run.modelled.cluster = Cluster::load("h100");
  run.modelled.cluster.ranks_per_node = 1;
  run.modelled.cluster.shared->cards->of_rank = {0};
  const std::string before = R"({"lockstep_operations":1,"operations":[)";
  return {.name = "operations",
          .seeds = {unshared, text_of(run)},
          .words = json_words,
          .costly = costly_json(
              {{before, R"({"wait":%},)", R"({"wait":1}]})"},
               {before, R"({"kernel":"k%"},)", R"({"wait":1}]})"},
               {before + R"({"end":"forward"}],"lists":[[)", "0,", "0]]}"},
               {before + R"({"end":"forward"}],"lists":[)", "[0],", "[0]]}"},
               {before + R"(],"choices":[)", R"("",)", R"(""]})"},
               {before + R"(],"slow":{)", R"("%":2,)", R"("1":2}})"},
               {before + R"(],"groups":[)", R"({"name":"","channel":0,"ranks":[0,1]},)", "0]}"},
               {before + R"(],"lists":[[]],"groups":[],"ranks":[)",
                R"({"groups":[],"sections":[[0,0],[0,0]]},)", "0]}"}}),
          .parse = [](const std::string& input) {
            const RunOperations read = parse_operations(input, "operations.json");
            // A list may occur in many sections, so a replay takes more time than the text's length
            // suggests.
            if (input.size() > 1 << 16) return;
            const Scenario scenario{read.modelled};
            const Replay replay{read, scenario};
            if (replay.last_step() >= 0) critical_path(replay, replay.last_step());
          }};
}

Parser results(const std::string& folder) {
  RunResults run{.run = "r", .lesson = "09 1F1B", .facts = R"({"ranks":1})", .steps = 2};
  run.pipeline = {0};
  run.first_microbatches = {2};
  run.proposals = {SplitProposal{.split = {1}, .step = 5, .better = {1}}};
  run.ranks = {{.rank = 0, .host = "h"}};
  run.ranks[0].phases.push_back({.phase = {"m = 2", 0, 2, 2, {}}});
  run.losses = {2.5, 2};
  run.reference_losses = {2.5, 2};
  run.parity = Parity{.worst_parameter = "w"};
  run.own["table"] = "[1]";
  const std::string file = folder + "/results.json";
  return {.name = "results",
          .seeds = {text_of(run)},
          .words = json_words,
          .costly = costly_json({{R"({"lockstep_results":1,"ranks":[)", "{},", "{}]}"},
                                 {R"({"lockstep_results":1,"own":[)", R"({"a":0},)", "{}]}"}}),
          .longest = 2'000'000,  // the slack covers 24 times as much memory
          .parse = by_file(file, [file] { report_json(read_results(file)); })};
}

/// A flight-recorder dump of one rank, analysed together with a fixed dump of its peer.
Parser flight_dump() {
  const auto entry = [](int sequence, const char* name, const char* state) {
    return DumpJson{{"record_id", sequence},
                    {"pg_id", 0},
                    {"process_group", DumpJson::array({"tuple", "0", "tp"})},
                    {"collective_seq_id", sequence},
                    {"p2p_seq_id", sequence},
                    {"profiling_name", name},
                    {"input_sizes", DumpJson::array({DumpJson::array({4, 3})})},
                    {"input_dtypes", DumpJson::array({"Float"})},
                    {"state", state},
                    {"time_created_ns", 1'700'000'000'000'000'000},
                    {"retired", false}};
  };
  const auto dump = [&](const char* last) {
    return DumpJson{
        {"version", "2.10"},
        {"pg_config", {{"0", {{"name", "0"}, {"desc", "tp"}, {"ranks", "[0, 1]"}}}}},
        {"pg_status", {{"0", {{"last_enqueued_collective", 2}, {"last_completed_collective", 1}}}}},
        {"entries",
         DumpJson::array({entry(1, "nccl:all_reduce", "completed"), entry(2, last, "started")})}};
  };
  DumpJson json = dump("nccl:recv 0<-1");
  for (DumpJson& each : json["entries"]) each["process_group"].erase(0);
  const flight::Dump peer = flight::read_dump(pickle_of(dump("nccl:all_gather")));
  const std::string start{"\x80\x02", 2}, entries = start + std::string{"}X\7\0\0\0entries](", 15};
  const std::string name{"}X\x0e\0\0\0profiling_nameX\1\0\0\0as", 26};
  return {.name = "flight_dump",
          .seeds = {pickle_of(dump("nccl:all_reduce")), pickle_of(dump("nccl:send 0->1"), 4),
                    pickle_of(dump("nccl:coalesced"), 5), json.dump()},
          .words = {"(",      "]",         "}",   "N",   "\x88", "K\1", "q", "h",
                    "e",      "u",         "a",   "s",   ".",    "c",   "R", "nccl:all_reduce",
                    "[0, 1]", "completed", "X\2", "\x94"},
          .costly = costly_json(
              {{start, "]", ""},
               {start, "(", ""},
               {start + "(", "N", "t."},
               {start + "](", "]", "e."},
               {start + "](", "K\1", "e."},
               {start + "]", "Na", "."},
               {start + "N", "\x85", "."},
               {start + "}", "NNs", "."},
               {entries, name, "es."},
               {entries + name + std::string{"q\0", 2}, std::string{"h\0", 2}, "es."},
               {R"({"entries":[)", R"({"profiling_name":"a%"},)", R"({"profiling_name":"a"}]})"},
               {R"({"pg_config":{)", R"("%":{"ranks":"[0,%]"},)", R"("a":{}}})"},
               {R"({"pg_config":{"a":{"ranks":")", "0,", R"(0]"}}})"}}),
          .parse = [peer](const std::string& input) {
            try {
              flight::Job job;
              job.dumps.push_back({0, flight::read_dump(input)});
              job.dumps.push_back({1, peer});
              flight::stall_summary(flight::stall_of(job));
            } catch (const flight::DumpError& error) {
              throw UsageError{error.what()};
            }
          }};
}

std::vector<Parser> all_parsers(const std::string& folder) {
  return {cluster(),
          schedule(),
          manifest(),
          safetensors(folder),
          config(folder),
          tokens(folder),
          trace("trace", TraceReader::Form::lines),
          trace("trace_file", TraceReader::Form::guess),
          hello(),
          report(),
          kineto_traces(),
          perfetto_manifest(),
          notes(),
          operations(),
          results(folder),
          flight_dump()};
}

}  // namespace lockstep::fuzz
