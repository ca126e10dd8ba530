#include "viz/read/timeline/span_descriptions.h"

namespace lockstep {

std::size_t SpanDescriptions::Hash::operator()(const TimelineSpan& span) const {
  std::uint64_t hash = 0;
  const auto add = [&](auto field) {
    hash = (hash ^ static_cast<std::uint64_t>(field)) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 32;
  };
  add(span.message >> 32);
  add(span.bytes);
  add(span.name);
  add(span.stage);
  add(span.microbatch);
  add(span.peer);
  add(span.group);
  add(span.group_size);
  add(span.layer);
  add(span.algorithm);
  add(span.category);
  add(span.role);
  add(span.payload);
  return static_cast<std::size_t>(hash);
}

bool SpanDescriptions::Same::operator()(const TimelineSpan& span, Id id) const {
  const TimelineSpan& known = (*all)[id];
  return known.name == span.name && known.microbatch == span.microbatch &&
         known.stage == span.stage && known.category == span.category &&
         known.bytes == span.bytes && known.peer == span.peer && known.group == span.group &&
         known.group_size == span.group_size && known.layer == span.layer &&
         known.algorithm == span.algorithm && known.role == span.role &&
         known.payload == span.payload && known.message >> 32 == span.message >> 32;
}

SpanDescriptions::Id SpanDescriptions::find(const TimelineSpan& span) {
  const Same same{&all_};
  if (last_ < all_.size() && same(span, next_[last_])) return last_ = next_[last_];
  const auto known = index_.find(span);
  const Id id = known != index_.end() ? *known : static_cast<Id>(all_.size());
  if (known == index_.end()) {
    TimelineSpan description = span;
    description.start = description.end = 0;
    description.step = description.sequence = -1;
    description.message = span.message >> 32 << 32;
    all_.push_back(description);
    next_.push_back(id);
    index_.insert(id);
  }
  next_[last_] = id;
  return last_ = id;
}

void SpanDescriptions::index_all() {
  index_.clear();
  for (Id id = 0; id < all_.size(); ++id) index_.insert(id);
}

}  // namespace lockstep
