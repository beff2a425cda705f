#include "python/src/errors.h"

#include <fmt/format.h>

namespace py = pybind11;

namespace carafe::python {
namespace {

std::string TracebackText(const py::error_already_set& raised) {
  try {
    const py::object lines =
        py::module_::import("traceback")
            .attr("format_exception")(raised.type(), raised.value(),
                                      raised.trace() ? raised.trace() : py::none());
    std::string text = py::str("").attr("join")(lines).cast<std::string>();
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  } catch (const py::error_already_set&) {
    return raised.what();
  }
}

ErrorFields Fields(const LayerSpec& spec, const char* method, const py::error_already_set& raised) {
  const PythonParameter& param = spec.param().python_param();
  ErrorFields fields;
  fields.where = spec.place().Find("");
  fields.subject =
      fmt::format("layer \"{}\" ({}.{} of Python)", spec.name(), param.module(), param.layer());
  fields.what = fmt::format("{} raised an exception\n{}", method, TracebackText(raised));
  return fields;
}

// Python's own classes: made once, never let go.
PyObject* error_class = nullptr;
PyObject* config_error = nullptr;
PyObject* data_error = nullptr;
PyObject* comm_error = nullptr;
PyObject* internal_error = nullptr;

PyObject* NewClass(py::module_& module, const char* name, PyObject* base, const char* doc) {
  const std::string full = std::string("caffe.") + name;
  PyObject* made = PyErr_NewExceptionWithDoc(full.c_str(), doc, base, nullptr);
  if (made == nullptr) throw py::error_already_set();
  module.attr(name) = py::handle(made);
  return made;
}

void Translate(std::exception_ptr error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const PythonLayerError& e) {
    e.Raise();
  } catch (const ConfigError& e) {
    PyErr_SetString(config_error, e.what());
  } catch (const DataError& e) {
    PyErr_SetString(data_error, e.what());
  } catch (const CommError& e) {
    PyErr_SetString(comm_error, e.what());
  } catch (const InternalError& e) {
    PyErr_SetString(internal_error, e.what());
  } catch (const Error& e) {
    PyErr_SetString(error_class, e.what());
  }
}

}  // namespace

PythonLayerError::PythonLayerError(const LayerSpec& spec, const char* method,
                                   const py::error_already_set& raised)
    : Error(Fields(spec, method, raised)),
      title_(fmt::format("in {} of layer \"{}\"", method, spec.name())),
      raised_(std::make_shared<py::error_already_set>(raised)) {}

void PythonLayerError::Raise() const {
  const py::object value = raised_->value();
  if (py::hasattr(value, "add_note")) value.attr("add_note")(title_);  // since Python 3.11
  py::error_already_set copy(*raised_);
  copy.restore();
}

void BindErrors(py::module_& module) {
  error_class = NewClass(module, "Error", PyExc_RuntimeError,
                         "What went wrong in Carafe: says what, where, and how to fix it.");
  config_error = NewClass(module, "ConfigError", error_class,
                          "A net, solver or setting that cannot be right, with file:line:column.");
  data_error = NewClass(module, "DataError", error_class,
                        "A file or database whose content is missing or broken.");
  comm_error = NewClass(module, "CommError", error_class, "Ranks that cannot talk to each other.");
  internal_error = NewClass(module, "InternalError", error_class, "A bug of Carafe.");
  py::register_exception_translator(&Translate);
}

}  // namespace carafe::python
