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
    CHECK(parts.microbatches[1].loss_scale == 1.0F / static_cast<float>(12 * config.sequence));
    // One replica's share of the batch.
    const Batch second =
        corpus.batch(5, i, {.microbatches = 2, .size = 3, .replicas = 2, .replica = 1});
    CHECK(second.microbatches[1].loss_scale == parts.microbatches[1].loss_scale);
    CHECK(std::equal(second.targets.begin(), second.targets.end(),
                     whole.targets.begin() + static_cast<std::ptrdiff_t>(6 * s)));
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
  CHECK(contains(message(folder.path), "is a directory"));
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
    CHECK(contains(message(folder / "closed"), "can't be opened"));

  config.vocabulary = 50;
  const std::string vocabulary = usage_error([&] { Corpus::from_file(folder / "fits", config); });
  CHECK(contains(vocabulary, "--vocab 50"));
  CHECK(contains(vocabulary, "use --vocab 58"));
}
