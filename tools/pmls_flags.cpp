#include "tools/pmls_flags.h"

#include <string>

#include "carafe/train/pmls_flags.h"

namespace carafe {

void DeclarePmlsFlags(CLI::App& app, GivenOptions* given) {
  for (const PmlsFlag& flag : PmlsFlags()) {
    CLI::Option* option = nullptr;
    if (flag.is_switch) {
      option = app.add_flag_function(
          "--" + flag.name + ",!--no" + flag.name,
          [given, name = flag.name](int64_t on) { (*given)[name] = on > 0 ? "true" : "false"; });
    } else {
      option = app.add_option_function<std::string>(
          "--" + flag.name,
          [given, name = flag.name](const std::string& text) { (*given)[name] = text; });
    }
    option->group("");
  }
}

}  // namespace carafe
