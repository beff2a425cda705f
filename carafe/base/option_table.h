// Options as a table: one row says everything about an option. Flags, environment variables,
// checks, messages, --help, the documentation page and the comparison between ranks are made from
// it. A row binds a name to a member of a plain struct S, whose initial values are the defaults:
//   {{.name = "workers", .help = "replicas of the net in this rank"}, Integer(&S::workers, 1,
//   4096)}
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "carafe/base/error.h"

namespace carafe {

enum class OptionType { kText, kInteger, kNumber, kChoice, kSwitch };

// Whether the weights after a run may depend on an option.
enum class WeightEffect { kNone, kMayChange };

// The values that an option may have.
struct OptionDomain {
  OptionType type = OptionType::kText;
  std::function<std::vector<std::string>()> choices = {};  // kChoice
  std::map<std::string, std::string> synonyms = {};        // of choices: old name -> name
  double min = -std::numeric_limits<double>::infinity();   // kInteger, kNumber
  double max = std::numeric_limits<double>::infinity();
  // Beyond [min, max] also [also_min, also_max], which has a meaning of its own: "0 to measure it".
  double also_min = 0, also_max = -1;
  std::string also = {};

  // Each checks `text` and returns its value. `name` ("--sum", "exchange") and `where` (a file, or
  // nothing) are for the message: ConfigError `--sum is "foo"`, fix: use one of auto, owners.
  size_t Choice(const std::string& text, const std::string& name, const Location& where) const;
  double Number(const std::string& text, const std::string& name, const Location& where) const;
  int64_t Integer(const std::string& text, const std::string& name, const Location& where) const;

  std::string Allowed() const;  // "one of auto, owners, halving", "1 to 4096"
};

// All of a row but the binding. A row that gives no value for a field means the default below.
struct OptionInfo {
  std::string name;
  std::vector<std::string> aliases = {};
  std::string section = {};       // of --help and of the documentation
  std::string help = {};          // what it means, without values and default
  std::string default_text = {};  // words for the default, where the struct's own value is none
  std::string solver_field = {};  // of SolverParameter, which comes before the default
  std::string environment = {};   // a variable, which comes between the flag and the solver's field
  bool required = false;
  bool ranks_may_differ = false;
  WeightEffect weights = WeightEffect::kNone;
  // Values that tests try. Empty: the choices; for numbers the smallest two.
  std::vector<std::string> samples = {};
  OptionDomain domain = {};  // from the binding
};

// How a member of S is written and read.
template <typename S>
class OptionBinding {
 public:
  using Setter = std::function<void(const OptionDomain&, S&, const std::string& text,
                                    const std::string& name, const Location& where)>;
  using Getter = std::function<std::optional<std::string>(const OptionDomain&, const S&)>;

  OptionBinding(OptionDomain domain, Setter set, Getter get)
      : domain_(std::move(domain)), set_(std::move(set)), get_(std::move(get)) {}
  // A member of a base class of S.
  template <typename Base>
  requires(std::derived_from<S, Base> && !std::same_as<S, Base>)
      OptionBinding(const OptionBinding<Base>& other)
      : domain_(other.domain_), set_(other.set_), get_(other.get_) {}

  const OptionDomain& domain() const { return domain_; }
  void Set(S& options, const std::string& text, const std::string& name,
           const Location& where = {}) const {
    set_(domain_, options, text, name, where);
  }
  // Nothing for an empty std::optional.
  std::optional<std::string> Get(const S& options) const { return get_(domain_, options); }

  // Allows [low, high] as well; `also` completes "use 1 to 64, or ...".
  OptionBinding Or(double low, double high, const std::string& also) const {
    OptionBinding more = *this;
    more.domain_.also_min = low;
    more.domain_.also_max = high;
    more.domain_.also = also;
    return more;
  }
  // Accepts `old` as another word for a choice.
  OptionBinding Synonym(const std::string& old, const std::string& choice) const {
    OptionBinding more = *this;
    more.domain_.synonyms[old] = choice;
    return more;
  }
  OptionBinding AsSwitch() const {
    OptionBinding more = *this;
    more.domain_.type = OptionType::kSwitch;
    return more;
  }

 private:
  template <typename>
  friend class OptionBinding;
  OptionDomain domain_;
  Setter set_;
  Getter get_;
};

std::string OptionText(double value);                         // as short as it can be: "0.5", "100"
std::vector<std::string> SplitList(const std::string& text);  // "a,b" -> a, b; no empty parts
std::string JoinList(const std::vector<std::string>& parts);

namespace option {
namespace internal {

template <typename T>
struct Plain {
  using type = T;
};
template <typename T>
struct Plain<std::optional<T>> {
  using type = T;
};

// parse(domain, text, name, where) -> value of the member; print(domain, value) -> text.
template <typename S, typename T, typename Parse, typename Print>
OptionBinding<S> Bind(T S::*member, OptionDomain domain, Parse parse, Print print) {
  return OptionBinding<S>(
      std::move(domain),
      [=](const OptionDomain& d, S& s, const std::string& text, const std::string& name,
          const Location& where) { s.*member = parse(d, text, name, where); },
      [=](const OptionDomain& d, const S& s) -> std::optional<std::string> {
        if constexpr (std::is_same_v<typename Plain<T>::type, T>) {
          return print(d, s.*member);
        } else {
          if (!(s.*member)) return std::nullopt;
          return print(d, *(s.*member));
        }
      });
}

}  // namespace internal

// The bindings. Members may be std::optional, which means that the default comes from elsewhere.
template <typename S, typename T>
OptionBinding<S> Text(T S::*member) {
  return internal::Bind(
      member, OptionDomain{},
      [](const OptionDomain&, const std::string& text, const std::string&, const Location&) {
        return text;
      },
      [](const OptionDomain&, const std::string& text) { return text; });
}

template <typename S>
OptionBinding<S> List(std::vector<std::string> S::*member) {  // written with commas
  return internal::Bind(
      member, OptionDomain{},
      [](const OptionDomain&, const std::string& text, const std::string&, const Location&) {
        return SplitList(text);
      },
      [](const OptionDomain&, const std::vector<std::string>& parts) { return JoinList(parts); });
}

template <typename S, typename T>
OptionBinding<S> Integer(T S::*member, int64_t min,
                         int64_t max = std::numeric_limits<int64_t>::max()) {
  using Value = typename internal::Plain<T>::type;
  const bool open = max == std::numeric_limits<int64_t>::max();
  OptionDomain domain{.type = OptionType::kInteger};
  domain.min = static_cast<double>(min);
  domain.max = static_cast<double>(open ? std::numeric_limits<Value>::max() : max);
  return internal::Bind(
      member, domain,
      [](const OptionDomain& d, const std::string& text, const std::string& name,
         const Location& where) { return static_cast<Value>(d.Integer(text, name, where)); },
      [](const OptionDomain&, Value value) { return std::to_string(value); });
}

template <typename S, typename T>
OptionBinding<S> Number(T S::*member, double min, double max) {
  OptionDomain domain{.type = OptionType::kNumber};
  domain.min = min;
  domain.max = max;
  return internal::Bind(
      member, domain,
      [](const OptionDomain& d, const std::string& text, const std::string& name,
         const Location& where) { return d.Number(text, name, where); },
      [](const OptionDomain&, double value) { return OptionText(value); });
}

// An enum whose values are 0, 1, ... in the order of the names, or a bool: {"off", "on"}.
template <typename S, typename T>
OptionBinding<S> Choice(T S::*member, const std::vector<std::string>& names) {
  using Value = typename internal::Plain<T>::type;
  OptionDomain domain{.type = OptionType::kChoice, .choices = [names] { return names; }};
  return internal::Bind(
      member, domain,
      [](const OptionDomain& d, const std::string& text, const std::string& name,
         const Location& where) { return static_cast<Value>(d.Choice(text, name, where)); },
      [](const OptionDomain& d, Value value) { return d.choices()[static_cast<size_t>(value)]; });
}

// One of the names that `choices` gives at run time (a registry's); the member is a string.
template <typename S, typename T>
OptionBinding<S> Name(T S::*member, const std::function<std::vector<std::string>()>& choices) {
  OptionDomain domain{.type = OptionType::kChoice, .choices = choices};
  return internal::Bind(
      member, domain,
      [](const OptionDomain& d, const std::string& text, const std::string& name,
         const Location& where) { return d.choices()[d.Choice(text, name, where)]; },
      [](const OptionDomain&, const std::string& text) { return text; });
}

// A flag without a value; its text is "on" or "off".
template <typename S>
OptionBinding<S> Switch(bool S::*member) {
  return Choice(member, {"off", "on"}).AsSwitch();
}

}  // namespace option

// What was written on a command line: name -> text.
using GivenOptions = std::map<std::string, std::string>;

// Immutable after construction.
template <typename S>
class OptionTable {
 public:
  struct Row {
    OptionInfo info;
    OptionBinding<S> value;
  };

  OptionTable(std::vector<Row> rows) : rows_(std::move(rows)) {
    for (Row& row : rows_) {
      row.info.domain = row.value.domain();
      if (row.info.default_text.empty()) row.info.default_text = row.value.Get(S{}).value_or("");
    }
  }
  // `rows`, then those of a base class of S.
  template <typename Base>
  OptionTable(std::vector<Row> rows, const OptionTable<Base>& base) : OptionTable(std::move(rows)) {
    for (const auto& row : base.rows()) rows_.push_back({row.info, row.value});
  }

  const std::vector<Row>& rows() const { return rows_; }
  std::vector<OptionInfo> infos() const {
    std::vector<OptionInfo> infos;
    for (const Row& row : rows_) infos.push_back(row.info);
    return infos;
  }
  const Row& row(const std::string& name) const {
    for (const Row& row : rows_) {
      if (row.info.name == name) return row;
    }
    throw InternalError("there is no option " + name);
  }
  // The value as text, or "" for an empty std::optional.
  std::string Get(const S& options, const std::string& name) const {
    return row(name).value.Get(options).value_or("");
  }
  // Checks and converts what was given. Throws ConfigError that names the flag or the variable.
  S Parse(const GivenOptions& given) const {
    S options;
    for (const Row& row : rows_) {
      if (const auto found = given.find(row.info.name); found != given.end())
        row.value.Set(options, found->second, "--" + row.info.name);
    }
    return options;
  }
  // Checks values that did not come from Parse.
  void Check(const S& options) const {
    S copy = options;
    for (const Row& row : rows_) {
      const std::optional<std::string> text = row.value.Get(options);
      if (text) row.value.Set(copy, *text, "--" + row.info.name);
    }
  }

 private:
  std::vector<Row> rows_;
};

// `given`, and the value of each environment variable that is set where the flag is not given.
GivenOptions WithEnvironment(const std::vector<OptionInfo>& infos, GivenOptions given);

}  // namespace carafe
