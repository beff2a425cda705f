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

#include <string>

#include "carafe/proto/messages.h"

namespace carafe {

// Turns a binary net into Caffe's meaning, in place, with a word in the log. `file` is for the log
// and for errors. Returns whether there was anything to turn. Throws DataError.
bool ConvertDialect(NetParameter* net, const std::string& file);
// The same for the blobs of a solver's state.
void ConvertDialect(SolverState* state, const std::string& file);

}  // namespace carafe
