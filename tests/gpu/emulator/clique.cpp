#include "tests/gpu/emulator/clique.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernels/element.h"

namespace emulator {

namespace {

const char* name_of(Kind kind) {
  constexpr const char* names[] = {"send or receive", "broadcast",  "all_reduce",
                                   "reduce_scatter",  "all_gather", "reduce"};
  return names[static_cast<std::size_t>(kind)];
}

template <class Element, class Plus>
void add_each(std::byte* sum, const std::byte* x, std::size_t count, Plus plus) {
  auto* to = reinterpret_cast<Element*>(sum);
  const auto* from = reinterpret_cast<const Element*>(x);
  for (std::size_t i = 0; i < count; ++i) to[i] = plus(to[i], from[i]);
}

/// Computes sum += x, rounded to the type. As in a ring, 16-bit sums are rounded at every rank.
void add(std::byte* sum, const std::byte* x, std::size_t count, ncclDataType_t type) {
  using namespace lockstep::element;
  using Bits = std::uint16_t;
  switch (type) {
    case ncclFloat32:
      return add_each<float>(sum, x, count, [](float a, float b) { return a + b; });
    case ncclInt32:  // adds as unsigned, so that overflow wraps
      return add_each<std::uint32_t>(sum, x, count,
                                     [](std::uint32_t a, std::uint32_t b) { return a + b; });
    case ncclBfloat16:
      return add_each<Bits>(sum, x, count,
                            [](Bits a, Bits b) { return to_bf16(from_bf16(a) + from_bf16(b)); });
    case ncclFloat16:
      return add_each<Bits>(sum, x, count,
                            [](Bits a, Bits b) { return to_f16(from_f16(a) + from_f16(b)); });
  }
}

const std::byte* bytes(const void* data) {
  return static_cast<const std::byte*>(data);
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  return type == ncclFloat32 || type == ncclInt32 ? 4 : 2;
}

bool Clique::complete(const Key& key) const {
  const auto found = begun.find(key);
  if (found == begun.end()) return false;
  const auto& parts = found->second;
  const Part& first = *parts.front();
  if (parts.size() != (first.peer >= 0 ? 2U : static_cast<std::size_t>(size))) return false;
  // If kinds, counts, element sizes or roots differ, NCCL hangs, or worse.
  return std::all_of(parts.begin(), parts.end(), [&](const auto& part) {
    return part->kind == first.kind && part->count == first.count &&
           size_of(part->type) == size_of(first.type) && part->root == first.root;
  });
}

void Clique::perform(const Key& key) const {
  auto parts = begun.at(key);
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return a->rank < b->rank; });
  for (const auto& part : parts) part->done = true;
  const Part& first = *parts.front();
  if (first.count == 0) return;
  const std::size_t share = first.count * size_of(first.type);
  const auto ranks = static_cast<std::size_t>(size);
  const auto root = static_cast<std::size_t>(first.root);
  const bool scatters = first.kind == Kind::reduce_scatter;

  Memory& memory = Machine::get().memory();
  for (const auto& part : parts) {
    const bool gathers = first.kind == Kind::all_gather;
    if (part->from != nullptr)
      memory.must_be_valid(part->from, share * (scatters ? ranks : 1), name_of(first.kind));
    if (part->to != nullptr)
      memory.must_be_valid(part->to, share * (gathers ? ranks : 1), name_of(first.kind));
  }

  switch (first.kind) {
    case Kind::send_receive: {
      const Part& sends = parts[0]->sends ? *parts[0] : *parts[1];
      const Part& receives = parts[0]->sends ? *parts[1] : *parts[0];
      std::memcpy(receives.to, sends.from, share);
      break;
    }
    case Kind::broadcast:
      for (const auto& part : parts) std::memmove(part->to, parts[root]->from, share);
      break;
    case Kind::all_gather: {
      std::vector<std::byte> all(share * ranks);
      for (std::size_t r = 0; r < ranks; ++r)
        std::memcpy(all.data() + r * share, parts[r]->from, share);
      for (const auto& part : parts) std::memcpy(part->to, all.data(), all.size());
      break;
    }
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::reduce_scatter: {
      const std::size_t count = first.count * (scatters ? ranks : 1);
      std::vector<std::byte> sum(share * (scatters ? ranks : 1));
      std::memcpy(sum.data(), parts[0]->from, sum.size());
      for (std::size_t r = 1; r < ranks; ++r)
        add(sum.data(), bytes(parts[r]->from), count, first.type);
      for (std::size_t r = 0; r < ranks; ++r)
        if (first.kind != Kind::reduce || r == root)
          std::memcpy(parts[r]->to, sum.data() + (scatters ? r * share : 0), share);
      break;
    }
  }
}

void Clique::forget(int rank) {
  for (auto& [key, parts] : begun) std::erase_if(parts, [&](auto& p) { return p->rank == rank; });
  std::erase_if(begun, [](auto& entry) { return entry.second.empty(); });
}

GroupMeeting::GroupMeeting(std::shared_ptr<Member> member, std::vector<std::shared_ptr<Part>> parts)
    : member_(std::move(member)) {
  // Parts are numbered when they are issued: the k-th send from one rank to another matches its
  // k-th receive, and the k-th collective of one rank matches the k-th of all others.
  for (auto& part : parts) {
    Clique::Key key{-1, -1, 0, 0};
    if (part->peer < 0)
      std::get<3>(key) = member_->collectives++;
    else if (part->sends)
      key = {part->rank, part->peer, 1, member_->sends[part->peer]++};
    else
      key = {part->peer, part->rank, 1, member_->receives[part->peer]++};
    parts_.emplace_back(key, std::move(part));
  }
  member_->order.push_back(this);
}

GroupMeeting::~GroupMeeting() {
  auto& order = member_->order;
  order.erase(std::remove(order.begin(), order.end(), this), order.end());
}

void GroupMeeting::arrive() {
  if (begun_ || member_->aborted || member_->order.front() != this) return;
  // After `fails_after` operations, the communicator behaves like a network that has failed
  // silently.
  if (member_->fails_after >= 0 && member_->operations >= member_->fails_after) return;
  ++member_->operations;
  begun_ = true;
  for (auto& [key, part] : parts_) member_->clique->begun[key].push_back(part);
}

bool GroupMeeting::can_step() const {
  return begun_ && std::any_of(parts_.begin(), parts_.end(), [&](const auto& entry) {
           return !entry.second->done && member_->clique->complete(entry.first);
         });
}

void GroupMeeting::step() {
  for (auto& [key, part] : parts_) {
    if (part->done || !member_->clique->complete(key)) continue;
    member_->clique->perform(key);
    member_->clique->begun.erase(key);
  }
}

bool GroupMeeting::done() const {
  return member_->aborted || std::all_of(parts_.begin(), parts_.end(),
                                         [](const auto& entry) { return entry.second->done; });
}

std::string GroupMeeting::waits_for() const {
  std::string text = fmt::format("rank {} of {}", member_->rank, member_->clique->size);
  if (!begun_) return text + " waits for the communicator's operation before";
  for (const auto& [key, part] : parts_) {
    if (part->done) continue;
    text +=
        fmt::format(", {} {} of {} elements{}", name_of(part->kind), std::get<3>(key), part->count,
                    part->peer < 0 ? std::string{} : fmt::format(" with rank {}", part->peer));
    const auto found = member_->clique->begun.find(key);
    if (found == member_->clique->begun.end()) continue;
    for (const auto& other : found->second)
      if (other != part)
        text += fmt::format(" (rank {} is at a {} of {})", other->rank, name_of(other->kind),
                            other->count);
  }
  return text;
}

}  // namespace emulator
