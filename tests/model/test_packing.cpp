#include "core/model/packing.h"

#include <doctest/doctest.h>

#include <map>
#include <numeric>
#include <random>

#include "core/model/philox.h"
#include "tests/model/fixture.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

GptConfig random_llama(std::mt19937& random) {
  const auto up_to = [&](unsigned n) { return static_cast<int>(random() % n); };
  GptConfig config;
  const int groups = 1 + up_to(3);
  config.heads = groups * (1 + up_to(3));
  config.hidden = config.heads * 2 * (1 + up_to(4));
  config.layers = 1 + up_to(2);
  config.sequence = 8 + up_to(40);
  config.vocabulary = 20 + up_to(60);
  config.tied = up_to(2) == 1;
  config.llama = LlamaConfig{.kv_heads = groups, .mlp_width = 1 + up_to(40)};
  return config;
}

}  // namespace

TEST_CASE("documents fill a sample, differ between samples, and have a long tail") {
  double tokens = 0, documents = 0;
  int longest = 0;
  for (std::uint64_t sample = 0; sample < 200; ++sample) {
    const Documents packed = packed_documents(3, 5, sample, 4096, 50);
    CHECK(packed != packed_documents(3, 6, sample, 4096, 50));
    CHECK(packed != packed_documents(4, 5, sample, 4096, 50));
    CHECK(packed != packed_documents(3, 5, sample + 1, 4096, 50));
    CHECK(std::accumulate(packed.begin(), packed.end(), 0) == 4096);
    CHECK(std::ranges::min(packed) >= 1);
    tokens += 4096;
    documents += static_cast<double>(packed.size());
    longest = std::max(longest, std::ranges::max(packed));
  }
  CHECK(tokens / documents == doctest::Approx(50).epsilon(0.05));
  CHECK(longest > 10 * 50);
  CHECK(packed_documents(3, 5, 0, 64, 0) == Documents{64});
}

TEST_CASE("a sample's documents and texts are the same however the batch is split") {
  const GptConfig config{.sequence = 40};
  const Corpus corpus{random_text(3000, 200), config};
  const Batch whole = corpus.batch(9, 4, {.microbatches = 1, .size = 12, .documents = 7});
  for (const auto& [m, replicas] : {std::pair{1, 2}, {3, 1}, {2, 3}, {4, 3}})
    for (int replica = 0; replica < replicas; ++replica) {
      const int size = 12 / (m * replicas);
      const Batch part = corpus.batch(9, 4,
                                      {.microbatches = m,
                                       .size = size,
                                       .replicas = replicas,
                                       .replica = replica,
                                       .documents = 7});
      const auto first = static_cast<std::ptrdiff_t>(replica) * m * size;
      const auto same = [&](const std::vector<std::int32_t>& mine,
                            const std::vector<std::int32_t>& all) {
        return std::equal(mine.begin(), mine.end(), all.begin() + first * 40);
      };
      CHECK(same(part.tokens, whole.tokens));
      CHECK(same(part.targets, whole.targets));
      CHECK(same(part.positions, whole.positions));
      const auto& documents = whole.masks.front()->documents;
      for (int i = 0; i < m * size; ++i)
        CHECK(part.masks[static_cast<std::size_t>(i / size)]
                  ->documents[static_cast<std::size_t>(i % size)] ==
              documents[static_cast<std::size_t>(first + i)]);
    }
}

TEST_CASE("a mask has exactly the pairs of one document, whichever rank holds the keys") {
  std::mt19937 random{17};
  for (const ContextLayout layout : {ContextLayout::contiguous, ContextLayout::zigzag,
                                     ContextLayout::striped, ContextLayout::balanced})
    for (int round = 0; round < 10; ++round) {
      const int n = 1 + static_cast<int>(random() % 4),
                s = 2 * n * (1 + static_cast<int>(random() % 9));
      std::vector<Documents> sequences;
      for (std::uint64_t i = 0; i < 3; ++i)
        sequences.push_back(
            packed_documents(random(), 0, i, s, 1 + static_cast<int>(random() % 12)));
      std::int64_t pairs = 0;
      for (int self = 0; self < n; ++self) {
        Batch batch;
        add_masks(batch, sequences, {layout, self, n});
        place_masks(batch, View{batch.visible.data(),
                                {static_cast<std::int64_t>(batch.visible.size())},
                                DType::i32});
        const DocumentMasks& masks = *batch.masks.front();
        REQUIRE(masks.by_rank.size() == static_cast<std::size_t>(n == 1 ? 0 : n));
        // The masks' (query, key) pairs, as positions, by sequence.
        for (std::size_t i = 0; i < sequences.size(); ++i) {
          std::vector<int> document;  // of each position
          for (std::size_t d = 0; d < sequences[i].size(); ++d)
            document.insert(document.end(), static_cast<std::size_t>(sequences[i][d]),
                            static_cast<int>(d));
          const auto positions = [&](int rank) {
            std::vector<int> list;
            for (const auto& [begin, end] : context_positions(layout, sequences[i], rank, n))
              for (int position = begin; position < end; ++position) list.push_back(position);
            return list;
          };
          // Whole sequences, as one rank and Ulysses see them.
          const auto length = static_cast<std::size_t>(s);
          for (std::size_t q = 0; q < length; ++q) {
            const std::int32_t* const range = masks.whole.visible.i32() + (i * length + q) * 2;
            CHECK(range[1] == static_cast<std::int32_t>(q) + 1);
            CHECK(document[static_cast<std::size_t>(range[0])] == document[q]);
            CHECK(
                (range[0] == 0 || document[static_cast<std::size_t>(range[0]) - 1] != document[q]));
          }
          const std::vector<int> own = positions(self);
          for (int source = 0; n > 1 && source < n; ++source) {
            const std::vector<int> keys = positions(source);
            const View visible = masks.by_rank[static_cast<std::size_t>(source)].visible;
            for (std::size_t q = 0; q < own.size(); ++q) {
              const std::int32_t* const range = visible.i32() + (i * own.size() + q) * 2;
              for (std::size_t k = 0; k < keys.size(); ++k) {
                const bool sees = document[static_cast<std::size_t>(keys[k])] ==
                                      document[static_cast<std::size_t>(own[q])] &&
                                  keys[k] <= own[q];
                const bool in_range =
                    static_cast<int>(k) >= range[0] && static_cast<int>(k) < range[1];
                CHECK(sees == in_range);
              }
            }
          }
        }
        for (const DocumentMask& mask : masks.by_rank) pairs += mask.pairs;
        if (n == 1 || self == n - 1) {
          std::int64_t all = 0;
          for (const Documents& each : sequences) all += attention_pairs(each, {{0, s}});
          CHECK(masks.whole.pairs == all);
          if (n > 1) CHECK(pairs == all);
        }
      }
    }
}

TEST_CASE("packed documents train as documents that are sequences of their own") {
  std::mt19937 random{23};
  double worst = 0;
  for (int round = 0; round < 12; ++round) {
    const GptConfig config = random_llama(random);
    const Corpus corpus{random_text(500, config.vocabulary), config};
    const BatchShape shape{.microbatches = 1 + static_cast<int>(random() % 2),
                           .size = 1 + static_cast<int>(random() % 3),
                           .documents = 1 + static_cast<int>(random() % 12)};
    const Batch packed = corpus.batch(5, round, shape);

    OneDevice device;
    Gpt model{config, device.device(), StageLayers::whole(config), 1};
    const double loss = accumulate_gradients(model, packed);
    const std::vector<Named> together = gradients(model);

    OneDevice other;
    Gpt same{config, other.device(), StageLayers::whole(config), 1};
    double sum = 0;
    std::size_t first = 0;
    for (const Microbatch& microbatch : packed.microbatches)
      for (const Documents& documents : microbatch.masks->documents)
        for (const int length : documents) {
          const auto part = [&](const std::vector<std::int32_t>& of) {
            return View{const_cast<std::int32_t*>(of.data()) + first, {1, length}, DType::i32};
          };
          CHECK(packed.positions[first] == 0);
          const Microbatch alone{part(packed.tokens), part(packed.targets), microbatch.token_weight,
                                 false, part(packed.positions)};
          Stash stash;
          same.forward(alone, {}, stash);
          sum += same.loss(stash);
          same.backward({}, stash);
          first += static_cast<std::size_t>(length);
        }
    CHECK(first == packed.tokens.size());
    same.finish_gradients();
    CHECK(loss == doctest::Approx(sum).epsilon(1e-6));
    const std::vector<Named> apart = gradients(same);
    for (std::size_t i = 0; i < together.size(); ++i) {
      CAPTURE(together[i].name);
      worst = std::max(worst, parity_distance(together[i].values, apart[i].values));
    }
  }
  MESSAGE("largest parity distance of a gradient: ", worst);
  CHECK(worst < 1e-6);
}
