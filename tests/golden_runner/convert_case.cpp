// Kind "convert": a conversion tool must write the expected records.
#include "tools.h"

namespace carafe::golden {

void RunConvert(const Case& c, Report&) { throw Missing({"tool " + c.Text("tool")}); }

}  // namespace carafe::golden
