// Writes shared_flows.json: random messages on random clusters with shared links, and the times at
// which they end according to SimGrid. tests/time/test_fluid.cpp compares SharedNetwork with the
// file. Not part of the build; to make the file again:
//
//     apt-get install libsimgrid-dev
//     g++ -std=c++20 -O1 tests/golden/make_shared_flows.cpp -lsimgrid -o build/make_shared_flows
//     build/make_shared_flows >tests/golden/shared_flows.json
//
// SimGrid 3.32, network model CM02 (max-min fairness; Velho et al. 2013), without cross-traffic and
// without factors. This program knows nothing of Lockstep's classes: it builds the route of each
// message from the cluster file's numbers.

#include <simgrid/s4u.hpp>

#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

namespace {

struct Flow {
  int from, to;
  double start, bytes, end;
};

struct Setting {
  int nodes, per_node, cards, leaf_nodes;
  double port, card, uplink, oversubscription, within, between;
  bool by_rail, has_cards, has_leaves;
  std::vector<int> card_of;
};

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, value == 0 ? "null" : "%.17g", value);
  return text;
}

void print_one(unsigned seed, int argc, char** argv) {
  std::mt19937 random{seed};
  const auto whole = [&](int low, int high) {
    return low + static_cast<int>(random() % (high - low + 1));
  };
  const auto coin = [&] { return random() % 2 == 0; };
  const auto bandwidth = [&] { return std::round(1e9 * std::exp(whole(0, 300) / 100.0)); };

  Setting s{};
  s.nodes = whole(1, 5);
  s.per_node = whole(2, 6);
  s.port = coin() ? bandwidth() : 0;
  s.has_cards = coin() || coin();
  s.cards = whole(1, 3);
  s.card = s.has_cards ? bandwidth() : 0;
  for (int i = 0; i < s.per_node; ++i) s.card_of.push_back(s.has_cards ? whole(0, s.cards - 1) : 0);
  s.uplink = coin() ? bandwidth() : 0;
  s.has_leaves = coin() && (s.has_cards || s.uplink > 0);
  s.leaf_nodes = whole(1, 2);
  s.by_rail = coin() && s.has_cards;
  s.oversubscription = whole(1, 4);
  s.within = 3 * bandwidth();
  s.between = 3 * bandwidth();

  sg4::Engine engine(&argc, argv);
  sg4::Engine::set_config("network/model:CM02");
  sg4::Engine::set_config("network/crosstraffic:0");
  sg4::Engine::set_config("network/weight-S:0");
  auto* zone = sg4::create_full_zone("all");
  std::vector<sg4::Host*> hosts;
  const int ranks = s.nodes * s.per_node;
  for (int i = 0; i < ranks; ++i) hosts.push_back(zone->create_host("r" + std::to_string(i), 1e9));
  std::map<std::string, sg4::Link*> links;
  const auto link = [&](const std::string& name, double rate) {
    auto& found = links[name];
    if (found == nullptr) {
      found = zone->create_link(name, rate)->set_latency(0);
      if (name[0] == 'l') found->set_sharing_policy(sg4::Link::SharingPolicy::FATPIPE);
      found->seal();
    }
    return found;
  };
  for (int a = 0; a < ranks; ++a)
    for (int b = 0; b < ranks; ++b) {
      if (a == b) continue;
      std::vector<sg4::LinkInRoute> route;
      const int na = a / s.per_node, nb = b / s.per_node;
      const auto text = [](int value) { return std::to_string(value); };
      if (na == nb) {
        route.emplace_back(link("lw", s.within));
        if (s.port > 0) {
          route.emplace_back(link("port out " + text(a), s.port));
          route.emplace_back(link("port in " + text(b), s.port));
        }
      } else {
        const int ca = s.card_of[a % s.per_node], cb = s.card_of[b % s.per_node];
        route.emplace_back(link("lb", s.between));
        if (s.card > 0) {
          route.emplace_back(link("card out " + text(na) + "." + text(ca), s.card));
          route.emplace_back(link("card in " + text(nb) + "." + text(cb), s.card));
        }
        if (s.uplink > 0) {
          route.emplace_back(link("up " + text(na), s.uplink));
          route.emplace_back(link("down " + text(nb), s.uplink));
        }
        if (s.has_leaves) {
          const std::string la = text(na / s.leaf_nodes) + (s.by_rail ? "." + text(ca) : "");
          const std::string lb = text(nb / s.leaf_nodes) + (s.by_rail ? "." + text(cb) : "");
          double node = s.by_rail ? s.card : s.has_cards ? s.card * s.cards : 1e300;
          if (s.uplink > 0) node = std::min(node, s.uplink);
          if (la != lb) {
            route.emplace_back(link("spine from " + la, s.leaf_nodes * node / s.oversubscription));
            route.emplace_back(link("spine to " + lb, s.leaf_nodes * node / s.oversubscription));
          }
        }
      }
      zone->add_route(hosts[a]->get_netpoint(), hosts[b]->get_netpoint(), nullptr, nullptr, route,
                      false);
    }
  zone->seal();

  // Ranks send one message at a time, so each message is alone on its sender's lane.
  std::vector<Flow> flows;
  for (int sender = 0; sender < ranks; ++sender) {
    if (whole(0, 3) == 0) continue;
    int receiver = whole(0, ranks - 2);
    receiver += receiver >= sender ? 1 : 0;
    flows.push_back({sender, receiver, whole(0, 1000) * 1e-6, whole(1, 200) * 1e4, 0});
  }
  for (Flow& flow : flows)
    sg4::Actor::create("sender", hosts[flow.from], [&flow, &hosts] {
      sg4::this_actor::sleep_until(flow.start);
      sg4::Comm::sendto(hosts[flow.from], hosts[flow.to], static_cast<std::uint64_t>(flow.bytes));
      flow.end = sg4::Engine::get_clock();
    });
  engine.run();

  std::printf(
      "{\"cluster\": {\"name\": \"random\", \"nodes\": %d, \"ranks_per_node\": %d, \"flops\": "
      "null, ",
      s.nodes, s.per_node);
  std::printf(
      "\"memory_bandwidth\": null, \"launch_seconds\": 0,\n  \"within\": {\"latency_seconds\": 0, "
      "\"bandwidth\": %s}, ",
      number(s.within).c_str());
  std::printf("\"between\": {\"latency_seconds\": 0, \"bandwidth\": %s},\n",
              number(s.between).c_str());
  std::printf("  \"shared\": {\"port\": %s, \"uplink\": %s", number(s.port).c_str(),
              number(s.uplink).c_str());
  if (s.has_cards) {
    std::printf(", \"cards\": {\"per_node\": %d, \"bandwidth\": %s, \"of_rank\": [", s.cards,
                number(s.card).c_str());
    for (int i = 0; i < s.per_node; ++i) std::printf("%s%d", i > 0 ? ", " : "", s.card_of[i]);
    std::printf("]}");
  }
  if (s.has_leaves)
    std::printf(", \"leaves\": {\"nodes\": %d, \"by_rail\": %s, \"oversubscription\": %g}",
                s.leaf_nodes, s.by_rail ? "true" : "false", s.oversubscription);
  std::printf("}},\n \"messages\": [");
  for (std::size_t i = 0; i < flows.size(); ++i)
    std::printf(
        "%s\n  {\"from\": %d, \"to\": %d, \"start\": %.6f, \"bytes\": %.0f, \"end\": %.12f}",
        i > 0 ? "," : "", flows[i].from, flows[i].to, flows[i].start, flows[i].bytes, flows[i].end);
  std::printf("]}");
  std::fflush(stdout);
}

}  // namespace

// SimGrid simulates one platform per process.
int main(int argc, char** argv) {
  constexpr unsigned count = 150;
  std::printf("[");
  for (unsigned seed = 0; seed < count; ++seed) {
    if (seed > 0) std::printf(",\n");
    std::fflush(stdout);
    if (fork() == 0) {
      print_one(seed, argc, argv);
      std::_Exit(0);
    }
    int status = 0;
    wait(&status);
    if (status != 0) return 1;
  }
  std::printf("]\n");
}
