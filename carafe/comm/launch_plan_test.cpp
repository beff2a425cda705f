#include "carafe/comm/launch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carafe/base/error.h"

namespace carafe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LaunchRequest Request() {
  LaunchRequest request;
  request.ranks = 4;
  request.command = {"/opt/carafe", "train", "--solver=s.prototxt"};
  return request;
}

std::string Line(const LaunchRequest& request) { return ShellLine(LaunchCommand(request)); }

TEST(LaunchPlan, OpenMpiOnThisMachineBindsNothingAndMayOversubscribe) {
  EXPECT_EQ(Line(Request()),
            "mpirun.openmpi -n 4 --bind-to none --oversubscribe --mca odls_base_sigkill_timeout 10 "
            "/opt/carafe train --solver=s.prototxt");
}

TEST(LaunchPlan, OpenMpiGetsHostsAndNoticesThoseThatAreCutOff) {
  LaunchRequest request = Request();
  request.hosts = {{"a", 2}, {"b", 2}};
  EXPECT_THAT(Line(request), HasSubstr("-n 4 --host a:2,b:2 --bind-to none --mca"));
  EXPECT_THAT(Line(request), HasSubstr("--mca oob_tcp_keepalive_time 4"));
  EXPECT_THAT(Line(request), Not(HasSubstr("--oversubscribe")));
  request.ranks = 5;
  EXPECT_THAT(Line(request), HasSubstr("--oversubscribe"));
  request.hostfile = "/tmp/hosts";
  EXPECT_THAT(Line(request), HasSubstr("-n 5 --hostfile /tmp/hosts "));
}

TEST(LaunchPlan, ThreadsBindAsManyCores) {
  LaunchRequest request = Request();
  request.threads_per_rank = 8;
  EXPECT_THAT(Line(request), HasSubstr("--map-by slot:PE=8 --bind-to core"));
  request.mpi = "mpich";
  EXPECT_THAT(Line(request), HasSubstr("-bind-to core:8"));
}

TEST(LaunchPlan, RootAndEnvironmentAreOpenMpisAffair) {
  LaunchRequest request = Request();
  request.as_root = true;
  request.forwarded = {"OMP_NUM_THREADS"};
  EXPECT_THAT(Line(request), HasSubstr("mpirun.openmpi --allow-run-as-root -n 4"));
  EXPECT_THAT(Line(request), HasSubstr("-x OMP_NUM_THREADS /opt/carafe"));
  request.mpi = "mpich";
  EXPECT_THAT(Line(request), Not(HasSubstr("OMP_NUM_THREADS")));
  EXPECT_THAT(Line(request), Not(HasSubstr("root")));
}

TEST(LaunchPlan, MpichGetsItsOwnForms) {
  LaunchRequest request = Request();
  request.mpi = "mpich";
  request.mpirun = "mpirun.mpich";
  request.hosts = {{"a", 2}, {"b", 2}};
  request.ranks = 0;
  EXPECT_EQ(Line(request),
            "mpirun.mpich -hosts a:2,b:2 -n 4 /opt/carafe train --solver=s.prototxt");
  request.hostfile = "h";
  EXPECT_THAT(Line(request), HasSubstr("mpirun.mpich -f h -n 4 "));
}

TEST(LaunchPlan, AsksForTheNumberOfRanks) {
  LaunchRequest request = Request();
  request.ranks = 0;
  EXPECT_THROW(LaunchCommand(request), ConfigError);
}

TEST(LaunchPlan, QuotesWhatAShellWouldSplit) {
  EXPECT_EQ(ShellLine({"a", "b c", "it's", ""}), "a 'b c' 'it'\\''s' ''");
}

}  // namespace
}  // namespace carafe
