// What the fuzzers share: which exceptions bad input may cause, and a folder of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "carafe/base/error.h"

namespace carafe::fuzz {

// Runs `body`. Readable errors are what bad input deserves; anything else (InternalError,
// std::bad_alloc, a signal) ends the process and is a find.
template <typename Body>
void Try(Body&& body) {
  try {
    body();
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
  }
}

// A folder for the files that this process writes, deleted at its end. The first call also makes it
// the working directory, so that relative paths in an input stay inside, and silences the log.
const std::filesystem::path& Folder();

// Writes `content` to Folder()/name and returns the path.
std::string WriteInput(const std::string& name, const uint8_t* data, size_t size);

inline std::string_view Text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace carafe::fuzz
