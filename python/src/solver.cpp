#include "python/src/solver.h"

#include <fmt/format.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/solvers/update_rule.h"
#include "carafe/train/trainer.h"
#include "python/src/collected.h"
#include "python/src/net.h"
#include "python/src/session.h"

namespace py = pybind11;

namespace carafe::python {
namespace {

using Path = std::filesystem::path;

// Ctrl-C in Python, between two iterations.
void CheckSignals() {
  const py::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

// Used and let go of with the interpreter's lock, by whomever.
using SharedObject = std::shared_ptr<py::object>;

SharedObject Share(py::object object) {
  return SharedObject(new py::object(std::move(object)), [](py::object* o) {
    const py::gil_scoped_acquire lock;
    delete o;
  });
}

// Called without the interpreter's lock.
std::function<void()> Callable(const SharedObject& held) {
  return [held] {
    const py::gil_scoped_acquire lock;
    if (*held) (*held)();
  };
}

// A trainer with all that it needs to live. Nets that Python holds keep it alive.
struct Training {
  std::shared_ptr<Group> group;
  std::shared_ptr<Stream> stream;
  std::shared_ptr<NetObject::Turn> turn = std::make_shared<NetObject::Turn>();
  std::unique_ptr<Trainer<float>> trainer;
  std::shared_ptr<std::function<void()>> on_close;  // run while the group is still there
};

SolverSpec LoadSpec(const Path& file, const std::string& type) {
  SolverSpec spec = LoadSolverSpec(file.string());
  if (!type.empty()) spec.param.set_type(type);
  Session& session = Session::Get();
  if (spec.param.random_seed() < 0 && session.has_seed()) {
    spec.param.set_random_seed(static_cast<int64_t>(session.NextSeed() >> 1));
  }
  return spec;
}

class SolverObject {
 public:
  SolverObject(const Path& file, const std::string& type)
      : training_(std::make_shared<Training>()) {
    training_->group = Session::Get().group();
    training_->stream = NewStream();
    Together([&] {
      SolverSpec spec;
      training_->group->Together("the solver file", [&] {
        const py::gil_scoped_acquire lock;
        spec = LoadSpec(file, type);
      });
      TrainOptions options;
      static_cast<RunOptions&>(options) = RunOptionsFromEnvironment();
      options.progress = ProgressMode::kNone;
      options.write_files = false;
      options.watch_signals = false;
      options.keep_updates = true;
      options.share_memory = false;  // arrays show all blobs at any time
      options.before_iteration = &CheckSignals;
      training_->trainer =
          std::make_unique<Trainer<float>>(spec, options, *training_->group, *training_->stream);
    });
    // What the exchange lets go of may be the last that holds the solver: an exception with its
    // traceback. So the training is held meanwhile.
    training_->on_close =
        std::make_shared<std::function<void()>>([weak = std::weak_ptr<Training>(training_)] {
          const std::shared_ptr<Training> kept = weak.lock();
          if (!kept) return;
          kept->trainer->solver().Disconnect();
          kept->group.reset();
        });
    Session::Get().AtClose(training_->on_close);
    net_ = Wrap(solver().net());
    for (const auto& net : solver().test_nets()) test_nets_.attr("append")(Wrap(*net));
    FollowSolver();
  }

  Solver<float>& solver() const { return training_->trainer->solver(); }
  const py::object& net() const { return net_; }
  const py::object& test_nets() const { return test_nets_; }

  void Step(int64_t count) {
    if (count < 0) throw py::value_error("step takes a number of iterations, 0 or more");
    Iterate([&] { trainer().Step(count); });
  }
  void Solve(const std::optional<Path>& snapshot) {
    if (snapshot) Restore(*snapshot);
    Iterate([&] { trainer().Run(); });
  }
  void Restore(const Path& snapshot) {
    Between([&] { trainer().Restore(snapshot.string()); });
    FollowSolver();
  }
  void Snapshot() {
    Together([&] { trainer().Snapshot(); });
  }
  void ApplyUpdate() {
    Between([&] {
      CheckSignals();
      solver().ApplyUpdate();
    });
  }
  void AddCallback(const py::object& on_start, const py::object& on_gradients_ready) {
    const SharedObject start = Share(on_start), ready = Share(on_gradients_ready);
    SolverCallback callback{Callable(start), Callable(ready)};
    Between([&] { solver().AddCallback(std::move(callback)); });
    called_.insert(called_.end(), {start, ready});
  }
  // Rates are proportional to base_lr in every policy.
  void SetBaseRate(double rate) {
    const double written = solver().param().base_lr();
    if (written == 0) {
      throw ConfigError("base_lr cannot be changed, for it is 0 in the solver's file",
                        "write another base_lr there");
    }
    scale_ = rate / written;
    solver().learning_rate().SetScale(scale_, 0);
  }
  template <typename F>
  void VisitHeld(const F& visit) {  // see collected.h
    visit(net_);
    visit(test_nets_);
    for (const SharedObject& object : called_) visit(*object);
  }
  double BaseRate() const { return solver().param().base_lr() * scale_; }

 private:
  Trainer<float>& trainer() const {
    if (!training_->group) throw Error("the solver has ended with its process");
    return *training_->trainer;
  }
  py::object Wrap(Net<float>& net) const {
    return py::cast(std::make_shared<NetObject>(std::shared_ptr<Net<float>>(training_, &net),
                                                training_->stream, solver().seed(),
                                                solver().replica(), training_->turn));
  }
  // What a pass of solver.net from Python sees next is what the solver's next step will see.
  void FollowSolver() {
    net_.cast<NetObject&>().set_next_pass(solver().iteration() * solver().param().iter_size(),
                                          solver().sample_offset());
  }
  // Runs what all ranks do together, without the interpreter's lock. A rank that fails tells the
  // others, so that none waits for it.
  template <typename F>
  void Together(const F& body) const {
    try {
      const py::gil_scoped_release unlocked;
      const std::lock_guard turn(*training_->turn);
      body();
    } catch (const std::exception& error) {
      Session::Get().Fail(error.what());
      throw;
    }
  }

  // What callbacks, hooks and layers must not do from within an iteration. Another thread's waits.
  template <typename F>
  void Between(const F& body) const {
    {
      const py::gil_scoped_release unlocked;
      const std::lock_guard turn(*training_->turn);
      if (iterating_) {
        throw ConfigError(
            "the solver is in the middle of a step: a callback, hook or layer can neither step nor "
            "update or restore it, nor add callbacks",
            "do that after step() or solve() has returned");
      }
    }
    Together(body);
  }
  template <typename F>
  void Iterate(const F& body) {
    const int64_t before = solver().iteration();
    Between([&] {
      struct Mark {
        explicit Mark(bool& on) : on(on) { on = true; }
        ~Mark() { on = false; }
        bool& on;
      } mark(iterating_);
      body();
    });
    FollowSolver();
    if (solver().iteration() > before) net_.cast<NetObject&>().RememberShapes();
  }

  std::shared_ptr<Training> training_;
  bool iterating_ = false;  // read and written by the thread whose turn it is
  py::object net_;
  py::object test_nets_ = py::list();
  std::vector<SharedObject> called_;  // the callbacks
  double scale_ = 1;
};

// solver.param: the settings that scripts look at.
struct SolverParamObject {
  std::shared_ptr<SolverObject> solver;
  const SolverParameter& get() const { return solver->solver().param(); }
};

std::string SolverType(const Path& file) {
  const SolverSpec spec = LoadSolverSpec(file.string());
  return spec.param.type();
}

}  // namespace

void BindSolver(py::module_& module) {
  py::class_<SolverParamObject>(module, "SolverParameter")
      .def_property_readonly("max_iter",
                             [](const SolverParamObject& p) { return p.get().max_iter(); })
      .def_property_readonly("display",
                             [](const SolverParamObject& p) { return p.get().display(); })
      .def_property_readonly("layer_wise_reduce",
                             [](const SolverParamObject& p) { return p.get().layer_wise_reduce(); })
      .def_property_readonly("type", [](const SolverParamObject& p) { return p.get().type(); })
      .def_property_readonly("iter_size",
                             [](const SolverParamObject& p) { return p.get().iter_size(); })
      .def_property_readonly("snapshot_prefix",
                             [](const SolverParamObject& p) { return p.get().snapshot_prefix(); })
      .def_property(
          "base_lr", [](const SolverParamObject& p) { return p.solver->BaseRate(); },
          [](const SolverParamObject& p, double rate) { p.solver->SetBaseRate(rate); });
  py::class_<SolverObject, std::shared_ptr<SolverObject>>(
      module, "Solver", py::dynamic_attr(), Collected<SolverObject>::Setup(), "A training run.")
      .def(py::init<const Path&, const std::string&>(), py::arg("solver_file"),
           py::arg("type") = "")
      .def_property_readonly("net", &SolverObject::net, "The net that is trained.")
      .def_property_readonly("test_nets", &SolverObject::test_nets,
                             "The nets that are tested; they share its weights.")
      .def_property_readonly(
          "iter", [](const SolverObject& s) { return s.solver().iteration(); }, "Iterations done.")
      .def_property_readonly(
          "lr", [](const SolverObject& s) { return s.solver().PeekRate(); },
          "The learning rate of the next iteration.")
      .def_property_readonly("type",
                             [](const SolverObject& s) { return s.solver().param().type(); })
      .def_property_readonly(
          "param", [](const std::shared_ptr<SolverObject>& s) { return SolverParamObject{s}; })
      .def("step", &SolverObject::Step, py::arg("iterations"),
           "Runs so many iterations, with their tests and snapshots.")
      .def("solve", &SolverObject::Solve, py::arg("resume_file") = py::none(),
           "Runs until max_iter, after resuming from a .solverstate if one is given.")
      .def("restore", &SolverObject::Restore, py::arg("file"), "Resumes from a .solverstate.")
      .def("snapshot", &SolverObject::Snapshot, "Writes weights and state under snapshot_prefix.")
      .def("apply_update", &SolverObject::ApplyUpdate,
           "One update with the gradients that the parameters' diffs hold now.")
      .def(
          "share_weights",
          [](const SolverObject& s, const NetObject& net) {
            net.net().ShareParamsWith(s.solver().net());
          },
          py::arg("net"), "From now on the net's parameters are those of the trained one.")
      .def("_add_callback", &SolverObject::AddCallback);
  module.def("_solver_type", &SolverType);
  module.def("_solver_types", [] { return RuleRegistry::Instance().Names(); });
}

}  // namespace carafe::python
