// The text of the error that a piece of code throws, for tests that pin it.
#pragma once

#include <string>

#include "carafe/base/error.h"

namespace carafe {

// What `run` says when it throws E; "no error" when it does not, the text with a note when it
// throws another kind.
template <typename E, typename F>
std::string ErrorText(const F& run) {
  try {
    run();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another kind of error: ") + error.what();
  }
  return "no error";
}

}  // namespace carafe
