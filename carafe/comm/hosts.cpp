#include "carafe/comm/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "carafe/base/error.h"

namespace carafe {
namespace {

constexpr int kMostSlots = 4096;  // on one host: more is a mistake

std::optional<int> Number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return {};
  return value;
}

int Slots(std::string_view text, const std::string& where) {
  const std::optional<int> slots = Number(text);
  if (slots && *slots >= 1 && *slots <= kMostSlots) return *slots;
  throw ConfigError(fmt::format("{}: \"{}\" is no number of ranks", where, text),
                    fmt::format("give 1 to {}, e.g. node1:4 or node1 slots=4", kMostSlots));
}

// host, host:n, [v6]:n; an address with more than one colon and no brackets is taken whole.
HostSlots ParseHost(std::string_view text, const std::string& where) {
  const size_t colon = text.rfind(':');
  const size_t bracket = text.rfind(']');
  const bool plain_v6 = text.find(':') != colon && bracket == std::string_view::npos;
  HostSlots host{std::string(text), 1};
  if (colon != std::string_view::npos && !plain_v6 &&
      (bracket == std::string_view::npos || colon > bracket)) {
    host.host = text.substr(0, colon);
    host.slots = Slots(text.substr(colon + 1), where);
  }
  const bool bad = host.host.empty() || host.host[0] == '-' ||
                   host.host.find_first_of(" \t\"'$`;&|<>\\") != std::string::npos;
  if (bad)
    throw ConfigError(fmt::format("{}: \"{}\" is no host name", where, text),
                      "write a name or an address, with :n behind it for n ranks");
  return host;
}

void Add(std::vector<HostSlots>& hosts, const HostSlots& host) {
  const auto same = std::find_if(hosts.begin(), hosts.end(),
                                 [&](const HostSlots& h) { return h.host == host.host; });
  if (same == hosts.end()) {
    hosts.push_back(host);
  } else {
    same->slots += host.slots;
  }
}

std::vector<std::string> Words(std::string_view line) {
  std::istringstream stream{std::string(line.substr(0, line.find('#')))};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// host, host:n, host slots=n max_slots=m
HostSlots ParseLine(const std::vector<std::string>& words, const std::string& where) {
  HostSlots host = ParseHost(words[0], where);
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (equals == std::string::npos)
      throw ConfigError(fmt::format("{}: \"{}\" is not understood", where, words[i]),
                        "write host, host:n, host slots=n, or id address port, one host per line");
    if (words[i].substr(0, equals) == "slots")
      host.slots = Slots(std::string_view(words[i]).substr(equals + 1), where);
  }
  return host;
}

}  // namespace

std::vector<HostSlots> ParseHostList(std::string_view text) {
  std::vector<HostSlots> hosts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    Add(hosts, ParseHost(text.substr(begin, comma - begin), fmt::format("-H {}", text)));
    begin = comma + 1;
  }
  return hosts;
}

std::vector<HostSlots> ParseHostFile(std::string_view text, const std::string& name) {
  std::vector<HostSlots> hosts;
  std::map<int, HostSlots> by_id;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = fmt::format("{}:{}", name, ++number);
    const std::vector<std::string> words = Words(line);
    if (words.empty()) continue;
    const std::optional<int> id = Number(words[0]);
    const bool with_id = words.size() == 3 && id && Number(words[2]);
    if (with_id ? !hosts.empty() : !by_id.empty())
      throw ConfigError(fmt::format("{}: lines with and without id and port are mixed", where),
                        "write all lines in one form");
    if (!with_id) {
      Add(hosts, ParseLine(words, where));
    } else if (!by_id.try_emplace(*id, HostSlots{ParseHost(words[1], where).host, 1}).second) {
      throw ConfigError(fmt::format("{}: id {} is there twice", where, *id),
                        "number the lines from 0 on, each with its own id");
    }
  }
  int expected = 0;
  for (const auto& [id, host] : by_id) {
    if (id != expected++)
      throw ConfigError(fmt::format("{}: there is no line with id {}", name, expected - 1),
                        "number the lines from 0 on, without gaps");
    Add(hosts, host);
  }
  if (hosts.empty())
    throw ConfigError(fmt::format("{}: the file names no host", name),
                      "write one host per line, e.g. node1:4");
  return hosts;
}

std::vector<HostSlots> ReadHostFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    throw ConfigError(fmt::format("the host file {} cannot be read, or is empty", path),
                      "check the path given with --hostfile");
  return ParseHostFile(text.str(), path);
}

std::string HostFileText(const std::vector<HostSlots>& hosts, std::string_view mpi) {
  std::string text;
  for (const HostSlots& host : hosts)
    text += fmt::format("{}{}{}\n", host.host, mpi == "mpich" ? ":" : " slots=", host.slots);
  return text;
}

int TotalSlots(const std::vector<HostSlots>& hosts) {
  int total = 0;
  for (const HostSlots& host : hosts) total += host.slots;
  return total;
}

}  // namespace carafe
