#include "core/model/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/input_file.h"
#include "core/model/packing.h"
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

Corpus::Corpus(std::string text, std::size_t width, const GptConfig& config,
               const std::string& flag, const std::string& name)
    : text_(std::move(text)), width_(width), sequence_(config.sequence) {
  const char* const unit = width == 1 ? "bytes" : "tokens";
  const std::size_t wanted = static_cast<std::size_t>(sequence_) + 1;
  if (tokens() < wanted) {
    throw UsageError{
        fmt::format("{}: {} has {} {}, and one sample takes --sequence + 1 = {}; use a "
                    "longer text or a shorter --sequence",
                    flag, name, tokens(), unit, wanted)};
  }
  std::int32_t highest = 0;
  for (std::size_t i = 0; i < tokens(); ++i) highest = std::max(highest, token(i));
  if (highest >= config.vocabulary) {
    throw UsageError{
        width == 1
            ? fmt::format("--vocab {}: {} contains the byte {}; use --vocab {}, or {} for any text",
                          config.vocabulary, name, highest, highest + 1, Tokenizer::vocabulary)
            : fmt::format("--vocab {}: {} contains the token {}; use --vocab {} or more",
                          config.vocabulary, name, highest, highest + 1)};
  }
}

Corpus::Corpus(std::string text, const GptConfig& config, const std::string& name)
    : Corpus(std::move(text), 1, config, "--data", name) {}

namespace {

/// Reads a file. `shown` is its flag and path; `remedy` ends the message of a UsageError.
std::string content_of(const std::string& path, const std::string& shown,
                       const std::string& remedy) {
  const auto unfit = [&](const std::string& why) {
    return UsageError{fmt::format("{}: {}; {}", shown, why, remedy)};
  };
  try {
    std::string text = lockstep::content_of(path);
    if (text.empty()) throw unfit("is empty");
    return text;
  } catch (const InputError& error) {
    throw unfit(error.what());
  }
}

}  // namespace

Corpus Corpus::from_file(const std::string& path, const GptConfig& config) {
  return Corpus{content_of(path, "--data " + path, "give any readable text file"), config, path};
}

Corpus Corpus::from_tokens(const std::string& path, const GptConfig& config) {
  const std::string remedy =
      "give a file of uint16 tokens, as nanoGPT or llm.c write for GPT-2; --data takes a text";
  std::string text = content_of(path, "--tokens " + path, remedy);
  const auto unfit = [&](const std::string& why) {
    return UsageError{fmt::format("--tokens {}: {}; {}", path, why, remedy)};
  };
  // The magic number's lower half, 55432, is not a GPT-2 token, so a stream without a header can't
  // begin with it.
  constexpr std::size_t header_bytes = 256 * sizeof(std::int32_t);
  constexpr std::int32_t magic_of_gpt2 = 20240520, magic_of_llama3 = 20240801;
  std::int32_t header[3]{};  // magic number, version, tokens
  std::memcpy(header, text.data(), std::min(text.size(), sizeof header));
  if (header[0] == magic_of_llama3)
    throw unfit("is llm.c's format for Llama 3, which has uint32 tokens");
  if (header[0] == magic_of_gpt2) {
    if (header[1] != 1) throw unfit(fmt::format("has version {} of llm.c's format", header[1]));
    if (header[2] < 0 || text.size() != header_bytes + 2 * static_cast<std::size_t>(header[2]))
      throw unfit(fmt::format("has {} bytes, but its header says {} tokens, which take {}",
                              text.size(), header[2],
                              static_cast<std::int64_t>(header_bytes) + 2LL * header[2]));
    text.erase(0, header_bytes);
  }
  if (text.size() % 2 != 0)
    throw unfit(fmt::format("has {} bytes, not a whole number of tokens", text.size()));
  return Corpus{std::move(text), 2, config, "--tokens", path};
}

void move_to(Device device, Batch& batch) {
  Gpu* gpu = device.compute.gpu();
  if (gpu == nullptr) return;
  const Queue queue = device.compute.queue();
  std::vector<std::int32_t> all = batch.tokens;  // tokens, targets, positions, masks
  for (const auto* part : {&batch.targets, &batch.positions, &batch.visible})
    all.insert(all.end(), part->begin(), part->end());
  const auto n = static_cast<std::int64_t>(batch.tokens.size());
  const View copy{gpu->allocate(all.size() * sizeof(std::int32_t), queue),
                  {static_cast<std::int64_t>(all.size())},
                  DType::i32};
  batch.copy = {copy.data, [gpu, queue](void* data) { gpu->release(data, queue); }};
  device.compute.write(all.data(), copy);
  std::int64_t first = 0;
  for (Microbatch& each : batch.microbatches) {
    const Shape shape = each.tokens.shape;
    const auto part = [&](std::int64_t of) {
      return copy.columns(of * n + first, shape.elements()).reshaped(shape);
    };
    each.tokens = part(0);
    each.targets = part(1);
    each.positions = part(2);
    first += shape.elements();
  }
  place_masks(batch, copy.columns(3 * n, copy.elements() - 3 * n));
}

namespace {

/// Adds the microbatches, whose tokens, targets and positions lie one after another, and their
/// masks.
void divide(Batch& batch, const BatchShape& shape, int sequence,
            const std::vector<Documents>& documents) {
  const std::int64_t m = shape.microbatches, b = shape.size, s = sequence / shape.context.members;
  const float scale = 1.0F / static_cast<float>(shape.all() * sequence);
  const bool stored = !batch.tokens.empty();
  for (std::int64_t i = 0; i < m; ++i) {
    const auto part = [&](std::vector<std::int32_t>& tokens) {
      return View{stored ? tokens.data() + i * b * s : nullptr, {b, s}, DType::i32};
    };
    if (shape.documents > 0)
      add_masks(batch, {documents.begin() + i * b, documents.begin() + (i + 1) * b}, shape.context);
    batch.microbatches.push_back({part(batch.tokens), part(batch.targets), scale, i == m - 1,
                                  part(batch.positions),
                                  shape.documents > 0 ? batch.masks.back().get() : nullptr});
  }
  if (stored && shape.documents > 0)
    place_masks(
        batch,
        View{batch.visible.data(), {static_cast<std::int64_t>(batch.visible.size())}, DType::i32});
}

/// Returns the documents of each of a replica's samples.
std::vector<Documents> documents_of(const BatchShape& shape, int sequence, std::uint64_t seed,
                                    int step) {
  std::vector<Documents> documents;
  const int count = shape.microbatches * shape.size;
  for (int sample = 0; sample < count; ++sample)
    documents.push_back(packed_documents(
        seed, step, static_cast<std::uint64_t>(shape.first()) + static_cast<std::uint64_t>(sample),
        sequence, shape.documents));
  return documents;
}

}  // namespace

void weigh(Batch& batch, int replicas) {
  std::int64_t tokens = 0;
  for (const Microbatch& each : batch.microbatches) tokens += each.tokens.elements();
  for (Microbatch& each : batch.microbatches)
    each.token_weight = 1.0F / static_cast<float>(tokens * replicas);
}

void keep_replicas(Batch& batch, const std::vector<int>& replicas, int of) {
  const std::size_t each = batch.microbatches.size() / static_cast<std::size_t>(of);
  std::vector<Microbatch> kept;
  for (const int replica : replicas)
    for (std::size_t i = 0; i < each; ++i) {
      kept.push_back(batch.microbatches[static_cast<std::size_t>(replica) * each + i]);
      kept.back().last = false;
    }
  kept.back().last = true;
  batch.microbatches = std::move(kept);
  weigh(batch, 1);
}

Batch batch_without_tokens(const BatchShape& shape, int sequence, std::uint64_t seed, int step) {
  Batch batch;
  divide(batch, shape, sequence, documents_of(shape, sequence, seed, step));
  return batch;
}

Batch Corpus::batch(std::uint64_t seed, int step, const BatchShape& shape) const {
  const std::size_t samples =
      static_cast<std::size_t>(shape.microbatches) * static_cast<std::size_t>(shape.size);
  const std::vector<Documents> documents = documents_of(shape, sequence_, seed, step);
  Batch batch;
  const std::size_t size = samples * static_cast<std::size_t>(sequence_) /
                           static_cast<std::size_t>(shape.context.members);
  for (auto* part : {&batch.tokens, &batch.targets, &batch.positions}) part->reserve(size);
  const RandomStream random{seed, Purpose::data, static_cast<std::uint32_t>(step)};
  for (std::size_t sample = 0; sample < samples; ++sample) {
    const std::uint64_t number = static_cast<std::uint64_t>(shape.first()) + sample;
    // For each position: where its document starts in the text, and its place in the document.
    std::vector<std::size_t> starts;
    std::vector<std::int32_t> places;
    for (std::size_t i = 0; i < documents[sample].size(); ++i) {
      const int length = documents[sample][i];
      const auto bits = random.bits(number + (std::uint64_t{i} << 40));
      const std::uint64_t wide = (std::uint64_t{bits[0]} << 32) | bits[1];
      const std::size_t start = wide % (tokens() - static_cast<std::size_t>(length));
      for (int place = 0; place < length; ++place) {
        starts.push_back(start);
        places.push_back(place);
      }
    }
    const auto& [layout, member, members] = shape.context;
    const std::vector<Positions> all{{0, sequence_}};
    for (const auto& [begin, end] :
         members == 1 ? all : context_positions(layout, documents[sample], member, members))
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        const std::size_t at = starts[i] + static_cast<std::size_t>(places[i]);
        batch.tokens.push_back(token(at));
        batch.targets.push_back(token(at + 1));
        batch.positions.push_back(places[i]);
      }
  }
  divide(batch, shape, sequence_, documents);
  return batch;
}

}  // namespace lockstep
