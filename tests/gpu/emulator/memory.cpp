#include "tests/gpu/emulator/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>

namespace emulator {

namespace {

constexpr std::size_t addresses_per_device = std::size_t{64} << 30U;
constexpr std::size_t guard = 256;
constexpr unsigned char guard_byte = 0xA5;
constexpr unsigned char poison = 0xFF;
/// A larger block, such as the one that fills a pool in advance, would otherwise take real memory.
constexpr std::size_t most_poisoned = std::size_t{64} << 20U;

std::uintptr_t number(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}
unsigned char* bytes_at(std::uintptr_t address) {
  return reinterpret_cast<unsigned char*>(address);
}

/// Whether the id belongs to a stream that the program created, not to a GPU's default stream.
bool is_made(std::uintptr_t stream) {
  return stream >= first_stream_id;
}

/// Rounds up to a multiple of 256 or, above 2,048, to one of 2,560, 3,072, 3,584, 4,096, 5,120, ...
/// There are only a few such sizes, so blocks are often reused.
std::size_t size_class(std::size_t bytes) {
  std::size_t power = 256;
  while (2 * power <= bytes) power *= 2;
  const std::size_t step = power / 4 < 256 ? 256 : power / 4;
  return bytes <= 256 ? 256 : (bytes + step - 1) / step * step;
}

}  // namespace

void give_up(const std::string& what) {
  std::fprintf(stderr, "GPU emulator: %s\n", what.c_str());
  std::fflush(stderr);
  std::abort();
}

Memory::Memory(int devices, std::size_t bytes_per_device)
    : total_(bytes_per_device),
      pools_(static_cast<std::size_t>(devices)),
      next_(static_cast<std::size_t>(devices)),
      used_(static_cast<std::size_t>(devices)) {
  const char* protect = std::getenv("LOCKSTEP_EMULATOR_PROTECT");
  protect_ = protect != nullptr && std::string{protect} == "1";
  if (devices == 0) return;
  void* base = mmap(nullptr, next_.size() * addresses_per_device,
                    protect_ ? PROT_NONE : PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) give_up("no addresses for the memory of its GPUs");
  base_ = number(base);
}

void* Memory::hand_out(int device, std::size_t bytes, std::uintptr_t stream,
                       std::uintptr_t* waits_for) {
  const auto d = static_cast<std::size_t>(device);
  const std::size_t capacity = size_class(bytes);
  const bool may_wait = waits_for != nullptr && pools_[d].internal_dependencies;
  auto found = find_reusable(device, capacity, stream, may_wait);
  if (found != blocks_.end()) {
    const Block& block = found->second;
    if (may_wait && block.frees_pending > 0 && block.stream != stream) *waits_for = block.stream;
  } else {
    if (used_[d] + capacity > total_) trim(device);
    const std::size_t addresses = capacity + 2 * guard;
    if (used_[d] + capacity > total_ || next_[d] + addresses > addresses_per_device) return nullptr;
    const std::uintptr_t start = base_ + d * addresses_per_device + next_[d] + guard;
    next_[d] += addresses;
    used_[d] += capacity;
    found = blocks_.emplace(start, Block{.capacity = capacity, .device = device}).first;
  }
  found->second.handed_out = true;
  Pool& pool = pools_[d];
  pool.used += capacity;
  pool.most = std::max(pool.most, pool.used);
  pool.mapped = std::max(pool.mapped, pool.used);
  return bytes_at(found->first);
}

Memory::Blocks::iterator Memory::find_reusable(int device, std::size_t capacity,
                                               std::uintptr_t stream, bool may_wait) {
  auto other = blocks_.end();
  auto pending = blocks_.end();
  for (auto it = blocks_.begin(); it != blocks_.end(); ++it) {
    const Block& block = it->second;
    if (block.handed_out || block.capacity != capacity || block.device != device) continue;
    if (stream != 0 && block.stream == stream) return it;
    if (block.frees_pending == 0) other = it;
    if (may_wait && block.frees_pending > 0 && is_made(block.stream)) pending = it;
  }
  return other != blocks_.end() ? other : pending;
}

/// Returns all free blocks to the GPU, so that their memory can hold a block of another size.
void Memory::trim(int device) {
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    const Block& block = it->second;
    if (block.device == device && !block.handed_out && block.frees_pending == 0) {
      used_[static_cast<std::size_t>(device)] -= block.capacity;
      it = blocks_.erase(it);
    } else {
      ++it;
    }
  }
}

bool Memory::must_grow(int device, std::size_t bytes) const {
  const Pool& pool = pools_[static_cast<std::size_t>(device)];
  return pool.used + size_class(bytes) > pool.mapped;
}

void Memory::reset_most_used(int device) {
  Pool& pool = pools_[static_cast<std::size_t>(device)];
  pool.most = pool.used;
}

void Memory::take_back(void* data, std::uintptr_t stream) {
  const auto found = blocks_.find(number(data));
  if (found == blocks_.end()) give_up(fmt::format("free of {}, which is no block", data));
  if (!found->second.handed_out) give_up(fmt::format("the block at {} is freed twice", data));
  found->second.handed_out = false;
  pools_[static_cast<std::size_t>(found->second.device)].used -= found->second.capacity;
  found->second.stream = stream;
  ++found->second.frees_pending;
}

void Memory::become_valid(void* data, std::size_t bytes) {
  const std::uintptr_t start = number(data);
  Block& block = blocks_.at(start);
  block.valid = true;
  block.bytes = bytes;
  std::memset(bytes_at(start - guard), guard_byte, guard);
  std::memset(bytes_at(start), poison, std::min(bytes, most_poisoned));
  std::memset(bytes_at(start + bytes), guard_byte, block.capacity - bytes + guard);
}

void Memory::become_free(void* data) {
  const std::uintptr_t start = number(data);
  Block& block = blocks_.at(start);
  if (!block.valid)
    give_up(
        fmt::format("the block at {} is freed before its allocation is executed: a stream "
                    "that frees must wait for the one that allocates",
                    data));
  check_guards(start, block);
  std::memset(bytes_at(start), poison, std::min(block.bytes, most_poisoned));
  block.valid = false;
  --block.frees_pending;
}

void Memory::check_guards(std::uintptr_t start, const Block& block) const {
  const auto intact = [](std::uintptr_t from, std::uintptr_t to) {
    for (std::uintptr_t at = from; at != to; ++at)
      if (*bytes_at(at) != guard_byte) return false;
    return true;
  };
  const char* side = !intact(start - guard, start)                                  ? "before"
                     : !intact(start + block.bytes, start + block.capacity + guard) ? "after"
                                                                                    : nullptr;
  if (side != nullptr)
    give_up(fmt::format("something was written {} the block of {} bytes at {}", side, block.bytes,
                        static_cast<const void*>(bytes_at(start))));
}

void* Memory::hand_out_pinned(std::size_t bytes) {
  const std::size_t rounded = (bytes / 4096 + 1) * 4096;
  void* data = std::aligned_alloc(4096, rounded);
  if (data == nullptr) return nullptr;
  std::memset(data, poison, rounded);
  pinned_[number(data)] = bytes;
  return data;
}

void Memory::take_back_pinned(void* data) {
  if (pinned_.erase(number(data)) == 0)
    give_up(fmt::format("release of {}, which is not pinned memory", data));
  std::free(data);
}

Where Memory::where(const void* data) const {
  if (device_of(data) >= 0) return Where::gpu;
  const auto after = pinned_.upper_bound(number(data));
  if (after == pinned_.begin()) return Where::pageable;
  const auto& [start, bytes] = *std::prev(after);
  return number(data) < start + bytes ? Where::pinned : Where::pageable;
}

int Memory::device_of(const void* data) const {
  const std::uintptr_t address = number(data);
  if (base_ == 0 || address < base_) return -1;
  const std::size_t device = (address - base_) / addresses_per_device;
  return device < next_.size() ? static_cast<int>(device) : -1;
}

const Memory::Block* Memory::containing(const void* data, std::uintptr_t& start) const {
  const auto after = blocks_.upper_bound(number(data));
  if (after == blocks_.begin()) return nullptr;
  const auto& [address, block] = *std::prev(after);
  start = address;
  return number(data) < address + block.capacity + guard ? &block : nullptr;
}

void Memory::must_be_valid(const void* data, std::size_t bytes, const char* who) const {
  if (bytes == 0) return;
  std::uintptr_t start = 0;
  switch (where(data)) {
    case Where::pageable:
      return;
    case Where::pinned: {
      const auto& [first, size] = *std::prev(pinned_.upper_bound(number(data)));
      if (number(data) + bytes > first + size)
        give_up(fmt::format("{} of {} bytes passes the end of pinned memory", who, bytes));
      return;
    }
    case Where::gpu:
      break;
  }
  const Block* block = containing(data, start);
  if (block == nullptr || !block->valid)
    give_up(
        fmt::format("{} of {} bytes at {} of GPU {}, where nothing is allocated now: it was "
                    "freed, or its allocation is not executed yet",
                    who, bytes, data, device_of(data)));
  if (number(data) + bytes > start + block->bytes)
    give_up(fmt::format("{} of {} bytes at offset {} of a block of {} bytes", who, bytes,
                        number(data) - start, block->bytes));
}

std::size_t Memory::used(int device) const {
  return used_[static_cast<std::size_t>(device)];
}

void Memory::allow_access(bool allowed) {
  if (protect_ && base_ != 0)
    mprotect(bytes_at(base_), next_.size() * addresses_per_device,
             allowed ? PROT_READ | PROT_WRITE : PROT_NONE);
}

}  // namespace emulator
