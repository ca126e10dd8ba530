#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "tests/model/fixture.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("tokens are bytes, and decode to the same text") {
  std::string every;
  for (int i = 0; i < 256; ++i) every.push_back(static_cast<char>(i));
  const auto tokens = Tokenizer::encode(every);
  CHECK(tokens.front() == 0);
  CHECK(tokens.back() == 255);
  CHECK(Tokenizer::decode(tokens) == every);
}

TEST_CASE("samples are windows of the text, targets the token after, however they are split") {
  std::mt19937 random{12};
  for (int i = 0; i < 20; ++i) {
    GptConfig config;
    config.sequence = 1 + static_cast<int>(random() % 20);
    const std::string text =
        random_text(static_cast<std::size_t>(config.sequence) + 1 + random() % 50, 256);
    const auto bytes = Tokenizer::encode(text);
    const Corpus corpus{text, config};
    const Batch whole = corpus.batch(5, i, {.microbatches = 1, .size = 12});
    const auto s = static_cast<std::size_t>(config.sequence);
    for (std::size_t sample = 0; sample < 12; ++sample) {
      std::vector<std::int32_t> window{
          whole.tokens.begin() + static_cast<std::ptrdiff_t>(sample * s),
          whole.tokens.begin() + static_cast<std::ptrdiff_t>((sample + 1) * s)};
      window.push_back(whole.targets[(sample + 1) * s - 1]);
      CHECK(std::ranges::search(bytes, window).begin() != bytes.end());
      for (std::size_t j = 0; j + 1 < s; ++j)
        CHECK(whole.targets[sample * s + j] == whole.tokens[sample * s + j + 1]);
    }
    const Batch parts = corpus.batch(5, i, {.microbatches = 4, .size = 3});
    CHECK(parts.tokens == whole.tokens);
    CHECK(parts.microbatches[1].tokens.i32()[0] == whole.tokens[3 * s]);
    CHECK(parts.microbatches[1].tokens.shape == Shape{3, config.sequence});
    CHECK(parts.microbatches[1].token_weight == 1.0F / static_cast<float>(12 * config.sequence));
    // One replica's share of the batch.
    const Batch second =
        corpus.batch(5, i, {.microbatches = 2, .size = 3, .replicas = 2, .replica = 1});
    CHECK(second.microbatches[1].token_weight == parts.microbatches[1].token_weight);
    CHECK(std::equal(second.targets.begin(), second.targets.end(),
                     whole.targets.begin() + static_cast<std::ptrdiff_t>(6 * s)));
    // A replica whose share is smaller than that of the first.
    const Batch third = corpus.batch(
        5, i, {.microbatches = 1, .size = 3, .replicas = 3, .replica = 2, .shares = {1, 2, 1}});
    CHECK(third.microbatches.size() == 1);
    CHECK(third.microbatches[0].token_weight == parts.microbatches[1].token_weight);
    CHECK(std::equal(third.tokens.begin(), third.tokens.end(),
                     whole.tokens.begin() + static_cast<std::ptrdiff_t>(9 * s),
                     whole.tokens.end()));
  }
}

TEST_CASE("a batch of some replicas has their samples, and the mean over them") {
  const Corpus corpus{random_text(500, 256), {.sequence = 10}};
  constexpr int m = 2, b = 3, of = 4;
  const auto shares = [&] {
    std::vector<Batch> all;
    for (int replica = 0; replica < of; ++replica)
      all.push_back(
          corpus.batch(5, 7, {.microbatches = m, .size = b, .replicas = of, .replica = replica}));
    return all;
  }();
  for (const std::vector<int>& replicas :
       {std::vector<int>{0, 1, 2, 3}, {0, 1, 3}, {2}, {1, 2}, {3}}) {
    Batch batch = corpus.batch(5, 7, {.microbatches = m * of, .size = b});
    keep_replicas(batch, replicas, of);
    REQUIRE(batch.microbatches.size() == m * replicas.size());
    float tokens = 0;
    for (std::size_t i = 0; i < batch.microbatches.size(); ++i) {
      const Microbatch& kept = batch.microbatches[i];
      const Microbatch& own = shares[static_cast<std::size_t>(replicas[i / m])].microbatches[i % m];
      CHECK(std::equal(kept.tokens.i32(), kept.tokens.i32() + b * 10, own.tokens.i32()));
      CHECK(std::equal(kept.targets.i32(), kept.targets.i32() + b * 10, own.targets.i32()));
      CHECK(kept.last == (i + 1 == batch.microbatches.size()));
      tokens += kept.token_weight * b * 10;
    }
    CHECK(tokens == doctest::Approx(1));  // the weights of all tokens add up to a mean
  }
}

TEST_CASE("a batch without tokens has the shapes of one with tokens") {
  const Corpus corpus{std::string(400, 'x'), {.sequence = 12}};
  BatchShape shape{.microbatches = 3, .size = 2, .replicas = 4, .replica = 1};
  for (const ContextShare& share : {ContextShare{},
                                    {ContextLayout::zigzag, 1, 2},
                                    {ContextLayout::contiguous, 2, 3},
                                    {ContextLayout::balanced, 0, 2}}) {
    shape.context = share;
    shape.documents = share.layout == ContextLayout::balanced ? 4 : 0;
    const Batch full = corpus.batch(1, 0, shape), empty = batch_without_tokens(shape, 12);
    REQUIRE(empty.microbatches.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      const Microbatch &one = full.microbatches[i], &other = empty.microbatches[i];
      CHECK(other.tokens.shape == one.tokens.shape);
      CHECK(other.positions.shape == one.positions.shape);
      CHECK((other.masks == nullptr) == (one.masks == nullptr));
      if (one.masks != nullptr) CHECK(other.masks->whole.pairs == one.masks->whole.pairs);
      CHECK(other.targets.shape == one.targets.shape);
      CHECK(other.tokens.dtype == DType::i32);
      CHECK(other.tokens.data == nullptr);
      CHECK(other.targets.data == nullptr);
      CHECK(other.token_weight == one.token_weight);
      CHECK(other.last == one.last);
    }
  }
}

TEST_CASE("other steps and seeds see other samples; every window occurs") {
  GptConfig config;
  config.sequence = 4;
  const Corpus corpus{"0123456789", config};
  CHECK(corpus.batch(1, 0, {1, 8}).tokens == corpus.batch(1, 0, {1, 8}).tokens);
  CHECK(corpus.batch(1, 0, {1, 8}).tokens != corpus.batch(1, 1, {1, 8}).tokens);
  CHECK(corpus.batch(1, 0, {1, 8}).tokens != corpus.batch(2, 0, {1, 8}).tokens);
  std::vector<bool> seen(128);
  const Batch many = corpus.batch(3, 0, {1, 200});
  for (std::size_t i = 0; i < many.tokens.size(); i += 4)
    seen[static_cast<std::size_t>(many.tokens[i])] = true;
  CHECK(std::ranges::count(seen, true) == 6);  // the last window starts at '5' and ends before '9'
  CHECK(std::ranges::count(many.targets, '9') > 0);
}

TEST_CASE("an unusable text gives a one-line message") {
  const TemporaryFolder folder;
  GptConfig config;
  config.sequence = 8;
  const auto message = [&](const std::string& path) {
    const std::string text = usage_error([&] { Corpus::from_file(path, config); });
    CHECK(contains(text, "--data"));
    CHECK(contains(text, path));
    return text;
  };
  CHECK(contains(message(folder / "absent"), "no such file"));
  CHECK(contains(message(folder.path()), "is a directory"));
  CHECK(contains(message("/dev/zero"), "not a regular file"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(contains(message(folder / "pipe"), "not a regular file"));
  std::ofstream{folder / "huge"};
  std::error_code error;  // not all file systems support a sparse file of this size
  std::filesystem::resize_file(folder / "huge", std::uintmax_t{1} << 43, error);
  if (!error) CHECK(contains(message(folder / "huge"), "8.8 TB"));
  std::ofstream{folder / "empty"};
  CHECK(contains(message(folder / "empty"), "is empty"));
  std::ofstream{folder / "short"} << "12345678";
  CHECK(contains(message(folder / "short"), "8 bytes"));
  CHECK(contains(message(folder / "short"), "= 9"));
  std::ofstream{folder / "fits"} << "123456789";
  CHECK(Corpus::from_file(folder / "fits", config).tokens() == 9);

  std::ofstream{folder / "closed"} << "123456789";
  std::filesystem::permissions(folder / "closed", std::filesystem::perms::none);
  // The superuser can read every file.
  if (!std::ifstream{folder / "closed"})
    CHECK(contains(message(folder / "closed"), "can't be read"));

  config.vocabulary = 50;
  const std::string vocabulary = usage_error([&] { Corpus::from_file(folder / "fits", config); });
  CHECK(contains(vocabulary, "--vocab 50"));
  CHECK(contains(vocabulary, "use --vocab 58"));
}

namespace {

/// Little-endian uint16 tokens.
std::string stream_of(const std::vector<int>& tokens) {
  std::string bytes;
  for (const int token : tokens) {
    bytes += static_cast<char>(token & 0xff);
    bytes += static_cast<char>(token >> 8);
  }
  return bytes;
}

/// The header of llm.c's token files: 256 int32.
std::string header_of(std::int32_t magic, std::int32_t version, std::int32_t tokens) {
  std::int32_t header[256] = {magic, version, tokens};
  return {reinterpret_cast<const char*>(header), sizeof header};
}

}  // namespace

TEST_CASE("--tokens reads uint16 tokens, plain or after llm.c's header") {
  const TemporaryFolder folder;
  const std::string path = folder / "tokens.bin";
  const GptConfig config{.sequence = 4, .vocabulary = 50257};
  const std::vector<int> tokens{0, 50256, 255, 256, 257, 40000, 1};
  const auto write = [&](const std::string& bytes) {
    std::ofstream{path, std::ios::binary} << bytes;
  };
  for (const std::string& header : {std::string{}, header_of(20240520, 1, 7)}) {
    write(header + stream_of(tokens));
    const Corpus corpus = Corpus::from_tokens(path, config);
    REQUIRE(corpus.tokens() == tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) CHECK(corpus.token(i) == tokens[i]);
    const Batch batch = corpus.batch(3, 0, {.microbatches = 2, .size = 3});
    for (std::size_t sample = 0; sample < 6; ++sample) {
      const auto first = std::ranges::find(tokens, batch.tokens[4 * sample]) - tokens.begin();
      for (std::size_t i = 0; i < 4; ++i) {
        CHECK(batch.tokens[4 * sample + i] == tokens[static_cast<std::size_t>(first) + i]);
        CHECK(batch.targets[4 * sample + i] == tokens[static_cast<std::size_t>(first) + i + 1]);
      }
    }
  }
  const auto complaint = [&](const std::string& bytes, GptConfig of) {
    write(bytes);
    return usage_error([&] { Corpus::from_tokens(path, of); });
  };
  const auto says = [&](const std::string& bytes, const std::string& words) {
    const std::string text = complaint(bytes, config);
    CHECK(contains(text, "--tokens " + path));
    CHECK(contains(text, words));
  };
  says(stream_of(tokens) + "x", "15 bytes, not a whole number of tokens");
  says(header_of(20240801, 7, 7) + stream_of(tokens), "Llama 3");
  says(header_of(20240520, 2, 7) + stream_of(tokens), "version 2");
  says(header_of(20240520, 1, 8) + stream_of(tokens), "its header says 8 tokens");
  says(header_of(20240520, 1, -1) + stream_of(tokens), "its header says -1 tokens");
  says("", "is empty");
  CHECK(contains(complaint(stream_of({1, 2, 3, 4}), config), "has 4 tokens"));
  GptConfig small = config;
  small.vocabulary = 50256;
  const std::string text = complaint(stream_of(tokens), small);
  CHECK(contains(text, "the token 50256"));
  CHECK(contains(text, "--vocab 50257"));
}
