// What the kinds share: nets of a case, their blobs as arrays, and what they need that is not
// built.
#pragma once

#include <string>

#include "case.h"

namespace carafe::golden {

// Phase and level replace those of the file, stages are added.
NetState StateOf(const NetSpec& spec, Phase phase, int level = 0,
                 const std::vector<std::string>& stages = {});
Phase PhaseOf(const Case& c, int otherwise);

// Throws std::runtime_error for layer types of Caffe that the library lacks: else a net that must
// be rejected would be, for the wrong reason.
void RequireLayerTypes(const NetParameter& net);
// Types that Caffe has, whether or not the library does.
bool IsCaffeType(const std::string& type);
bool InLibrary(const std::string& type);

Array DataOf(Stream& stream, const Blob<float>& blob);
Array DiffOf(Stream& stream, const Blob<float>& blob);
Array ArrayOf(const Shape& shape, const std::vector<double>& values);

Blob<float>& BlobNamed(const Net<float>& net, const std::string& name);
// The parameter of a key's tail "<layer>/<index>".
Blob<float>& ParamNamed(const Net<float>& net, const std::string& layer_and_index);
// Puts all param/<layer>/<i> into the net; refuses other shapes.
void SetParams(Stream& stream, const Arrays& arrays, const Net<float>& net);

std::vector<std::string> LayerNames(const Net<float>& net);
std::vector<std::string> LayerTypes(const Net<float>& net);
std::vector<std::string> BlobNames(const Net<float>& net);  // each name once

}  // namespace carafe::golden
