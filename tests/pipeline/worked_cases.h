#pragma once

#include <string>
#include <vector>

#include "core/pipeline/simulator.h"
#include "lessons/08_gpipe/gpipe.h"
#include "lessons/09_1f1b/one_f_one_b.h"

/// Schedules timed by hand from the rules of modelled time alone (core/time/README.md),
/// against which both the simulator and a real run on the modelled clock are checked.
///
/// Times are in milliseconds, with F = 1 and B = 2. A message holds its lane for `transfer` and
/// arrives `latency` = 1 later. Below, "a>4" means that the message arrives at 4. If the message
/// had to wait for its lane after its data was ready, the time at which it started is in
/// parentheses.
namespace lockstep::worked {

struct Window {
  int start = 0;
  int end = 0;
};
struct Passage {
  int from_rank = 0;
  Action made_by;
  int start = 0;
  int sent = 0;
  int arrived = 0;
};
struct Case {
  std::string name;
  Schedule schedule;
  int latency = 0;
  int transfer = 0;
  std::vector<std::vector<Window>> windows;  ///< (ranks), parallel to the schedule's actions
  std::vector<Passage> messages;             ///< by sending rank, in program order; may be empty
};

constexpr Picoseconds unit = 1'000'000'000;

/// The cluster on which a message of `bytes` takes the case's time.
inline Cluster cluster(const Case& c, std::int64_t bytes) {
  Cluster result;
  result.name = "worked";
  result.within.latency_seconds = c.latency * 1e-3;
  if (c.transfer > 0) result.within.bandwidth = static_cast<double>(bytes) / (c.transfer * 1e-3);
  result.between = result.within;
  return result;
}

inline PipelineTimes times(const Case& c) {
  const std::int64_t bytes = 4096;
  const StageTimes stage{.forward = unit, .backward = 2 * unit};
  return {std::vector<StageTimes>(static_cast<std::size_t>(c.schedule.stages), stage), bytes,
          cluster(c, bytes)};
}

inline std::vector<Case> cases() {
  std::vector<Case> all;

  //  rank 0   F0  0- 1 a>2   F1  1- 2 a>3                          B0  7- 9   B1  9-11
  //  rank 1                  F0  2- 3       F1  3- 4   B0  4- 6 g>7   B1  6- 8 g>9
  all.push_back({"GPipe, p = 2, m = 2, latency",
                 gpipe(2, 2),
                 1,
                 0,
                 {{{0, 1}, {1, 2}, {7, 9}, {9, 11}},  //
                  {{2, 3}, {3, 4}, {4, 6}, {6, 8}}},
                 {}});

  //  rank 0   F0  0- 1 a>2   F1  1- 2 a>3              B0  6- 8                B1  9-11
  //  rank 1                  F0  2- 3   B0  3- 5 g>6   F1  5- 6   B1  6- 8 g>9
  all.push_back({"1F1B, p = 2, m = 2, latency",
                 one_f_one_b(2, 2),
                 1,
                 0,
                 {{{0, 1}, {1, 2}, {6, 8}, {9, 11}},  //
                  {{2, 3}, {3, 5}, {5, 6}, {6, 8}}},
                 {}});

  //  rank 0   F0  0- 1 a>5   F1  1- 2 (4) a>8                    B0 15-17   B1 18-20
  //  rank 1   F0  5- 6   F1  8- 9   B0  9-11 g>15   B1 11-13 (14) g>18
  all.push_back({"GPipe, p = 2, m = 2, latency and transfer",
                 gpipe(2, 2),
                 1,
                 3,
                 {{{0, 1}, {1, 2}, {15, 17}, {18, 20}},  //
                  {{5, 6}, {8, 9}, {9, 11}, {11, 13}}},
                 {{0, {Op::forward, 0, 0}, 1, 4, 5},
                  {0, {Op::forward, 0, 1}, 4, 7, 8},
                  {1, {Op::backward, 1, 0}, 11, 14, 15},
                  {1, {Op::backward, 1, 1}, 14, 17, 18}}});

  //  rank 0   F0  0- 1 a>5   F1  1- 2 (4) a>8        B0 12-14               B1 15-17
  //  rank 1   F0  5- 6   B0  6- 8 g>12   F1  8- 9   B1  9-11 (11) g>15
  all.push_back({"1F1B, p = 2, m = 2, latency and transfer",
                 one_f_one_b(2, 2),
                 1,
                 3,
                 {{{0, 1}, {1, 2}, {12, 14}, {15, 17}},  //
                  {{5, 6}, {6, 8}, {8, 9}, {9, 11}}},
                 {{0, {Op::forward, 0, 0}, 1, 4, 5},
                  {0, {Op::forward, 0, 1}, 4, 7, 8},
                  {1, {Op::backward, 1, 0}, 8, 11, 12},
                  {1, {Op::backward, 1, 1}, 11, 14, 15}}});

  //  Every message finds its lane free; its receiver is idle until it arrives.
  //  rank 0   F  0- 1 a>2   1- 2 a>3    2- 3 a>4    3- 4 a>5    B 14-16  16-18  18-20  20-22
  //  rank 1   F  2- 3 a>4   3- 4 a>5    4- 5 a>6    5- 6 a>7
  //           B 11-13 g>14  13-15 g>16  15-17 g>18  17-19 g>20
  //  rank 2   F  4- 5       5- 6        6- 7        7- 8
  //           B  8-10 g>11  10-12 g>13  12-14 g>15  14-16 g>17
  all.push_back({"GPipe, p = 3, m = 4, latency",
                 gpipe(3, 4),
                 1,
                 0,
                 {{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {14, 16}, {16, 18}, {18, 20}, {20, 22}},
                  {{2, 3}, {3, 4}, {4, 5}, {5, 6}, {11, 13}, {13, 15}, {15, 17}, {17, 19}},
                  {{4, 5}, {5, 6}, {6, 7}, {7, 8}, {8, 10}, {10, 12}, {12, 14}, {14, 16}}},
                 {}});

  //  rank 0   F0  0- 1 a>2   F1  1- 2 a>3   F2  2- 3 a>4
  //           B0 11-13   F3 13-14 a>15   B1 14-16   B2 19-21   B3 24-26
  //  rank 1   F0  2- 3 a>4   F1  3- 4 a>5   B0  8-10 g>11   F2 10-11 a>12   B1 11-13 g>14
  //           F3 15-16 a>17   B2 16-18 g>19   B3 21-23 g>24
  //  rank 2   F0  4- 5   B0  5- 7 g>8   F1  7- 8   B1  8-10 g>11   F2 12-13   B2 13-15 g>16
  //           F3 17-18   B3 18-20 g>21
  all.push_back({"1F1B, p = 3, m = 4, latency",
                 one_f_one_b(3, 4),
                 1,
                 0,
                 {{{0, 1}, {1, 2}, {2, 3}, {11, 13}, {13, 14}, {14, 16}, {19, 21}, {24, 26}},
                  {{2, 3}, {3, 4}, {8, 10}, {10, 11}, {11, 13}, {15, 16}, {16, 18}, {21, 23}},
                  {{4, 5}, {5, 7}, {7, 8}, {8, 10}, {12, 13}, {13, 15}, {17, 18}, {18, 20}}},
                 {}});

  //  rank 0   F  0- 1 a>5   1- 2 (4) a>8   2- 3 (7) a>11   3- 4 (10) a>14
  //           B 32-34  35-37  38-40  41-43
  //  rank 1   F  5- 6 a>10  8- 9 a>13  11-12 a>16  14-15 a>19
  //           B 26-28 g>32  29-31 g>35  32-34 g>38  35-37 g>41
  //  rank 2   F 10-11  13-14  16-17  19-20
  //           B 20-22 g>26  22-24 (25) g>29  24-26 (28) g>32  26-28 (31) g>35
  all.push_back({"GPipe, p = 3, m = 4, latency and transfer",
                 gpipe(3, 4),
                 1,
                 3,
                 {{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {32, 34}, {35, 37}, {38, 40}, {41, 43}},
                  {{5, 6}, {8, 9}, {11, 12}, {14, 15}, {26, 28}, {29, 31}, {32, 34}, {35, 37}},
                  {{10, 11}, {13, 14}, {16, 17}, {19, 20}, {20, 22}, {22, 24}, {24, 26}, {26, 28}}},
                 {}});

  //  rank 0   F0  0- 1 a>5   F1  1- 2 (4) a>8   F2  2- 3 (7) a>11
  //           B0 23-25   F3 25-26 a>30   B1 26-28   B2 37-39   B3 48-50
  //  rank 1   F0  5- 6 a>10   F1  8- 9 a>13   B0 17-19 g>23   F2 19-20 a>24
  //           B1 20-22 (22) g>26   F3 30-31 a>35   B2 31-33 g>37   B3 42-44 g>48
  //  rank 2   F0 10-11   B0 11-13 g>17   F1 13-14   B1 14-16 (16) g>20   F2 24-25
  //           B2 25-27 g>31   F3 35-36   B3 36-38 g>42
  all.push_back({"1F1B, p = 3, m = 4, latency and transfer",
                 one_f_one_b(3, 4),
                 1,
                 3,
                 {{{0, 1}, {1, 2}, {2, 3}, {23, 25}, {25, 26}, {26, 28}, {37, 39}, {48, 50}},
                  {{5, 6}, {8, 9}, {17, 19}, {19, 20}, {20, 22}, {30, 31}, {31, 33}, {42, 44}},
                  {{10, 11}, {11, 13}, {13, 14}, {14, 16}, {24, 25}, {25, 27}, {35, 36}, {36, 38}}},
                 {}});
  return all;
}

}  // namespace lockstep::worked
