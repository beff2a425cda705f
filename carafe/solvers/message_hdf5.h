// A protobuf message in an HDF5 file. Fields are visited by reflection, so that a field added to a
// message is written and read without a line of code:
//   number, bool, enum       dataset FIELD with one value
//   repeated number          dataset FIELD with as many values
//   string                   dataset FIELD, a string (without zero bytes)
//   bytes                    dataset FIELD of unsigned bytes
//   message                  group FIELD
//   repeated of these three  group FIELD with the members 0, 1, ..
// Fields that are not set have no dataset.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

#include "carafe/data/hdf5_file.h"

namespace carafe {

// The group must exist; "" is the root. Fields named in `except` are left to the caller.
void WriteMessageFields(const google::protobuf::Message& message, const std::string& group,
                        Hdf5File& file, const std::vector<std::string_view>& except = {});

// Members of the group that the message has no field for are logged and ignored. Throws DataError
// for a member of another kind than its field.
void ReadMessageFields(const Hdf5File& file, const std::string& group,
                       google::protobuf::Message* message,
                       const std::vector<std::string_view>& except = {});

// The one value of a dataset; throws DataError if it has more or none.
template <typename T>
T ReadOneValue(const Hdf5File& file, const std::string& name);

}  // namespace carafe
