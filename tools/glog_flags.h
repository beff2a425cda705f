// The flags of Caffe's logging library, which old command lines carry:
//   --minloglevel=N   0: all lines, 1: warnings and errors, 2 and more: errors
//   --log_dir=FOLDER  a log file in this folder as well, with glog's name and its link
//                     PROGRAM.INFO
//   --logtostderr, --alsologtostderr, --stderrthreshold, --v, --vmodule, --colorlogtostderr
//                     accepted: the log always goes to stderr and has one level of detail
// The variables GLOG_minloglevel and GLOG_log_dir mean the same as the flags.
#pragma once

#include <string>
#include <vector>

namespace carafe {

// Takes these flags out of the arguments of a command and obeys them. Throws ConfigError for a
// value that makes no sense, DataError for a folder that cannot be written.
void TakeGlogFlags(const std::string& program, std::vector<std::string>* arguments);

}  // namespace carafe
