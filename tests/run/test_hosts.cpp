#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/comm/mpi/environment.h"
#include "core/run/options/hosts.h"
#include "tests/support/complaints.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Sets a launcher's environment variables for the lifetime of this object.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& variables) {
    for (const char* name : all) ::unsetenv(name);
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const char* name : all) ::unsetenv(name);
  }

 private:
  static constexpr const char* all[] = {"OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "PMIX_RANK",
                                        "PMIX_SERVER_TMPDIR",
                                        "SLURM_PROCID",
                                        "SLURM_NTASKS",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_STEP_TASKS_PER_NODE",
                                        "SLURM_NODEID",
                                        "SLURM_LOCALID"};
};

}  // namespace

TEST_CASE("hosts are passed to mpirun as given") {
  CHECK_FALSE(HostChoice{}.any());
  CHECK(HostChoice{}.arguments().empty());
  CHECK(HostChoice{.hostfile = "f"}.arguments() == std::vector<std::string>{"--hostfile", "f"});
  CHECK(HostChoice{.hosts = "a:2,b"}.arguments() == std::vector<std::string>{"--host", "a:2,b"});
}

TEST_CASE("hosts with slots for all ranks are accepted") {
  const TemporaryFolder folder;
  const auto file = [&](const std::string& text) {
    return HostChoice{.hostfile = folder.file("hosts", text)};
  };
  CHECK_NOTHROW(file("# two\na slots=2\n\nb slots=2 max_slots=4 # the other\n").check(4));
  CHECK_NOTHROW(file("a slots=2\nb\n").check(64));  // as many slots as b has cores
  CHECK_NOTHROW((HostChoice{.hosts = "a:2,b,b"}).check(4));
  CHECK_NOTHROW((HostChoice{.hosts = "10.0.0.1:8"}).check(8));
  CHECK_NOTHROW((HostChoice{.hosts = "user@node-1.a_b.org:8"}).check(8));
}

TEST_CASE("unusable hosts give one line with the reason and a remedy") {
  const TemporaryFolder folder;
  const auto refusal = [](const HostChoice& hosts, int ranks) {
    return complaint_of<UsageError>([&] { hosts.check(ranks); });
  };
  const auto of_file = [&](const std::string& text, int ranks) {
    return refusal({.hostfile = folder.file("hosts", text)}, ranks);
  };
  CHECK(unlike(refusal({.hostfile = "/none"}, 1),
               {"--hostfile /none", "no such file", "slots=4"}) == "");
  CHECK(unlike(refusal({.hostfile = "/tmp"}, 1),
               {"--hostfile /tmp", "can't be read", "directory"}) == "");
  CHECK(unlike(of_file("# nobody\n", 1), {"--hostfile", "names no host"}) == "");
  CHECK(unlike(of_file("a slots=2\nb slots=1\n", 4),
               {"--hostfile", "3 slots for --ranks 4", "--ranks 3"}) == "");
  CHECK(unlike(of_file("a slots=2\nb slot=1\n", 1), {"line 2", "'slot=1'"}) == "");
  CHECK(unlike(of_file("a\n-oProxyCommand=x slots=2\n", 1),
               {"line 2", "'-oProxyCommand=x' is not a host"}) == "");
  CHECK(unlike(of_file("a slots=many\n", 1), {"line 1", "'slots=many'", "at least 1"}) == "");
  // MPICH's form; an IPv6 address has several colons.
  CHECK(unlike(of_file("node1:4\nnode2:4\n", 4),
               {"--hostfile", "line 1", "'node1:4' is MPICH's form", "'node1 slots=4'"}) == "");
  CHECK(unlike(of_file("a\nnode2:\n", 1), {"line 2", "'node2:'", "'node2 slots=4'"}) == "");
  CHECK_NOTHROW((HostChoice{.hostfile = folder.file("hosts", "fe80::1 slots=4\n")}).check(4));
  CHECK(unlike(of_file("a slots=2\r\nb slots=2\r\n", 4), {"line 1", "CR LF", "sed -i"}) == "");
  CHECK(unlike(of_file("\r\na slots=4\n", 4), {"line 1", "CR LF"}) == "");
  // mpirun overflows its stack.
  const std::string longest(100000, 'a');
  for (const std::string& complaint :
       {of_file(longest + " slots=4\n", 4), refusal({.hosts = longest + ":4"}, 4),
        of_file("a " + longest + "\n", 4)}) {
    CHECK(unlike(complaint, {"(1000", "bytes)"}) == "");
    CHECK(complaint.size() < 400);
  }
  CHECK(unlike(refusal({.hosts = "a:2,b:1"}, 4), {"--hosts a:2,b:1", "3 slots for --ranks 4"}) ==
        "");
  for (const std::string wrong :
       {":2", "a:", "a:0", "a:x", "a,,b", "a b", "-oProxyCommand=x:4", "u@-x", "a;b", "a$b"})
    CHECK(unlike(refusal({.hosts = wrong}, 1), {"--hosts " + wrong, "node1:4,node2:4"}) == "");
  CHECK(unlike(refusal({.hostfile = "f", .hosts = "a"}, 1), {"--hosts a", "--hostfile f"}) == "");
}

TEST_CASE("variables that a shell has kept from a launcher make no rank") {
  const TemporaryFolder folder;
  const std::map<std::string, std::string> size{{"OMPI_COMM_WORLD_SIZE", "8"}};
  const auto is_rank = [&](const std::map<std::string, std::string>& others) {
    std::map<std::string, std::string> all = size;
    all.insert(others.begin(), others.end());
    const Environment environment{all};
    forget_ended_launcher();
    return under_mpi();
  };
  CHECK(is_rank({{"PMIX_RANK", "5"}, {"PMIX_SERVER_TMPDIR", folder.path().string()}}));
  CHECK(is_rank({{"PMIX_RANK", "5"}}));
  CHECK_FALSE(is_rank({{"PMIX_RANK", "5"}, {"PMIX_SERVER_TMPDIR", folder.path() / "ended"}}));
  CHECK_FALSE(is_rank({}));
}

TEST_CASE("a rank finds its number in its launcher's variables") {
  {
    const Environment mpirun{{{"OMPI_COMM_WORLD_SIZE", "8"},
                              {"OMPI_COMM_WORLD_RANK", "5"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"PMIX_RANK", "5"}}};
    CHECK(under_mpi());
    CHECK(under_mpirun());
    CHECK(mpi_rank_from_environment() == 5);
    CHECK(mpi_size_from_environment() == 8);
    CHECK(mpi_local_size_from_environment() == 4);
    CHECK_FALSE(mpi_first_on_host());
  }
  {
    const Environment srun{{{"PMIX_RANK", "3"},
                            {"SLURM_PROCID", "3"},
                            {"SLURM_LOCALID", "0"},
                            {"SLURM_NTASKS", "6"},
                            {"SLURM_STEP_NUM_TASKS", "4"}}};
    CHECK(under_mpi());
    CHECK_FALSE(under_mpirun());
    CHECK(mpi_rank_from_environment() == 3);
    CHECK(mpi_size_from_environment() == 4);
    CHECK(mpi_first_on_host());
  }
  {
    // A batch script runs inside the allocation, but it is not a rank.
    const Environment sbatch{{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}};
    CHECK_FALSE(under_mpi());
    CHECK(mpi_rank_from_environment() == 0);
    CHECK(mpi_size_from_environment() == 1);
  }
}

TEST_CASE("the number of ranks on a node comes from Slurm's list") {
  const auto ranks_on = [](const std::string& list, const std::string& node) {
    const Environment srun{{{"PMIX_RANK", "0"},
                            {"SLURM_PROCID", "0"},
                            {"SLURM_STEP_NUM_TASKS", "7"},
                            {"SLURM_NODEID", node},
                            {"SLURM_STEP_TASKS_PER_NODE", list}}};
    return mpi_local_size_from_environment();
  };
  for (const std::string node : {"0", "1", "2"}) CHECK(ranks_on("2(x3),1", node) == 2);
  CHECK(ranks_on("2(x3),1", "3") == 1);
  CHECK(ranks_on("4", "0") == 4);
  CHECK(ranks_on("1,12(x2),3", "2") == 12);
  CHECK(ranks_on("1,12(x2),3", "3") == 3);

  for (const std::string wrong : {"", "x", "2(x3", "2(3)", "2(x)", "2(x0)", "0(x3)", "-2(x3)",
                                  "2;1", "2(x2),", "2(x2)", "9999999999(x3)"})
    CHECK(unlike(complaint_of<UsageError>([&] { ranks_on(wrong, "2"); }),
                 {"SLURM_STEP_TASKS_PER_NODE=" + wrong, "2(x3),1", "node 2"}) == "");
  CHECK(unlike(complaint_of<UsageError>([&] { ranks_on("2(x3),1", "first"); }),
               {"SLURM_NODEID=first", "at least 0"}) == "");
}

TEST_CASE("a launcher's variables that are no numbers are refused by name") {
  for (const std::string wrong : {"", "x", "0", "-3", "8x", "99999999999"}) {
    const Environment size{{{"OMPI_COMM_WORLD_SIZE", wrong}}};
    CHECK(unlike(complaint_of<UsageError>(mpi_size_from_environment),
                 {"OMPI_COMM_WORLD_SIZE=" + wrong, "at least 1"}) == "");
    const Environment local{{{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", wrong}}};
    CHECK(unlike(complaint_of<UsageError>(mpi_local_size_from_environment),
                 {"OMPI_COMM_WORLD_LOCAL_SIZE=" + wrong, "at least 1"}) == "");
  }
}
