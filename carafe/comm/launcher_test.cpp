#include "carafe/comm/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "carafe/base/error.h"
#include "carafe/comm/mpi_transport.h"

namespace carafe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The environment of a launcher and nothing else of its kind; put back at the end.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& values) {
    for (const char* name : kNames) {
      const char* before = std::getenv(name);
      if (before) before_[name] = before;
      unsetenv(name);
    }
    for (const auto& [name, value] : values) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const char* name : kNames) unsetenv(name);
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  static constexpr const char* kNames[] = {"OMPI_COMM_WORLD_SIZE",
                                           "OMPI_COMM_WORLD_RANK",
                                           "OMPI_COMM_WORLD_LOCAL_SIZE",
                                           "OMPI_COMM_WORLD_LOCAL_RANK",
                                           "PMI_SIZE",
                                           "PMI_RANK",
                                           "MPI_LOCALNRANKS",
                                           "MPI_LOCALRANKID",
                                           "PMIX_RANK",
                                           "MV2_COMM_WORLD_SIZE",
                                           "MV2_COMM_WORLD_RANK",
                                           "JSM_NAMESPACE_SIZE",
                                           "FLUX_JOB_SIZE",
                                           "SLURM_NTASKS",
                                           "SLURM_STEP_NUM_TASKS",
                                           "SLURM_PROCID",
                                           "SLURM_LOCALID",
                                           "CARAFE_MPI",
                                           "CARAFE_PLUGIN_DIR"};
  std::map<std::string, std::string> before_;
};

std::string ErrorOf(const std::map<std::string, std::string>& values) {
  const Environment environment(values);
  try {
    DetectLaunch();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Launcher, WithoutOneThereIsOneRankAndNoMpi) {
  const Environment environment({});
  const Launch launch = DetectLaunch();
  EXPECT_EQ(launch.mpi, "");
  EXPECT_EQ(launch.size, 1);
  EXPECT_EQ(StartGroup()->size(), 1);
}

TEST(Launcher, KnowsMpirunOfOpenMpi) {
  const Environment environment({{"OMPI_COMM_WORLD_SIZE", "4"},
                                 {"OMPI_COMM_WORLD_RANK", "3"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                 {"PMIX_RANK", "3"}});
  const Launch launch = DetectLaunch();
  EXPECT_EQ(launch.mpi, "openmpi");
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.local_size, 2);
  EXPECT_EQ(launch.local_rank, 1);
}

TEST(Launcher, KnowsMpirunOfMpich) {
  const Environment environment({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"MPI_LOCALRANKID", "1"}});
  const Launch launch = DetectLaunch();
  EXPECT_EQ(launch.mpi, "mpich");
  EXPECT_EQ(launch.size, 2);
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.local_rank, 1);
}

TEST(Launcher, MpirunWithOneRankNeedsNoMpi) {
  const Environment environment({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}});
  EXPECT_EQ(DetectLaunch().mpi, "");
}

TEST(Launcher, SrunWithPmixIsOpenMpi) {
  const Environment environment(
      {{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "5"}, {"PMIX_RANK", "5"}});
  const Launch launch = DetectLaunch();
  EXPECT_EQ(launch.mpi, "openmpi");
  EXPECT_EQ(launch.size, 8);
  EXPECT_EQ(launch.rank, 5);
}

TEST(Launcher, SrunWithPmi2IsMpichAndCountsLocalRanksItself) {
  const Environment environment({{"SLURM_STEP_NUM_TASKS", "8"},
                                 {"SLURM_PROCID", "5"},
                                 {"SLURM_LOCALID", "1"},
                                 {"PMI_SIZE", "8"},
                                 {"PMI_RANK", "5"}});
  const Launch launch = DetectLaunch();
  EXPECT_EQ(launch.mpi, "mpich");
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_THAT(launch.launcher, HasSubstr("srun"));
}

TEST(Launcher, AnMpirunInsideASlurmJobIsAnMpirun) {
  const Environment environment({{"SLURM_NTASKS", "8"},
                                 {"SLURM_PROCID", "0"},
                                 {"SLURM_STEP_NUM_TASKS", "1"},
                                 {"OMPI_COMM_WORLD_SIZE", "4"},
                                 {"OMPI_COMM_WORLD_RANK", "2"}});
  const Launch launch = DetectLaunch();
  EXPECT_EQ(launch.mpi, "openmpi");
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.rank, 2);
}

TEST(Launcher, ABatchScriptWithoutSrunIsOneProcess) {
  const Environment environment({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}});
  EXPECT_EQ(DetectLaunch().size, 1);
}

TEST(Launcher, RefusesSeveralRanksWhoseMpiCannotBeTold) {
  const std::map<std::string, std::string> srun = {{"SLURM_STEP_NUM_TASKS", "8"},
                                                   {"SLURM_PROCID", "5"}};
  EXPECT_THAT(ErrorOf(srun), AllOf(HasSubstr("srun"), HasSubstr("8 processes"),
                                   HasSubstr("CARAFE_MPI"), HasSubstr("--mpi=pmix")));
  std::map<std::string, std::string> chosen = srun;
  chosen["CARAFE_MPI"] = "mpich";
  const Environment environment(chosen);
  EXPECT_EQ(DetectLaunch().mpi, "mpich");
}

TEST(Launcher, RefusesAnUnknownMpi) {
  EXPECT_THAT(ErrorOf({{"CARAFE_MPI", "lam"}}), AllOf(HasSubstr("lam"), HasSubstr("openmpi")));
}

TEST(Launcher, ExplainsAMissingPlugin) {
  for (const auto& [mpi, packages] : std::map<std::string, std::string>{
           {"openmpi", "libopenmpi-dev and openmpi-bin"}, {"mpich", "libmpich-dev and mpich"}}) {
    const Launch launch{.mpi = mpi, .launcher = "mpirun (X=2)", .size = 2};
    try {
      FindMpiPlugin(launch, {"/nowhere", "/neither"});
      FAIL() << "no error";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr(packages), HasSubstr("build Carafe again"),
                        HasSubstr("mpirun (X=2)"), HasSubstr("/nowhere/libcarafe_mpi_" + mpi),
                        HasSubstr("/neither/libcarafe_mpi_" + mpi)));
    }
  }
}

}  // namespace
}  // namespace carafe
