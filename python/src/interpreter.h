// Python inside a program that is not Python: started once, when a net names a layer written in it.
#pragma once

namespace carafe::python {

// Does nothing in Python itself. Throws ConfigError if it cannot be started, or if it does not find
// the package caffe.
void EnsureInterpreter();

// Whether EnsureInterpreter started Python: the program then has its own ranks, log and way to end.
bool IsEmbedded();

}  // namespace carafe::python
