// Kind "convert": a conversion tool must write the expected records into an LMDB.
#include <fmt/format.h>

#include <filesystem>

#include "carafe/data/database.h"
#include "nets.h"
#include "tools.h"

namespace carafe::golden {

void RunConvert(const Case& c, Report& report) {
  std::filesystem::remove_all("convert.tmp");
  std::vector<std::string> args = c.entry.at("args");
  args.push_back("convert.tmp");
  RunTool(c, c.Text("tool"), args);
  const Arrays expected = Arrays::Read(c.Text("expected"));
  const std::unique_ptr<Database> source = OpenLmdb("convert.tmp");
  const int64_t count = source->size();
  std::vector<std::string> keys;
  Array label = Array::Of({count}, {}), encoded = Array::Of({count}, {});
  Array dims = Array::Of({count, 3}, {}), data;
  for (int64_t i = 0; i < count; ++i) {
    const Record record = source->Read(i);
    Datum datum;
    report.Check(datum.ParseFromArray(record.value.data(), static_cast<int>(record.value.size())),
                 fmt::format("record {} is no Datum", i));
    keys.emplace_back(record.key);
    label.values.push_back(datum.label());
    encoded.values.push_back(datum.encoded() ? 1 : 0);
    dims.values.insert(dims.values.end(),
                       {static_cast<double>(datum.channels()), static_cast<double>(datum.height()),
                        static_cast<double>(datum.width())});
    for (const char byte : datum.data()) data.values.push_back(static_cast<uint8_t>(byte));
    data.shape = {count, static_cast<int64_t>(datum.data().size())};
  }
  const Tolerance exact{0, 0};
  report.Compare("keys", expected.At("keys"), Array::Of(keys), exact);
  report.Compare("label", expected.At("label"), label, exact);
  report.Compare("dims", expected.At("dims"), dims, exact);
  report.Compare("encoded", expected.At("encoded"), encoded, exact);
  if (expected.Find("data") != nullptr) {
    report.Compare("data", expected.At("data"), data, {0, c.Get("atol", 0.0)});
  }
}

}  // namespace carafe::golden
