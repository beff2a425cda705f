// The data sets that data layers open. Settings that are wrong throw ConfigError at `location`,
// files that cannot be read DataError.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "carafe/data/database.h"
#include "carafe/data/dataset.h"
#include "carafe/data/picture.h"
#include "carafe/data/settings_location.h"
#include "carafe/proto/messages.h"

namespace carafe {

// The records of a database as `new_reader` reads them; a reader does not outlive the set.
using NewRecordReader = std::function<std::unique_ptr<RecordReader>(const Database& database)>;
std::unique_ptr<const DataSet> NewRecordSet(std::unique_ptr<const Database> database,
                                            NewRecordReader new_reader);

// The Datum records of a database; encoded images are decoded as `mode` says.
std::unique_ptr<const DataSet> NewDatabaseSet(std::unique_ptr<const Database> database,
                                              PictureMode mode);

// The image files that the list of image_data_param names.
std::unique_ptr<const DataSet> OpenImageList(const ImageDataParameter& param,
                                             const SettingsLocation& location);

// Images of one size in one file, each after a header that is skipped: R G B bytes of a pixel
// together (as in PPM), or gray. Labels are the numbers of a text file. `path` is the name of the
// message in the layer, for errors.
std::unique_ptr<const DataSet> OpenRawImages(const CarafeParallelDataParameter& param,
                                             const std::string& path,
                                             const SettingsLocation& location);

// The rows of the HDF5 files that the text file `list` names: one array per dataset, as floats or
// doubles (T).
template <typename T>
std::unique_ptr<const DataSet> OpenHdf5Rows(const std::string& list,
                                            const std::vector<std::string>& datasets);

}  // namespace carafe
