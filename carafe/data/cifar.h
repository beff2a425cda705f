// The binary version of CIFAR-10 made into databases, as Caffe's convert_cifar_data does.
#pragma once

#include <cstdint>
#include <string>

namespace carafe {

struct CifarResult {
  int64_t train = 0, test = 0;  // records
};

// Reads data_batch_1.bin to data_batch_5.bin and test_batch.bin in `input`; writes
// cifar10_train_<backend> and cifar10_test_<backend> in `output`. Keys are %05d; pixels stay as
// they are, planes of R, G, B. Throws DataError; a database that is not complete is not left
// behind.
CifarResult ConvertCifar(const std::string& input, const std::string& output,
                         const std::string& backend);

}  // namespace carafe
