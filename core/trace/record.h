#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/base/span.h"
#include "core/time/time.h"

namespace lockstep {

/// An event in a lane's queue: eight words, one cache line.
struct Record {
  enum class Kind : std::uint8_t { span, withdrawn };
  using Words = std::array<std::uint64_t, 8>;

  /// Packs a span. `label` encodes the span's group, group size and algorithm; `step` replaces
  /// the span's own step. Composes each word in a register, because loading a word that was stored
  /// as several smaller parts would stall.
  static Words of(const Span& span, int step, std::uint16_t label, Picoseconds start,
                  Picoseconds end) {
    return {reinterpret_cast<std::uintptr_t>(span.name),
            static_cast<std::uint64_t>(start),
            static_cast<std::uint64_t>(end),
            static_cast<std::uint64_t>(span.bytes),
            span.category == Category::kernel ? std::bit_cast<std::uint64_t>(span.flops)
                                              : message_word(span),
            pair((span.stage & 0xffff) | (span.layer << 16), span.microbatch),
            pair(static_cast<int>(span.sequence), span.peer),
            pair(step, (static_cast<std::uint32_t>(span.category) << 8) |
                           (static_cast<std::uint32_t>(label) << 16))};
  }

  static Kind kind(const Words& words) { return static_cast<Kind>((words[7] >> 32) & 0xff); }
  static std::uint16_t label(const Words& words) {
    return static_cast<std::uint16_t>(words[7] >> 48);
  }
  static Picoseconds start(const Words& words) { return static_cast<Picoseconds>(words[1]); }
  static Picoseconds end(const Words& words) { return static_cast<Picoseconds>(words[2]); }
  static void set_end(Words& words, Picoseconds end) { words[2] = static_cast<std::uint64_t>(end); }
  /// Turns the record of an announced span into a record that withdraws the announcement.
  static void withdraw(Words& words) {
    words[7] |= static_cast<std::uint64_t>(Kind::withdrawn) << 32;
  }
  /// Unpacks a span, except for the fields that the label encodes.
  static Span span(const Words& words) {
    Span span;
    span.name = reinterpret_cast<const char*>(words[0]);
    span.category = static_cast<Category>((words[7] >> 40) & 0xff);
    span.stage = static_cast<std::int16_t>(low(words[5]));
    span.layer = static_cast<std::int16_t>(low(words[5]) >> 16);
    span.microbatch = high(words[5]);
    span.sequence = low(words[6]);
    span.peer = high(words[6]);
    span.bytes = static_cast<std::int64_t>(words[3]);
    span.step = low(words[7]);
    if (span.category == Category::kernel) {
      span.flops = std::bit_cast<double>(words[4]);
    } else {
      span.message = words[4] & most_message;
      span.role = static_cast<MessageRole>((words[4] >> 56) & 0xf);
      span.payload = static_cast<Payload>(words[4] >> 60);
    }
    return span;
  }

 private:
  static constexpr std::uint64_t most_message = (std::uint64_t{1} << 52) - 1;
  static std::uint64_t message_word(const Span& span) {
    return span.message | (static_cast<std::uint64_t>(span.role) << 56) |
           (static_cast<std::uint64_t>(span.payload) << 60);
  }
  template <class High>
  static std::uint64_t pair(int low, High high) {
    return static_cast<std::uint32_t>(low) |
           (static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32);
  }
  static int low(std::uint64_t word) { return static_cast<int>(static_cast<std::uint32_t>(word)); }
  static int high(std::uint64_t word) { return static_cast<int>(word >> 32); }
};

/// Storage for a Record. A reader may read a slot while it is being overwritten. The reader detects
/// this from a version outside the slot, which the writer changes before it changes the slot.
/// (Stores therefore use release order, and loads use acquire order; on x86 both are plain
/// instructions.)
class alignas(64) Slot {
 public:
  void store(const Record::Words& words) { store(words, std::make_index_sequence<8>{}); }
  Record::Words load() const { return load(std::make_index_sequence<8>{}); }

 private:
  // Unrolled, because with a loop the words would pass through memory.
  template <std::size_t... i>
  void store(const Record::Words& words, std::index_sequence<i...>) {
    (words_[i].store(words[i], std::memory_order_release), ...);
  }
  template <std::size_t... i>
  Record::Words load(std::index_sequence<i...>) const {
    return {words_[i].load(std::memory_order_acquire)...};
  }

  std::array<std::atomic<std::uint64_t>, 8> words_{};
};

}  // namespace lockstep
