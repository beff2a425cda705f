// The door to layers written in Python. The plug-in libcarafe_python.so knocks on it when it is
// loaded: by `import caffe`, or by the library when a net names such a layer. So the library itself
// needs no interpreter.
#pragma once

#include <memory>

#include "carafe/layers/layer.h"

namespace carafe {

struct PythonPlugin {
  std::unique_ptr<Layer<float>> (*make)(const LayerSpec& spec);
};

// Called by the plug-in, which stays loaded.
void SetPythonPlugin(const PythonPlugin* plugin);

}  // namespace carafe
