// Functions that a GPU approximates: ex2 lg2 rcp sqrt rsqrt sin cos tanh div. NVIDIA states bounds
// of the error (PTX ISA): 2 ulp for most in single precision, 2^-20.5 to 2^-22 absolute for sin,
// cos, lg2, 2^-10.9 relative for tanh. Here they are correctly rounded but for the last ulp, which
// lies within all of them. rcp.approx.ftz.f64 keeps the upper 32 bits of operand and result, as PTX
// says, so its error is that of hardware: up to 2^-20.
#include <bit>
#include <cmath>

#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/rounding.h"
#include "tests/vgpu/ptx/thread.h"

namespace carafe::vgpu::ptx {
namespace {

struct PowerOfTwo {
  static double Of(double a) { return std::exp2(a); }
};
struct Logarithm {
  static double Of(double a) { return std::log2(a); }
};
struct Reciprocal {
  static double Of(double a) { return 1 / a; }
};
struct SquareRoot {
  static double Of(double a) { return std::sqrt(a); }
};
struct ReciprocalRoot {
  static double Of(double a) { return 1 / std::sqrt(a); }
};
struct Sine {
  static double Of(double a) { return std::sin(a); }
};
struct Cosine {
  static double Of(double a) { return std::cos(a); }
};
struct HyperbolicTangent {
  static double Of(double a) { return std::tanh(a); }
};

template <typename F>
void Single(Thread& t, const Instruction& i) {
  const float a = Flushed(i, t.Operand<float>(i, 1));
  t.Result<float>(i, Flushed(i, static_cast<float>(F::Of(double{a}))));
}
void Quotient(Thread& t, const Instruction& i) {
  const float a = Flushed(i, t.Operand<float>(i, 1)), b = Flushed(i, t.Operand<float>(i, 2));
  t.Result<float>(i, Flushed(i, static_cast<float>(double{a} / double{b})));
}

double UpperHalf(double value) {
  if (std::isnan(value)) return std::numeric_limits<double>::quiet_NaN();
  return std::bit_cast<double>(std::bit_cast<uint64_t>(value) >> 32 << 32);
}
template <typename F>
void Gross(Thread& t, const Instruction& i) {
  const double a = Flushed(i, UpperHalf(t.Operand<double>(i, 1)));
  t.Result<double>(i, UpperHalf(Flushed(i, F::Of(a))));
}

}  // namespace

Decoded DecodeApproximate(Opcode& opcode, Instruction& instruction) {
  const std::string_view base = opcode.base();
  const bool full = base == "div" && opcode.Take("full");
  if (!full && !opcode.Take("approx")) return {};
  instruction.flush = opcode.Take("ftz");
  const std::optional<Type> type = opcode.TakeType();
  if (type == Type::kF64 && instruction.flush) {
    if (base == "rcp") return {Gross<Reciprocal>, "ds"};
    if (base == "rsqrt") return {Gross<ReciprocalRoot>, "ds"};
  }
  if (type != Type::kF32) return {};
  if (base == "ex2") return {Single<PowerOfTwo>, "ds"};
  if (base == "lg2") return {Single<Logarithm>, "ds"};
  if (base == "rcp") return {Single<Reciprocal>, "ds"};
  if (base == "sqrt") return {Single<SquareRoot>, "ds"};
  if (base == "rsqrt") return {Single<ReciprocalRoot>, "ds"};
  if (base == "sin") return {Single<Sine>, "ds"};
  if (base == "cos") return {Single<Cosine>, "ds"};
  if (base == "tanh" && !instruction.flush) return {Single<HyperbolicTangent>, "ds"};
  if (base == "div") return {Quotient, "dss"};
  return {};
}

}  // namespace carafe::vgpu::ptx
