// Weights as HDF5: /data/<layer>/<i> for every parameter at its owner, a group for every layer, and
// /diff/<layer>/<i> on request, as Caffe's .caffemodel.h5 have it.
#pragma once

#include <string>

#include "carafe/net/net.h"

namespace carafe {

// A layer's name as the name of a group: the same, but for what HDF5 does not allow. "/" becomes
// %2F, "." %2E, no name at all %00; a % that would look like one of these becomes %25.
std::string Hdf5LayerName(const std::string& layer);
std::string LayerNameOfHdf5(const std::string& group);  // the other way

// Throws ConfigError for a net whose layers HDF5 could not tell apart: two of one name.
template <typename T>
void CheckHdf5Names(const Net<T>& net);

// Throws DataError; then there is no file, or the old one.
template <typename T>
void WriteWeightsHdf5(Stream& stream, const Net<T>& net, bool with_diff, const std::string& path);

// Copies by layer name, as CopyWeights does. Shapes must agree; a parameter may be missing in the
// file only if the net shares it from another layer. A group may also be nested where the name has
// slashes. A file that is refused changes nothing.
template <typename T>
void LoadWeightsHdf5(Stream& stream, const std::string& path, Net<T>& net);

// Throws DataError unless the file is whole and holds weights.
void CheckWeightsHdf5(const std::string& path);

}  // namespace carafe
