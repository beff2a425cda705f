// Weights in and out of a net: BlobProto conversion, .caffemodel files, copying by layer name.
#pragma once

#include <string>

#include "carafe/net/net.h"
#include "carafe/proto/upgrade.h"

namespace carafe {

// The blob's shape as its file gives it: legacy num/channels/height/width, or `shape`.
Shape BlobProtoShape(const BlobProto& proto);

// Values of a BlobProto (float or double data), with count checked against its shape. `file` and
// `what` are for errors.
std::vector<double> BlobProtoValues(const BlobProto& proto, const std::string& file,
                                    const std::string& what);
std::vector<double> BlobProtoDiffs(const BlobProto& proto);

// Always `shape`; `data` for float, `double_data` for double.
template <typename T>
void ToBlobProto(Stream& stream, const Blob<T>& blob, bool with_diff, BlobProto* proto);

// The net as a .caffemodel holds it: all layers after filtering and split insertion, with phase and
// blobs.
template <typename T>
NetParameter ToNetParameter(Stream& stream, const Net<T>& net, bool with_diff);

// Copies by layer name. Source layers that the net lacks are skipped with a line in the log; layers
// of the same name must agree in number and shape of their blobs (legacy 4-D shapes may have
// leading ones).
template <typename T>
void CopyWeights(Stream& stream, const NetParameter& source, const std::string& file, Net<T>& net);

// Reads a .caffemodel: of Caffe or of a fork (proto/dialects.h), in its present form or an old one
// (proto/upgrade.h); `upgrade` tells what had to be done. Throws DataError for a missing, truncated
// or foreign file, ConfigError for an old net that makes no sense.
NetParameter ReadNetBinary(const std::string& path, NetUpgrade* upgrade = nullptr);
// A binaryproto or HDF5, by its content.
template <typename T>
void LoadWeightsFile(Stream& stream, const std::string& path, Net<T>& net);
void CheckWeightsFile(const std::string& path);  // throws DataError unless it is whole
// One file, or several separated by commas.
template <typename T>
void LoadWeights(Stream& stream, const std::string& paths, Net<T>& net);

// XXH3 over all parameter values in learnable order: equal on every replica that is in step.
template <typename T>
uint64_t WeightsHash(Stream& stream, const Net<T>& net);

}  // namespace carafe
