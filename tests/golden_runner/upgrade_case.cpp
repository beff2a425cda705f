// Kind "upgrade": an old file and the text that the original's tool made of it must describe the
// same net, and our tool must write that text, up to white space.
#include <fmt/format.h>

#include <cstdlib>
#include <regex>

#include "carafe/base/file.h"
#include "nets.h"
#include "tools.h"

namespace carafe::golden {
namespace {

// The tokens of a text message: comments, separators and the spelling of numbers do not count.
std::vector<std::string> Tokens(const std::string& text) {
  static const std::regex comment(R"re((^|\n)\s*#[^\n]*)re"), colon_brace(R"re(:\s*\{)re");
  static const std::regex token(R"re("(?:[^"\\]|\\.)*"|[{}]|[^\s{}]+)re");
  const std::string plain =
      std::regex_replace(std::regex_replace(text, comment, "\n"), colon_brace, " {");
  std::vector<std::string> tokens;
  for (std::sregex_iterator at(plain.begin(), plain.end(), token), end; at != end; ++at) {
    std::string word = at->str();
    while (!word.empty() && (word.back() == ',' || word.back() == ';')) word.pop_back();
    char* rest = nullptr;
    const float number = std::strtof(word.c_str(), &rest);
    const bool numeric = !word.empty() && *rest == '\0' && std::isalpha(word[0]) == 0;
    tokens.push_back(numeric ? fmt::format("{}", number) : word);
  }
  return tokens;
}

// Layers, blobs and parameters in the form of the index's `expect`.
Json Describe(const Net<float>& net) {
  Json layers = Json::array(), blobs = Json::array(), params = Json::array();
  const auto dims = [](const Shape& shape) {
    return std::vector<int64_t>(shape.dims().begin(), shape.dims().end());
  };
  for (const auto& layer : net.layers()) {
    layers.push_back({layer->name(), layer->spec().param().type()});
    for (size_t i = 0; i < layer->blobs().size(); ++i) {
      params.push_back({layer->name(), i, dims(layer->blobs()[i]->shape())});
    }
  }
  for (const std::string& name : BlobNames(net)) {
    blobs.push_back({name, dims(BlobNamed(net, name).shape())});
  }
  return {{"layers", layers}, {"blobs", blobs}, {"params", params}};
}

Json DescribeFile(const std::string& path, Phase phase) {
  const NetSpec spec = LoadNetSpec(path);
  RequireLayerTypes(spec.param);
  return Describe(Net<float>(spec, StateOf(spec, phase)));
}

}  // namespace

void RunUpgrade(const Case& c, Report& report) {
  const std::string tool = c.Text("tool");
  if (tool == "upgrade_net_proto_text" && !c.Get("textonly", false)) {
    const Json old_net = DescribeFile(c.Text("old"), PhaseOf(c, 1));
    const Json new_net = DescribeFile(c.Text("new"), PhaseOf(c, 1));
    for (const char* part : {"layers", "blobs", "params"}) {
      report.Check(old_net.at(part) == new_net.at(part),
                   fmt::format("{} differ between old and upgraded", part));
      if (!c.Has("expect")) continue;
      report.Check(old_net.at(part) == c.entry.at("expect").at(part),
                   fmt::format("{}: got {}", part, old_net.at(part).dump()));
    }
  }
  RunTool(c, tool, {c.Text("old"), "upgraded.tmp"});
  report.Compare("upgraded text", Array::Of(Tokens(ReadFile(c.Text("new")))),
                 Array::Of(Tokens(ReadFile("upgraded.tmp"))), {});
}

}  // namespace carafe::golden
