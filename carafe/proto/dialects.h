// Binary files of Caffe's forks. Their messages use some of Caffe's numbers for other things;
// what they mean is put where Caffe has it, or refused by name, so that nothing is misread:
//   NVCaffe, Caffe-MPI 2.0  blobs as bytes (raw_data 12 of type 10, raw_diff 13 of type 11);
//                           LayerParameter 145-148 are precisions, not settings of layers
//   PMLS-Caffe              V1 layers; BlobProto 7 and 8 are numbers, not shape and double_data;
//                           shared_file_system where Caffe has is_color, force_encoded_color
//   CaffeGPI, intel/caffe   LayerParameter 147, 148 are settings of layers of their own
// A file of intel/caffe may have avg_include_pad where Caffe has round_mode (PoolingParameter 13);
// the two cannot be told apart, and do not matter here: from a binary net only weights are taken.
#pragma once

#include <set>
#include <string>

#include "carafe/proto/messages.h"

namespace carafe {

using Forks = std::set<std::string>;  // names of forks whose forms a file has

// Converts a binary net to Caffe's meaning, in place, and logs what it found. `file` is for the log
// and for errors. Returns whether there was anything to convert. Throws DataError.
bool ConvertDialect(NetParameter* net, const std::string& file);
// The same for a blob of a solver's state, which `what` names in errors. Nothing is logged; the
// forks found are added to `forks`.
void ConvertDialect(BlobProto* blob, const std::string& what, const std::string& file,
                    Forks* forks);
void LogForks(const Forks& forks, const std::string& file);

}  // namespace carafe
