#include "tests/vgpu/ptx/lexer.h"

#include <fmt/format.h>

#include <cctype>

#include "tests/vgpu/ptx/module.h"

namespace carafe::vgpu::ptx {
namespace {

bool IsWordStart(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}
bool IsWordPart(char c) {
  return IsWordStart(c) || std::isdigit(static_cast<unsigned char>(c)) || c == '.';
}
bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }

class Lexer {
 public:
  Lexer(const std::string& name, std::string_view text) : name_(name), text_(text) {}

  std::vector<Token> Run() {
    while (SkipBlanks()) {
      const Token token = Next();
      if (token.text == ".loc" || token.text == ".file") {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        tokens_.push_back(token);
      }
    }
    tokens_.push_back({Token::kEnd, "the end of the text", line_});
    return std::move(tokens_);
  }

 private:
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  // False at the end.
  bool SkipBlanks() {
    while (at_ < text_.size()) {
      if (Peek() == '\n') {
        ++line_;
        ++at_;
      } else if (std::isspace(static_cast<unsigned char>(Peek()))) {
        ++at_;
      } else if (Peek() == '/' && Peek(1) == '/') {
        while (at_ < text_.size() && Peek() != '\n') ++at_;
      } else if (Peek() == '/' && Peek(1) == '*') {
        while (at_ < text_.size() && !(Peek() == '*' && Peek(1) == '/'))
          line_ += text_[at_++] == '\n' ? 1 : 0;
        at_ += 2;
      } else {
        return true;
      }
    }
    return false;
  }

  Token Next() {
    const size_t begin = at_++;
    const char first = text_[begin];
    Token::Kind kind = Token::kSign;
    if (IsWordStart(first)) {
      // "::" as in "L1::no_allocate" belongs to the word, ":" of a label does not.
      while (IsWordPart(Peek()) || (Peek() == ':' && Peek(1) == ':')) at_ += Peek() == ':' ? 2 : 1;
      kind = Token::kWord;
    } else if (first == '.' && IsWordStart(Peek())) {
      while (IsWordPart(Peek()) && Peek() != '.') ++at_;
      kind = Token::kDirective;
    } else if (IsDigit(first)) {
      while (IsWordPart(Peek()) && Peek() != '%' && Peek() != '$') ++at_;
      kind = Token::kNumber;
    } else if (first == '"') {
      while (at_ < text_.size() && Peek() != '"' && Peek() != '\n') ++at_;
      if (Peek() != '"') throw Error(fmt::format("{}:{}: a string without an end", name_, line_));
      ++at_;
      kind = Token::kString;
    } else if (std::string_view("{}()[]<>,;:+-!@|=").find(first) == std::string_view::npos) {
      throw Error(fmt::format("{}:{}: the character '{}' is not known", name_, line_, first));
    }
    return {kind, text_.substr(begin, at_ - begin), line_};
  }

  const std::string& name_;
  const std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(const std::string& name, std::string_view text) {
  return Lexer(name, text).Run();
}

}  // namespace carafe::vgpu::ptx
