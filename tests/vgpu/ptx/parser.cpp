// Reads a PTX text: directives, declarations, and statements of functions.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/lexer.h"
#include "tests/vgpu/ptx/module.h"
#include "tests/vgpu/ptx/symbols.h"

namespace carafe::vgpu::ptx {
namespace {

struct Operand {
  enum Kind { kSlots, kAddress };
  Kind kind = kSlots;
  bool braces = false;         // {a, b}
  bool pair = false;           // a|b
  bool only_registers = true;  // none is an immediate or a special register
  std::vector<int> slots;
  int64_t offset = 0;
};

class Parser {
 public:
  Parser(const std::string& name, const std::string& text)
      : text_(text.substr(0, text.find('\0'))) {
    module_->name = name;
    for (size_t begin = 0; begin <= text_.size();) {
      const size_t end = std::min(text_.find('\n', begin), text_.size());
      module_->lines.push_back(text_.substr(begin, end - begin));
      begin = end + 1;
    }
    tokens_ = Tokenize(name, text_);
  }

  std::unique_ptr<Module> Run() {
    while (Here().kind != Token::kEnd) ParseTopLevel();
    Finish();
    return std::move(module_);
  }

 private:
  [[noreturn]] void Refuse(const Token& token, const std::string& what) const {
    const size_t line = static_cast<size_t>(token.line) - 1;
    throw Error(fmt::format("{}:{}: \"{}\": {}", module_->name, token.line,
                            line < module_->lines.size() ? module_->lines[line] : "", what));
  }
  const Token& Here(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  Token Next() { return tokens_[std::min(at_++, tokens_.size() - 1)]; }
  bool Skip(std::string_view text) {
    if (Here().text != text) return false;
    ++at_;
    return true;
  }
  void Expect(std::string_view text) {
    if (!Skip(text)) Refuse(Here(), fmt::format("'{}' is expected, not '{}'", text, Here().text));
  }
  std::string Word() {
    if (Here().kind != Token::kWord)
      Refuse(Here(), fmt::format("a name is expected, not '{}'", Here().text));
    return std::string(Next().text);
  }

  // The bits of a number: 0f and 0d with hexadecimal digits, or an integer.
  uint64_t Number() {
    const bool negative = Skip("-");
    const Token token = Next();
    std::string_view digits = token.text;
    if (token.kind != Token::kNumber)
      Refuse(token, fmt::format("a number is expected, not '{}'", digits));
    int base = 10;
    if (digits.size() > 2 && digits[0] == '0' &&
        std::string_view("fFdDxX").find(digits[1]) != std::string_view::npos) {
      base = 16;
      digits.remove_prefix(2);
    }
    if (base == 10 && digits.back() == 'U') digits.remove_suffix(1);
    if (base == 16 && digits.back() == 'U') digits.remove_suffix(1);
    uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      Refuse(token, fmt::format("the number '{}' cannot be read", token.text));
    }
    return negative ? 0 - value : value;
  }

  void ParseTopLevel() {
    const Token first = Here();
    if (Skip(".version") || Skip(".target") || Skip(".address_size")) {
      // The rest of the line.
      while (Here().line == first.line && Here().kind != Token::kEnd) ++at_;
      return;
    }
    bool is_extern = false;
    for (bool more = true; more;) {
      more = Skip(".visible") || Skip(".weak") || Skip(".common");
      if (Skip(".extern")) more = is_extern = true;
    }
    if (Here().text == ".entry" || Here().text == ".func") return ParseFunction();
    if (Here().text == ".shared" || Here().text == ".const" || Here().text == ".global") {
      return ParseVariable(is_extern);
    }
    Refuse(first, fmt::format("the directive '{}' is not known", Here().text));
  }

  struct Declared {
    Type type = Type::kB8;
    size_t align = 1, bytes = 0;
    std::string name;
    bool open = false;  // name[]
  };

  // [.align N] .type name[[N]...], after the space.
  Declared ParseDeclared() {
    Declared declared;
    size_t align = 0;
    std::optional<Type> type;
    while (Here().kind == Token::kDirective) {
      const Token token = Next();
      if (token.text == ".align") {
        align = Number();
      } else if (token.text != ".ptr" && token.text != ".global") {
        type = TypeOf(token.text.substr(1));
        if (!type) Refuse(token, fmt::format("the type '{}' is not known", token.text));
      }
    }
    if (!type) Refuse(Here(), "a type is expected");
    declared.type = *type;
    declared.name = Word();
    declared.bytes = SizeOf(*type);
    while (Skip("[")) {
      if (Skip("]")) {
        declared.open = true;
        declared.bytes = 0;
      } else {
        declared.bytes *= Number();
        Expect("]");
      }
    }
    declared.align = std::max(align, SizeOf(*type));
    return declared;
  }

  static size_t Place(size_t& end, const Declared& declared) {
    const size_t offset = (end + declared.align - 1) / declared.align * declared.align;
    end = offset + declared.bytes;
    return offset;
  }

  void ParseVariable(bool is_extern) {
    const Token space = Next();
    Declared declared = ParseDeclared();
    if (space.text == ".shared") {
      DeclareShared(declared, is_extern);
    } else {
      size_t end = module_->memory.size();
      const size_t offset = Place(end, declared);
      module_->memory.resize(end);
      module_->variables.push_back({offset, declared.bytes});
      symbols_.Add(declared.name, {Symbol::kModule, static_cast<int64_t>(kModuleBase + offset)});
      if (Skip("=")) ParseInitializer(declared, offset);
    }
    Expect(";");
  }

  void ParseInitializer(const Declared& declared, size_t offset) {
    const size_t size = SizeOf(declared.type), end = offset + declared.bytes;
    const bool list = Skip("{");
    do {
      const Token token = Here();
      const uint64_t value = Number();
      if (offset + size > end) Refuse(token, "more values than the variable has");
      std::memcpy(module_->memory.data() + offset, &value, size);
      offset += size;
    } while (list && Skip(","));
    if (list) Expect("}");
  }

  void DeclareShared(const Declared& declared, bool is_extern) {
    if (is_extern || declared.open) {
      symbols_.Add(declared.name, {Symbol::kDynamicShared, 0});
      dynamic_align_ = std::max(dynamic_align_, declared.align);
    } else {
      symbols_.Add(
          declared.name,
          {Symbol::kValue, static_cast<int64_t>(kFirstOffset + Place(shared_end_, declared))});
    }
  }

  void AddParam(const Declared& declared) {
    const size_t offset = Place(function_->param_bytes, declared);
    symbols_.Add(declared.name, {Symbol::kParam, static_cast<int64_t>(offset)});
    param_sizes_[declared.name] = {offset, declared.bytes};
    function_->params.push_back({offset, declared.bytes});
  }

  // ( .param ..., .param ... )
  size_t ParseParams() {
    size_t count = 0;
    Expect("(");
    while (!Skip(")")) {
      Expect(".param");
      AddParam(ParseDeclared());
      ++count;
      if (Here().text != ")") Expect(",");
    }
    return count;
  }

  void ParseFunction() {
    const Token kind = Next();
    auto parsed = std::make_unique<Function>();
    function_ = parsed.get();
    function_->is_entry = kind.text == ".entry";
    function_->frame.assign(kSpecialSlots, 0);
    function_->module_name = &module_->name;
    function_->lines = &module_->lines;
    symbols_.Push();
    // A caller's arguments come first in the callee's memory, its results behind them.
    size_t results_at = 0;
    if (Here().text == "(") {
      results_at = at_;
      while (!Skip(")")) Next();
    }
    function_->name = Word();
    if (Here().text == "(") function_->num_params = ParseParams();
    if (results_at != 0) {
      const size_t back = at_;
      at_ = results_at;
      function_->num_results = ParseParams();
      at_ = back;
    }
    while (Here().text != "{" && Here().text != ";" && Here().kind != Token::kEnd)
      Next();  // .maxntid and the like
    if (!Skip(";")) {
      ParseBody();
      function_->has_body = true;
    }
    symbols_.Pop();
    auto& known = module_->functions[function_->name];
    if (known == nullptr || function_->has_body) known = std::move(parsed);
  }

  void ParseBody() {
    labels_.clear();
    branches_.clear();
    Expect("{");
    size_t depth = 1;
    symbols_.Push();
    while (depth > 0) {
      if (Here().kind == Token::kEnd) Refuse(Here(), "the function has no end");
      if (Skip("{")) {
        ++depth;
        symbols_.Push();
      } else if (Skip("}")) {
        --depth;
        symbols_.Pop();
      } else {
        ParseStatement();
      }
    }
    Instruction end;  // behind the last instruction
    Opcode ret("ret", 0);
    end.run = DecodeControl(ret, end).run;
    end.function = function_;
    end.line = Here().line;
    function_->code.push_back(end);
    for (const auto& [instruction, label] : branches_) {
      const auto found = labels_.find(std::string(label.text));
      if (found == labels_.end()) Refuse(label, fmt::format("there is no label '{}'", label.text));
      function_->code[instruction].target = found->second;
    }
  }

  void ParseStatement() {
    const Token first = Here();
    if (first.kind == Token::kDirective) return ParseDirective();
    if (first.kind == Token::kWord && Here(1).text == ":") {
      if (!labels_.emplace(first.text, function_->code.size()).second)
        Refuse(first, "the label is there twice");
      at_ += 2;
      return;
    }
    ParseInstruction();
  }

  void ParseDirective() {
    const Token token = Next();
    if (token.text == ".reg") {
      ParseRegisters();
    } else if (token.text == ".param") {
      AddParam(ParseDeclared());
    } else if (token.text == ".local") {
      const Declared declared = ParseDeclared();
      symbols_.Add(declared.name,
                   {Symbol::kLocal,
                    static_cast<int64_t>(kFirstOffset + Place(function_->local_bytes, declared))});
    } else if (token.text == ".shared") {
      DeclareShared(ParseDeclared(), false);
    } else if (token.text == ".pragma") {
      Next();
    } else {
      Refuse(token, fmt::format("the directive '{}' is not known", token.text));
    }
    Expect(";");
  }

  int NewSlot(uint64_t value) {
    function_->frame.push_back(value);
    return static_cast<int>(function_->frame.size()) - 1;
  }

  void ParseRegisters() {
    const Token type = Next();
    if (!TypeOf(type.text.substr(1)))
      Refuse(type, fmt::format("the type '{}' is not known", type.text));
    do {
      const std::string name = Word();
      if (!Skip("<")) {
        symbols_.Add(name, {Symbol::kRegister, NewSlot(0)});
        continue;
      }
      const uint64_t count = Number();
      Expect(">");
      for (uint64_t i = 0; i < count; ++i)
        symbols_.Add(name + std::to_string(i), {Symbol::kRegister, NewSlot(0)});
    } while (Skip(","));
  }

  Symbol Lookup(const Token& token) {
    const Symbol* symbol = symbols_.Find(std::string(token.text));
    if (symbol == nullptr)
      Refuse(token, fmt::format("'{}' is not declared, or not known", token.text));
    return *symbol;
  }

  // A register, special register, number or the address of a variable.
  int Value(bool* is_register) {
    *is_register = false;
    if (Here().kind == Token::kNumber || Here().text == "-") return NewSlot(Number());
    const Token token = Next();
    if (token.text == "_") return NewSlot(0);  // a result that nobody wants
    if (token.text == "WARP_SZ") return NewSlot(32);
    if (token.kind != Token::kWord)
      Refuse(token, fmt::format("an operand is expected, not '{}'", token.text));
    if (const std::optional<int> special = SpecialRegister(token.text)) return *special;
    const Symbol symbol = Lookup(token);
    *is_register = symbol.kind == Symbol::kRegister;
    if (*is_register) return static_cast<int>(symbol.value);
    const int slot = NewSlot(static_cast<uint64_t>(symbol.value));
    if (symbol.kind == Symbol::kLocal) function_->local_slots.push_back(slot);
    if (symbol.kind == Symbol::kDynamicShared) dynamic_slots_.emplace_back(function_, slot);
    return slot;
  }

  Operand ParseOperand() {
    Operand operand;
    bool is_register = false;
    const auto add = [&] {
      const bool sink = Here().text == "_";
      operand.slots.push_back(Value(&is_register));
      operand.only_registers = operand.only_registers && (is_register || sink);
    };
    if (Skip("[")) {
      operand.kind = Operand::kAddress;
      add();
      if (Skip("+")) {
        operand.offset = static_cast<int64_t>(Number());
      } else if (Here().text == "-") {
        operand.offset = static_cast<int64_t>(Number());
      }
      Expect("]");
    } else if (Skip("{")) {
      operand.braces = true;
      do {
        add();
      } while (Skip(","));
      Expect("}");
    } else {
      add();
      if (Skip("|")) {
        operand.pair = true;
        add();
      }
    }
    return operand;
  }

  void ParseInstruction() {
    Instruction instruction;
    instruction.function = function_;
    if (Skip("@")) {
      instruction.guard_is = !Skip("!");
      bool is_register = false;
      instruction.guard = Value(&is_register);
      if (!is_register) Refuse(Here(), "a predicate must be a register");
    }
    const Token opcode = Here();
    instruction.line = opcode.line;
    Word();
    const std::string_view base = opcode.text.substr(0, opcode.text.find('.'));
    if (base == "call") {
      ParseCall(opcode, instruction);
    } else if (base == "bra") {
      branches_.emplace_back(function_->code.size(), Next());
      Fill(opcode, {}, instruction);
    } else {
      std::vector<Operand> operands;
      while (Here().text != ";") {
        operands.push_back(ParseOperand());
        if (Here().text != ";") Expect(",");
      }
      Fill(opcode, operands, instruction);
    }
    Expect(";");
    function_->code.push_back(instruction);
  }

  void Fill(const Token& opcode, const std::vector<Operand>& operands, Instruction& instruction) {
    Braces braces;
    if (!operands.empty() && operands[0].braces) braces.first = operands[0].slots.size();
    if (operands.size() > 1 && operands[1].braces) braces.second = operands[1].slots.size();
    const Decoded decoded = Decode(Opcode(opcode.text, operands.size(), braces), instruction);
    if (decoded.run == nullptr)
      Refuse(opcode, fmt::format("the instruction '{}' is not known", opcode.text));
    if (decoded.operands.size() != operands.size()) {
      Refuse(opcode, fmt::format("{} operands are expected", decoded.operands.size()));
    }
    instruction.run = decoded.run;
    for (const Operand& operand : operands) {
      if (operand.kind != Operand::kAddress) continue;
      AddSlot(opcode, instruction, operand.slots[0]);
      instruction.offset = operand.offset;
    }
    for (size_t i = 0; i < operands.size(); ++i)
      AddOperand(opcode, decoded.operands[i], operands[i], instruction);
  }

  void AddOperand(const Token& opcode, char expected, const Operand& operand,
                  Instruction& instruction) {
    const bool written = expected == 'd' || expected == 'D' || expected == 'q';
    const bool fits = (expected == 'a') == (operand.kind == Operand::kAddress) &&
                      (!operand.braces || expected == 'D' || expected == 'S') &&
                      (!operand.pair || expected == 'q') && (!written || operand.only_registers);
    if (!fits) Refuse(opcode, "an operand is of another kind than expected");
    if (expected == 'a') return;  // is there already
    for (const int slot : operand.slots) AddSlot(opcode, instruction, slot);
    if (expected == 'q' && !operand.pair) AddSlot(opcode, instruction, NewSlot(0));
  }

  void AddSlot(const Token& opcode, Instruction& instruction, int slot) {
    if (instruction.count == instruction.slot.size()) Refuse(opcode, "too many operands");
    instruction.slot[instruction.count++] = slot;
  }

  std::vector<std::string> ParseNames() {
    std::vector<std::string> names;
    Expect("(");
    while (!Skip(")")) {
      names.push_back(Word());
      if (Here().text != ")") Expect(",");
    }
    return names;
  }

  // call[.uni] [(result),] name[, (arguments)]
  void ParseCall(const Token& opcode, Instruction& instruction) {
    auto call = std::make_unique<Call>();
    if (Here().text == "(") {
      call->results = ParseNames();
      Expect(",");
    }
    const Token callee = Here();
    call->name = Word();
    if (Skip(",")) call->arguments = ParseNames();
    const auto find = [&](const std::string& name) {
      const auto found = param_sizes_.find(name);
      if (found == param_sizes_.end())
        Refuse(callee, fmt::format("'{}' is no .param variable", name));
      return found->second;
    };
    for (const std::string& name : call->arguments) {
      call->copies_in.emplace_back(find(name).offset, 0);
      call->sizes_in.push_back(find(name).bytes);
    }
    for (const std::string& name : call->results) {
      call->copies_out.emplace_back(find(name).offset, 0);
      call->sizes_out.push_back(find(name).bytes);
    }
    Fill(opcode, {}, instruction);
    instruction.call = call.get();
    calls_.emplace_back(call.get(), callee);
    function_->calls.push_back(std::move(call));
  }

  // What needs all of the text: callees, and where dynamic shared memory begins.
  void Finish() {
    for (auto& [call, token] : calls_) {
      const auto found = module_->functions.find(call->name);
      if (found == module_->functions.end() || !found->second->has_body) {
        Refuse(token, fmt::format("there is no function '{}' in this module", call->name));
      }
      const Function& callee = *found->second;
      if (callee.num_params != call->arguments.size() ||
          callee.num_results != call->results.size()) {
        Refuse(token, fmt::format("'{}' has other parameters", call->name));
      }
      call->callee = &callee;
      for (size_t i = 0; i < call->copies_in.size(); ++i) {
        call->copies_in[i].second = callee.params[i].offset;
        if (callee.params[i].bytes != call->sizes_in[i])
          Refuse(token, "a parameter has another size");
      }
      for (size_t i = 0; i < call->copies_out.size(); ++i) {
        const Variable& result = callee.params[callee.num_params + i];
        call->copies_out[i].second = result.offset;
        if (result.bytes != call->sizes_out[i]) Refuse(token, "a result has another size");
      }
    }
    Declared dynamic;
    dynamic.align = std::max<size_t>(dynamic_align_, 16);
    Place(shared_end_, dynamic);
    for (auto& [function, slot] : dynamic_slots_) {
      function->frame[static_cast<size_t>(slot)] = kFirstOffset + shared_end_;
    }
    for (auto& [name, function] : module_->functions) function->shared_bytes = shared_end_;
  }

  const std::string text_;
  std::unique_ptr<Module> module_ = std::make_unique<Module>();
  std::vector<Token> tokens_;
  size_t at_ = 0;
  Symbols symbols_;
  size_t shared_end_ = 0, dynamic_align_ = 1;
  std::vector<std::pair<Function*, int>> dynamic_slots_;
  std::vector<std::pair<Call*, Token>> calls_;
  // Of the function that is being read.
  Function* function_ = nullptr;
  std::map<std::string, Variable> param_sizes_;
  std::map<std::string, size_t> labels_;
  std::vector<std::pair<size_t, Token>> branches_;
};

}  // namespace

std::unique_ptr<Module> Parse(const std::string& name, const std::string& text) {
  return Parser(name, text).Run();
}

const Function* Module::Entry(const std::string& entry) const {
  const auto found = functions.find(entry);
  return found == functions.end() || !found->second->is_entry ? nullptr : found->second.get();
}

std::string Where(const Function& function, int line) {
  const auto index = static_cast<size_t>(line) - 1;
  return fmt::format("{}:{}: \"{}\" in {}", *function.module_name, line,
                     index < function.lines->size() ? (*function.lines)[index] : "", function.name);
}

}  // namespace carafe::vgpu::ptx
