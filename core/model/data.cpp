#include "core/model/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "core/base/available_memory.h"
#include "core/base/error.h"
#include "core/model/philox.h"

namespace lockstep {

std::vector<std::int32_t> Tokenizer::encode(const std::string& text) {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size());
  for (char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

std::string Tokenizer::decode(const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (std::int32_t token : tokens)
    text.push_back(token >= 0 && token < vocabulary ? static_cast<char>(token) : '?');
  return text;
}

Corpus::Corpus(std::string text, const GptConfig& config, const std::string& name)
    : text_(std::move(text)), sequence_(config.sequence) {
  const std::size_t wanted = static_cast<std::size_t>(sequence_) + 1;
  if (text_.size() < wanted) {
    throw UsageError{
        fmt::format("--data: {} has {} bytes, and one sample takes --sequence + 1 = {}; use a "
                    "longer text or a shorter --sequence",
                    name, text_.size(), wanted)};
  }
  const auto highest = static_cast<unsigned char>(
      *std::ranges::max_element(text_, {}, [](char c) { return static_cast<unsigned char>(c); }));
  if (highest >= config.vocabulary) {
    throw UsageError{
        fmt::format("--vocab {}: {} contains the byte {}; use --vocab {}, or {} for any text",
                    config.vocabulary, name, highest, highest + 1, Tokenizer::vocabulary)};
  }
}

Corpus Corpus::from_file(const std::string& path, const GptConfig& config) {
  const auto unfit = [&](const std::string& why) {
    return UsageError{fmt::format("--data {}: {}; give any readable text file", path, why)};
  };
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw unfit("no such file");
  if (std::filesystem::is_directory(status)) throw unfit("is a directory");
  // Reading a device or a pipe may never end.
  if (!std::filesystem::is_regular_file(status)) throw unfit("is not a regular file");
  const auto size = std::filesystem::file_size(path, error);
  if (error) throw unfit("can't be read");
  if (size == 0) throw unfit("is empty");
  if (const auto available = available_memory(); size > static_cast<std::uintmax_t>(available))
    throw unfit(fmt::format("has {}, and is read into memory, of which {} are available",
                            text_of_bytes(static_cast<double>(size)),
                            text_of_bytes(static_cast<double>(available))));
  std::ifstream file{path, std::ios::binary};
  if (!file) throw unfit("can't be opened for reading");
  std::string text(size, '\0');
  file.read(text.data(), static_cast<std::streamsize>(size));
  if (file.gcount() != static_cast<std::streamsize>(size)) throw unfit("can't be read");
  return Corpus{std::move(text), config, path};
}

void move_to(Device device, Batch& batch) {
  Gpu* gpu = device.compute.gpu();
  if (gpu == nullptr) return;
  const Queue queue = device.compute.queue();
  const auto n = static_cast<std::int64_t>(batch.tokens.size());
  const View tokens{
      gpu->allocate(2 * batch.tokens.size() * sizeof(std::int32_t), queue), {2 * n}, DType::i32};
  batch.copy = {tokens.data, [gpu, queue](void* data) { gpu->release(data, queue); }};
  std::vector<std::int32_t> all = batch.tokens;  // tokens, then targets
  all.insert(all.end(), batch.targets.begin(), batch.targets.end());
  device.compute.write(all.data(), tokens);
  std::int64_t first = 0;
  for (Microbatch& each : batch.microbatches) {
    const Shape shape = each.tokens.shape;
    each.tokens = tokens.columns(first, shape.elements()).reshaped(shape);
    each.targets = tokens.columns(n + first, shape.elements()).reshaped(shape);
    first += shape.elements();
  }
}

Batch Corpus::batch(std::uint64_t seed, int step, const BatchShape& shape) const {
  const std::int64_t m = shape.microbatches, b = shape.size;
  const std::vector<Positions> all{{0, sequence_}};
  const std::vector<Positions>& positions = shape.positions.empty() ? all : shape.positions;
  std::int64_t s = 0;  // positions read from each sequence
  for (const Positions& each : positions) s += each.end - each.begin;
  Batch batch;
  batch.tokens.reserve(static_cast<std::size_t>(m * b * s));
  batch.targets.reserve(batch.tokens.capacity());
  const RandomStream random{seed, Purpose::data, static_cast<std::uint32_t>(step)};
  const std::uint64_t windows = text_.size() - static_cast<std::size_t>(sequence_);
  for (std::int64_t sample = 0; sample < m * b; ++sample) {
    const auto bits = random.bits(static_cast<std::uint64_t>(shape.replica * m * b + sample));
    const std::uint64_t wide = (std::uint64_t{bits[0]} << 32) | bits[1];
    const auto* const start = reinterpret_cast<const unsigned char*>(text_.data()) + wide % windows;
    for (const auto [begin, end] : positions) {
      batch.tokens.insert(batch.tokens.end(), start + begin, start + end);
      batch.targets.insert(batch.targets.end(), start + begin + 1, start + end + 1);
    }
  }
  const float scale = 1.0F / static_cast<float>(shape.replicas * m * b * sequence_);
  for (std::int64_t i = 0; i < m; ++i) {
    const auto offset = i * b * s;
    batch.microbatches.push_back({View{batch.tokens.data() + offset, {b, s}, DType::i32},
                                  View{batch.targets.data() + offset, {b, s}, DType::i32}, scale,
                                  i == m - 1});
  }
  return batch;
}

}  // namespace lockstep
