// One instruction at a time.
#include <cmath>
#include <limits>

#include "tests/vgpu/ptx/testing.h"

namespace carafe::vgpu::ptx {
namespace {

struct IntegerCase {
  const char* text;
  uint64_t a, b, c, result;
};

uint64_t Signed(int64_t value) { return static_cast<uint64_t>(value); }
uint64_t Low32(int64_t value) { return static_cast<uint32_t>(value); }

TEST(PtxArithmetic, Integers) {
  const IntegerCase cases[] = {
      {"add.s64 %d, %a, %b;", 5, Signed(-7), 0, Signed(-2)},
      {"add.u64 %d, %a, 1;", ~uint64_t{0}, 0, 0, 0},
      {"sub.s32 %d, %a, %b;", 3, 5, 0, Low32(-2)},
      {"mul.lo.s32 %d, %a, %b;", 0x10001, 0x10001, 0, 0x20001},
      {"mul.lo.s64 %d, %a, %b;", Signed(-3), 7, 0, Signed(-21)},
      {"mul.hi.u32 %d, %a, %b;", 0xffffffff, 0xffffffff, 0, 0xfffffffe},
      {"mul.hi.s32 %d, %a, %b;", 0xffffffff, 2, 0, 0xffffffff},
      {"mul.hi.u64 %d, %a, %b;", ~uint64_t{0}, ~uint64_t{0}, 0, ~uint64_t{0} - 1},
      {"mul.wide.s32 %d, %a, %b;", Low32(-2), 3, 0, Signed(-6)},
      {"mul.wide.u32 %d, %a, %b;", 0xffffffff, 2, 0, 0x1fffffffe},
      {"mad.lo.s32 %d, %a, %b, %c;", 3, 4, 5, 17},
      {"mad.wide.u32 %d, %a, %b, %c;", 0xffffffff, 2, 1, 0x1ffffffff},
      {"div.s64 %d, %a, %b;", Signed(-7), 2, 0, Signed(-3)},
      {"div.s32 %d, %a, %b;", 0x80000000, Low32(-1), 0, 0x80000000},  // does not fit
      {"div.u64 %d, %a, %b;", Signed(-7), 2, 0, 0x7ffffffffffffffc},
      {"rem.s64 %d, %a, %b;", Signed(-7), 2, 0, Signed(-1)},
      {"rem.u32 %d, %a, %b;", 0xfffffff9, 10, 0, 9},
      {"abs.s32 %d, %a;", Low32(-5), 0, 0, 5},
      {"neg.s64 %d, %a;", 5, 0, 0, Signed(-5)},
      {"min.s64 %d, %a, %b;", Signed(-1), 1, 0, Signed(-1)},
      {"min.u64 %d, %a, %b;", Signed(-1), 1, 0, 1},
      {"max.s32 %d, %a, %b;", Low32(-1), 1, 0, 1},
      {"and.b64 %d, %a, -4294967296;", 0x123456789a, 0, 0, 0x1200000000},
      {"or.b32 %d, %a, %b;", 0xf0, 0x0f, 0, 0xff},
      {"xor.b64 %d, %a, %b;", 6, 3, 0, 5},
      {"not.b32 %d, %a;", 0, 0, 0, 0xffffffff},
      {"not.b16 %d, %a;", 1, 0, 0, 0xfffe},
      {"shl.b32 %d, %a, %b;", 3, 31, 0, 0x80000000},
      {"shl.b32 %d, %a, %b;", 3, 32, 0, 0},
      {"shl.b64 %d, %a, 4;", 3, 0, 0, 48},
      {"shr.u32 %d, %a, %b;", 0x80000000, 31, 0, 1},
      {"shr.s32 %d, %a, %b;", 0x80000000, 99, 0, 0xffffffff},
      {"shr.u64 %d, %a, 60;", Signed(-1), 0, 0, 15},
      {"shf.l.wrap.b32 %d, %a, %b, %c;", 0x80000001, 0x00000002, 33, 5},
      {"shf.r.clamp.b32 %d, %a, %b, %c;", 0x80000001, 0x00000002, 40, 2},
      {"popc.b64 %d, %a;", 0xff00ff, 0, 0, 16},
      {"clz.b32 %d, %a;", 1, 0, 0, 31},
      {"brev.b32 %d, %a;", 1, 0, 0, 0x80000000},
      {"bfe.u32 %d, %a, 4, 8;", 0xabcd, 0, 0, 0xbc},
      {"bfe.s32 %d, %a, 4, 8;", 0xabcd, 0, 0, 0xffffffbc},
      {"prmt.b32 %d, %a, %b, %c;", 0x33221100, 0x77665584, 0xc053, 0xff005533 & 0xff00ffff},
      {"lop3.b32 %d, %a, %b, %c, 0x96;", 0xf0, 0xcc, 0xaa, 0x96},  // a ^ b ^ c
      {"mov.b64 {%x0, %x1}, %a; mov.b64 %d, {%x1, %x0};", 0x1111111122222222, 0, 0,
       0x2222222211111111},
      {"mov.u32 %d, %a;", 0x1111111122222222, 0, 0, 0x22222222},
      {"mov.u64 %d, -3;", 0, 0, 0, Signed(-3)},
  };
  for (const IntegerCase& c : cases) {
    // Registers of 32 bits have no upper half: instructions of that type may leave anything there.
    const bool narrow = std::string(c.text).find("s32 %d") != std::string::npos &&
                        std::string(c.text).find("wide") == std::string::npos;
    const uint64_t mask = narrow ? 0xffffffff : ~uint64_t{0};
    EXPECT_EQ(Evaluate(c.text, {c.a, c.b, c.c}) & mask, c.result) << c.text;
  }
}

TEST(PtxArithmetic, DivisionByZeroIsAnError) {
  const std::string error = ErrorOf([] { Evaluate("div.s32 %d, %a, %b;", {1, 0}); });
  EXPECT_THAT(error, testing::HasSubstr("div.s32 %d, %a, %b"));
  EXPECT_THAT(error, testing::HasSubstr("divided by zero"));
  EXPECT_THAT(ErrorOf([] {
                Evaluate("rem.u64 %d, %a, %b;", {1, 0});
              }),
              testing::HasSubstr("divided by zero"));
}

constexpr float kInf = std::numeric_limits<float>::infinity(),
                kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

struct FloatCase {
  const char* text;
  float a, b, c, result;
};

TEST(PtxArithmetic, SinglePrecision) {
  const float third = 1.0f / 3, above = std::nextafter(third, 1.0f);
  const FloatCase cases[] = {
      {"add.f32 %d, %a, %b;", 1, 2, 0, 3},
      {"add.rn.f32 %d, %a, %b;", 1, 0x1p-25f, 0, 1},
      {"add.rp.f32 %d, %a, %b;", 1, 0x1p-30f, 0, 1 + 0x1p-23f},
      {"add.rz.f32 %d, %a, %b;", -1, -0x1p-30f, 0, -1},
      {"add.rm.f32 %d, %a, %b;", -1, -0x1p-30f, 0, -1 - 0x1p-23f},
      {"add.sat.f32 %d, %a, %b;", 1, 2, 0, 1},
      {"sub.f32 %d, %a, %b;", 1, 2, 0, -1},
      {"mul.f32 %d, %a, 0f40000000;", 3, 0, 0, 6},
      {"mul.ftz.f32 %d, %a, %b;", kTiny, 1e30f, 0, 0},
      {"fma.rn.f32 %d, %a, %b, %c;", 1 + 0x1p-12f, 1 + 0x1p-12f, -1 - 0x1p-11f,
       0x1p-24f},  // one rounding
      {"fma.rm.f32 %d, %a, %b, %c;", 1, 1, -0x1p-30f, 1 - 0x1p-24f},
      {"div.rn.f32 %d, %a, %b;", 1, 3, 0, third},
      {"div.rz.f32 %d, %a, %b;", 1, 3, 0, std::nextafter(third, 0.0f)},
      {"div.rm.f32 %d, %a, %b;", -1, 3, 0, -third},
      {"div.full.f32 %d, %a, %b;", 1, 3, 0, third},
      {"rcp.rn.f32 %d, %a;", 3, 0, 0, third},
      {"sqrt.rn.f32 %d, %a;", 2, 0, 0, std::sqrt(2.0f)},
      {"neg.f32 %d, %a;", 0, 0, 0, -0.0f},
      {"abs.f32 %d, %a;", -kInf, 0, 0, kInf},
      {"min.f32 %d, %a, %b;", kNan, 2, 0, 2},
      {"min.f32 %d, %a, %b;", 0, -0.0f, 0, -0.0f},
      {"max.f32 %d, %a, %b;", -0.0f, 0, 0, 0},
      {"max.NaN.f32 %d, %a, %b;", kNan, 2, 0, kNan},
      {"copysign.f32 %d, %a, %b;", -1, 2, 0, -2},  // the sign of a
      {"ex2.approx.ftz.f32 %d, %a;", 3, 0, 0, 8},
      {"ex2.approx.ftz.f32 %d, %a;", -140, 0, 0, 0},
      {"ex2.approx.f32 %d, %a;", -149, 0, 0, kTiny},
      {"lg2.approx.f32 %d, %a;", 8, 0, 0, 3},
      {"rcp.approx.ftz.f32 %d, %a;", -kTiny, 0, 0, -kInf},
      {"rsqrt.approx.f32 %d, %a;", 4, 0, 0, 0.5f},
      {"sin.approx.f32 %d, %a;", 0, 0, 0, 0},
      {"cvt.sat.f32.f32 %d, %a;", kNan, 0, 0, 0},
      {"cvt.sat.f32.f32 %d, %a;", 0.25f, 0, 0, 0.25f},
      {"cvt.rni.f32.f32 %d, %a;", 2.5f, 0, 0, 2},
      {"cvt.rmi.f32.f32 %d, %a;", -2.5f, 0, 0, -3},
      {"cvt.rpi.f32.f32 %d, %a;", 2.1f, 0, 0, 3},
      {"cvt.rzi.f32.f32 %d, %a;", -2.9f, 0, 0, -2},
  };
  for (const FloatCase& c : cases) {
    const uint64_t bits = Evaluate(c.text, {Bits(c.a), Bits(c.b), Bits(c.c)});
    if (std::isnan(c.result)) {
      EXPECT_TRUE(std::isnan(AsFloat(bits))) << c.text;
    } else {
      EXPECT_EQ(bits, Bits(c.result)) << c.text << " gives " << AsFloat(bits);
    }
  }
  EXPECT_EQ(above, std::nextafter(third, 1.0f));
}

TEST(PtxArithmetic, DoublePrecision) {
  EXPECT_EQ(AsDouble(Evaluate("add.rn.f64 %d, %a, %b;", {Bits(1.0), Bits(2.0)})), 3);
  EXPECT_EQ(AsDouble(Evaluate("add.rz.f64 %d, %a, %b;", {Bits(1.0), Bits(-0x1p-80)})), 1 - 0x1p-53);
  EXPECT_EQ(AsDouble(Evaluate("fma.rn.f64 %d, %a, %b, %c;",
                              {Bits(1 + 0x1p-30), Bits(1 + 0x1p-30), Bits(-1 - 0x1p-29)})),
            0x1p-60);
  EXPECT_EQ(AsDouble(Evaluate("div.rn.f64 %d, %a, %b;", {Bits(1.0), Bits(3.0)})), 1.0 / 3);
  EXPECT_EQ(AsDouble(Evaluate("sqrt.rn.f64 %d, %a;", {Bits(2.0)})), std::sqrt(2.0));
  EXPECT_EQ(AsDouble(Evaluate("mov.f64 %d, 0d3FF8000000000000;", {})), 1.5);
  EXPECT_EQ(AsDouble(Evaluate("max.f64 %d, %a, %b;", {Bits(1.0), Bits(2.0)})), 2);
}

// Only the upper half of operand and result counts: within 2^-20 of 1/a, and not equal to it.
TEST(PtxArithmetic, ReciprocalOfDoubleIsGross) {
  const double a = 2.9999999991234;
  const uint64_t bits = Evaluate("rcp.approx.ftz.f64 %d, %a;", {Bits(a)});
  EXPECT_EQ(bits & 0xffffffff, 0u);
  EXPECT_NE(AsDouble(bits), 1 / a);
  EXPECT_NEAR(AsDouble(bits) * a, 1, 0x1p-20 * 2);
}

TEST(PtxArithmetic, ConvertsBetweenNumbers) {
  const auto run = [](const char* text, uint64_t a) {
    return Evaluate(std::string(text) + " %d, %a;", {a});
  };
  EXPECT_EQ(run("cvt.s64.s32", Low32(-5)), Signed(-5));
  EXPECT_EQ(run("cvt.u64.u32", 0xfffffffb), 0xfffffffb);
  EXPECT_EQ(run("cvt.u32.u64", 0x1234567890), 0x34567890u);
  EXPECT_EQ(run("cvt.s32.s8", 0x80) & 0xffffffff, Low32(-128));
  EXPECT_EQ(run("cvt.sat.u8.s32", Low32(-5)), 0u);
  EXPECT_EQ(run("cvt.sat.u8.s32", 300), 255u);
  EXPECT_EQ(AsFloat(run("cvt.rn.f32.s64", Signed(-16777217))), -16777216.0f);
  EXPECT_EQ(AsFloat(run("cvt.rm.f32.s64", Signed(-16777217))), -16777218.0f);
  EXPECT_EQ(AsFloat(run("cvt.rn.f32.u16", 65535)), 65535.0f);
  EXPECT_EQ(AsDouble(run("cvt.f64.f32", Bits(0.1f))), double{0.1f});
  EXPECT_EQ(AsFloat(run("cvt.rn.f32.f64", Bits(0.1))), 0.1f);
  EXPECT_EQ(AsFloat(run("cvt.rz.f32.f64", Bits(0.1))), std::nextafter(0.1f, 0.0f));
  EXPECT_EQ(run("cvt.rzi.s64.f64", Bits(-2.9)), Signed(-2));
  EXPECT_EQ(run("cvt.rni.s32.f32", Bits(2.5f)), 2u);
  EXPECT_EQ(run("cvt.rzi.s32.f32", Bits(1e20f)), 0x7fffffffu);
  EXPECT_EQ(run("cvt.rzi.u32.f32", Bits(-1.0f)), 0u);
  EXPECT_EQ(run("cvt.rzi.s64.f32", Bits(-1e30f)), uint64_t{1} << 63);
  EXPECT_EQ(run("cvt.rzi.s32.f32", Bits(kNan)), 0u);
  EXPECT_EQ(run("cvt.rzi.s64.f32", Bits(kNan)), uint64_t{1} << 63);
}

TEST(PtxArithmetic, Compares) {
  const auto run = [](const std::string& how, uint64_t a, uint64_t b) {
    return Evaluate("setp." + how + " %p1, %a, %b; selp.u64 %d, 1, 0, %p1;", {a, b}) != 0;
  };
  EXPECT_TRUE(run("lt.s64", Signed(-1), 1));
  EXPECT_FALSE(run("lt.u64", Signed(-1), 1));
  EXPECT_TRUE(run("hi.u32", 0xffffffff, 1));
  EXPECT_TRUE(run("eq.b64", 7, 7));
  EXPECT_TRUE(run("ne.s16", 7, 8));
  EXPECT_TRUE(run("ge.s32", 7, 7));
  EXPECT_FALSE(run("eq.f32", Bits(kNan), Bits(kNan)));
  EXPECT_FALSE(run("ne.f32", Bits(kNan), Bits(1.0f)));
  EXPECT_TRUE(run("neu.f32", Bits(kNan), Bits(1.0f)));
  EXPECT_TRUE(run("gtu.f64", Bits(std::nan("")), Bits(1.0)));
  EXPECT_FALSE(run("gt.f64", Bits(std::nan("")), Bits(1.0)));
  EXPECT_TRUE(run("leu.f32", Bits(1.0f), Bits(1.0f)));
  EXPECT_TRUE(run("num.f32", Bits(1.0f), Bits(2.0f)));
  EXPECT_TRUE(run("nan.f32", Bits(1.0f), Bits(kNan)));
  EXPECT_EQ(
      Evaluate(
          "setp.lt.s32 %p2, 1, 2; setp.lt.and.s32 %p1|%p3, %a, %b, %p2; selp.u64 %d, 10, 20, %p3;",
          {5, 4}),
      10u);
  EXPECT_EQ(
      Evaluate("mov.pred %p1, -1; not.pred %p2, %p1; or.pred %p3, %p1, %p2; xor.pred %p3, %p3, %p1;"
               "selp.b64 %d, %a, %b, %p3;",
               {5, 4}),
      4u);
  EXPECT_EQ(Evaluate("testp.subnormal.f32 %p1, %a; selp.u64 %d, 1, 0, %p1;", {Bits(kTiny)}), 1u);
}

}  // namespace
}  // namespace carafe::vgpu::ptx
