// What pycaffe keeps per process: the ranks that this one works with, the seed, and the numbers of
// set_solver_rank and set_solver_count. All use is under the interpreter's lock.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "carafe/comm/group.h"
#include "carafe/core/run_context.h"

namespace carafe::python {

class Session {
 public:
  static Session& Get();

  // All ranks that mpirun started, or this process alone. Starts MPI at the first call.
  std::shared_ptr<Group> group();
  bool has_group() const { return group_ != nullptr; }
  // Called at exit: first everything that uses the group, then the group is left.
  void Close();
  void AtClose(std::weak_ptr<std::function<void()>> action) {
    closing_.push_back(std::move(action));
  }

  // This rank ends with an error: the others are told at once. Later calls do nothing.
  void Fail(const std::string& text);
  // Whether this rank is the one that shows the error to the user.
  bool tells_user() const { return !failed_ || told_; }

  uint64_t NextSeed();  // of set_random_seed for the first net, then others that follow from it
  void set_seed(uint64_t seed);
  bool has_seed() const { return seed_.has_value(); }

  Replica replica;  // of nets that Python makes: set_solver_rank, set_solver_count
  std::string gpu;  // what set_mode_gpu and set_device asked for; said once that it is not used

 private:
  std::shared_ptr<Group> group_;
  std::mutex starting_;             // of the group, without the interpreter's lock
  std::shared_ptr<Group> started_;  // under it
  std::vector<std::weak_ptr<std::function<void()>>> closing_;
  bool failed_ = false, told_ = false;
  std::optional<uint64_t> seed_;
  uint64_t nets_ = 0;  // made since set_random_seed
};

// A stream on the CPU with this process's share of the cores.
std::shared_ptr<Stream> NewStream();

void BindSession(pybind11::module_& module);

}  // namespace carafe::python
