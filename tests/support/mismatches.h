#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/collective_checks.h"

/// Programs for four ranks that disagree about their collectives. Ranks may be threads or
/// processes.
namespace lockstep::testing {

struct Mismatch {
  std::string name;
  /// The program; called on each of the four ranks.
  std::function<void(Rank&)> body;
  /// Words that the error message must contain. If only a deadlock can be detected, these are words
  /// of the message about the deadlock.
  std::vector<std::string> words;
  /// Whether all ranks may be left waiting; if so, processes can report only a time-out.
  bool may_wait = false;
};

inline std::vector<Mismatch> mismatches() {
  std::vector<Mismatch> all;
  all.push_back({"different collectives",
                 [](Rank& rank) {
                   std::vector<float> values(8);
                   if (rank.id == 2)
                     rank.world.all_gather(view(values)).wait();
                   else
                     rank.world.reduce_scatter(view(values)).wait();
                 },
                 {"ranks disagree: rank ", "rank 2 calls all_gather of 32 bytes in world",
                  "calls reduce_scatter of 32 bytes in world", "(mismatches.h:"}});
  all.push_back(
      {"a barrier and nothing to add",
       [](Rank& rank) {
         if (rank.id == 0)
           rank.world.all_reduce(View{nullptr, {0}}, Algorithm::recursive_doubling).wait();
         else
           rank.world.barrier().wait();
       },
       {"ranks disagree", "rank 0 calls all_reduce", "calls barrier"}});
  // Among four ranks, some of the chunks of 9 and 10 elements have equal sizes.
  for (const Algorithm algorithm : all_reduce_algorithms)
    all.push_back({std::string("9 and 10 elements by ") + name_of(algorithm),
                   [algorithm](Rank& rank) {
                     std::vector<float> values(rank.id == 3 ? 10 : 9);
                     rank.world.all_reduce(view(values), algorithm).wait();
                   },
                   {"ranks disagree", "rank 3 calls all_reduce of 40 bytes in world",
                    "calls all_reduce of 36 bytes in world"}});
  all.push_back({"a gather of 9 and 10 elements, whose last chunks are of one size",
                 [](Rank& rank) {
                   std::vector<float> values(rank.id == 3 ? 10 : 9);
                   rank.world.gather(view(values), 0).wait();
                 },
                 {"ranks disagree", "rank 3 calls gather of 40 bytes in world",
                  "rank 0 calls gather of 36 bytes in world"}});
  // Ranks 0 and 2 have finished the broadcast, in which rank 3 receives only from rank 1.
  all.push_back({"a collective left out",
                 [](Rank& rank) {
                   std::vector<float> values(8);
                   if (rank.id != 3) rank.world.broadcast(view(values), 0).wait();
                   rank.world.all_reduce(view(values), Algorithm::tree).wait();
                 },
                 {"ranks disagree", "rank 3 calls all_reduce as collective number 1 of 32 bytes",
                  "rank 2 calls all_reduce as collective number 2 of 32 bytes"}});
  all.push_back({"different algorithms",
                 [](Rank& rank) {
                   std::vector<float> values(8);
                   const auto other = rank.id == 1 ? Algorithm::rabenseifner : Algorithm::ring;
                   rank.world.all_reduce(view(values), other).wait();
                 },
                 {"ranks disagree", "rank 1 calls all_reduce by rabenseifner of 32 bytes",
                  "calls all_reduce by ring of 32 bytes"},
                 true});
  all.push_back(
      {"different roots",  // alone, it would succeed and send rank 2 data without a request
       [](Rank& rank) {
         std::vector<float> values(8);
         rank.world.broadcast(view(values), rank.id == 2 ? 3 : 0).wait();
       },
       {"ranks disagree", "rank 2 calls broadcast with member 3 as root",
        "calls broadcast with member 0 as root"}});
  all.push_back({"everybody a root",
                 [](Rank& rank) {
                   std::vector<float> values(8);
                   rank.world.broadcast(view(values), rank.id).wait();
                 },
                 {"to receive 32 bytes in broadcast of world"},
                 true});
  all.push_back({"all_to_all_v counts",
                 [](Rank& rank) {
                   std::vector<float> out(16), in(16);
                   std::vector<std::int64_t> counts{2, 2, 2, 2}, expected{2, 2, 2, 2};
                   if (rank.id == 1) expected[3] = 3;
                   rank.world.all_to_all_v(view(out), counts, view(in), expected).wait();
                 },
                 {"ranks disagree: rank 3 calls all_to_all of 8 bytes",
                  "rank 1 calls all_to_all of 12 bytes"}});
  all.push_back({"a collective after one that was dropped",
                 [](Rank& rank) {
                   std::vector<float> values(8), more(8);
                   if (rank.id == 0) rank.world.receive(view(more), 1).wait();
                   {
                     Work first = rank.world.all_reduce(view(values));
                     if (rank.id != 1) first.wait();
                   }
                   if (rank.id != 1) return;
                   rank.world.send(view(more), 0).wait();
                   rank.world.all_reduce(view(more)).wait();
                 },
                 {"rank 1: the all_reduce of world (mismatches.h:",
                  "was dropped before it was done, so no collective can follow it"}});
  all.push_back({"groups that were made in another order",
                 [](Rank& rank) {
                   const auto make = [&](const char* name) {
                     return Group{rank.endpoint,
                                  {0, 1, 2, 3},
                                  name,
                                  rank.transport->open_channels(Group::channels_taken)};
                   };
                   const bool other = rank.id == 3;
                   Group first = make(other ? "b" : "a");
                   Group second = make(other ? "a" : "b");
                   std::vector<float> values(8);
                   (other ? second : first).all_reduce(view(values)).wait();
                   (other ? first : second).all_reduce(view(values)).wait();
                 },
                 {"all_reduce", " a "},
                 true});
  return all;
}

/// Returns a message about the first word that is missing from the text, or "".
inline std::string missing(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    if (text.find(word) == std::string::npos) return "no '" + word + "' in:\n" + text;
  return "";
}

}  // namespace lockstep::testing
